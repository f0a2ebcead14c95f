// Package connectortest has the conformance suites of connectors: [Source] holds a
// stream.Source to replay, [Sink] a stream.Sink to two-phase commit. Authors of
// connectors run them in their own tests:
//
//	func TestConformance(t *testing.T) {
//		connectortest.Sink(t, connectortest.SinkHarness[row.Row]{
//			New:     func(t *testing.T, fsys vfs.FS) stream.Sink[row.Row] { ... },
//			Value:   func(i int) row.Row { ... },
//			Visible: func(t *testing.T, fsys vfs.FS) []int { ... },
//		})
//	}
//
// The suite of sinks runs on a file system in memory that fails and crashes by seed:
// it never sleeps, and repeats exactly.
package connectortest

package blackhole_test

import (
	"testing"

	"cutwater/connector/blackhole"
	"cutwater/connector/connectortest"
	"cutwater/messages"
	"cutwater/storage/vfs"
	"cutwater/stream"
	"cutwater/stream/catalog"
)

// The count keeps the contract within a process, over restarts of the job.
func TestConformance(t *testing.T) {
	var counter *blackhole.Counter
	var disk vfs.FS
	connectortest.Sink(t, connectortest.SinkHarness[int]{
		New: func(_ *testing.T, fsys vfs.FS) stream.Sink[int] {
			if fsys != disk { // a new case
				disk, counter = fsys, &blackhole.Counter{}
			}
			return blackhole.New[int](counter)
		},
		Value: func(i int) int { return i },
		Visible: func(*testing.T, vfs.FS) []int {
			seen := make([]int, counter.Committed())
			for i := range seen {
				seen[i] = i
			}
			return seen
		},
		Volatile: true,
	})
}

// A damaged committable is an error, not a count.
func TestDamaged(t *testing.T) {
	s, err := blackhole.Spec().New(catalog.Values{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), stream.SinkContext{}, &messages.Committable{Payload: []byte{0xff}}); err == nil {
		t.Error("no error")
	}
}

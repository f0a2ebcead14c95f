// Package failpoint names the places at which a test kills the process, to prove
// that a restart repairs whatever was half done there.
//
// In an ordinary build [Hit] is an empty function that the compiler removes. In a
// build with the tag `failpoints` the environment variable
//
//	CUTWATER_FAILPOINT=commit-linked:3
//
// kills the process with SIGKILL at the third hit of commit-linked; without a
// number it is the first.
package failpoint

// Name is a place.
type Name string

// The places, in the order in which a checkpoint passes them.
const (
	// SegmentWritten: a state file is durable, and nothing refers to it yet.
	SegmentWritten Name = "segment-written"
	// SinkPrepared: a sink's part is durable, and its committable is in no
	// checkpoint yet.
	SinkPrepared Name = "sink-prepared"
	// MetadataLinked: `_metadata` has its name, which may not be durable yet.
	MetadataLinked Name = "metadata-linked"
	// CompletionRecorded: the checkpoint is complete, and nobody was told.
	CompletionRecorded Name = "completion-recorded"
	// NotifySent: the tasks were told.
	NotifySent Name = "notify-sent"
	// CommitLinked: a sink's part is visible, which may not be durable yet.
	CommitLinked Name = "commit-linked"
	// CommitSynced: the commit is durable, and its committable is still in state.
	CommitSynced Name = "commit-synced"
)

// Names lists all places.
func Names() []Name {
	return []Name{SegmentWritten, SinkPrepared, MetadataLinked, CompletionRecorded, NotifySent, CommitLinked, CommitSynced}
}

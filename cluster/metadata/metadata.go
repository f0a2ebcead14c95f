// Package metadata keeps the log of metadata commands (protocol/metadata) and is
// how a node asks and changes the truth about jobs.
//
// A [Store] is the log, wherever it lives: [Local] keeps it in one file of one
// process; package replicated keeps it on several nodes; [Model] keeps it in memory
// and loses answers when a test tells it to.
// Package metadatatest is what every implementation must pass.
//
// A result of Propose with the outcome UNKNOWN is not a failure: the command may
// have been applied, or may still be. Only reading the job tells.
package metadata

import (
	"context"
	"errors"

	"cutwater/cluster/metadata/internal/boltfile"
	"cutwater/messages"
)

// Store is a log of metadata commands with the state machine on top. It is safe
// for concurrent use.
type Store interface {
	// Propose appends the command durably, applies it and returns its result. It
	// may block. An error means that the command was not applied and never will
	// be; where the store cannot know, the result's outcome is UNKNOWN.
	Propose(ctx context.Context, command *messages.MetadataCommand) (*messages.MetadataResult, error)
	// Job reads the job's record, linearizably: every command whose Propose
	// returned before is in it. A job that does not exist is an empty record.
	Job(ctx context.Context, job string) (*messages.JobRecord, error)
	// Jobs reads all records, ordered by job id.
	Jobs(ctx context.Context) ([]*messages.JobRecord, error)
	// Standing reads, linearizably, how those jobs stand that have changed in this since
	// a revision, and the revision for the next reading: of each record the epoch, the
	// coordinator, the status and the deployment. 0 reads all. A revision serves as
	// long as the same node leads.
	Standing(ctx context.Context, since uint64) (records []*messages.JobRecord, revision uint64, err error)
	// Close releases the store; later calls return ErrClosed.
	Close() error
}

// Sentinels by which callers decide; the errors that wrap them say what to do.
var (
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("metadata: the store is closed")
	// ErrUnavailable: the store cannot take the command or serve the read now, for
	// example without a leader. It was not applied, and may be proposed again.
	ErrUnavailable = errors.New("metadata: the store is not available now")
	// ErrLocked: another process has the store open.
	ErrLocked = boltfile.ErrLocked
	// ErrCorrupt: the file is not what was written.
	ErrCorrupt = boltfile.ErrCorrupt
	// ErrNewerFormat: written by a newer version of the program.
	ErrNewerFormat = boltfile.ErrNewerFormat
)

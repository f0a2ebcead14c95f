package node

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"time"
	"unicode/utf8"

	"cutwater/actors/system"
	"cutwater/cluster/metadata"
	"cutwater/messages"
	"cutwater/protocol"
	"cutwater/storage/vfs"
	"cutwater/stream/operator"
)

// ErrDataDirInUse: another process works on the data directory.
var ErrDataDirInUse = errors.New("the data directory is in use by another process")

// ProcessOptions describe a node of its own process.
type ProcessOptions struct {
	// DataDir is absolute; it is made if missing and locked while the process
	// lives.
	DataDir string
	FS      vfs.FS
	// Programs finds the code of a job by name.
	Programs func(name string) (operator.Program, error)
	// ChannelMemoryBytes bounds the memory of channels; see Deps.
	ChannelMemoryBytes int64
	// Event is told what happens; see Deps.Event.
	Event func(protocol.Event)
}

// Process is a node that has a process, a clock and a disk.
type Process struct {
	*Runtime
	lock     io.Closer
	pool     *system.Pool
	metadata metadata.Store
}

// executorSlots bounds the blocking work that runs at once.
const executorSlots = 64

// Open starts a node. Close ends it.
func Open(o ProcessOptions) (*Process, error) {
	lock, err := lockDataDir(o.FS, o.DataDir)
	if err != nil {
		return nil, err
	}
	store, err := metadata.OpenLocal(path.Join(o.DataDir, "metadata.db"), metadata.LocalOptions{})
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	p := &Process{lock: lock, pool: system.NewPool(executorSlots), metadata: store}
	sys := system.New(system.Options{Node: "local", Clock: system.NewWallClock(), Executor: p.pool})
	p.Runtime, err = NewRuntime(Deps{
		System: sys, FS: o.FS, Metadata: store, Programs: o.Programs, Random: random, ChannelMemoryBytes: o.ChannelMemoryBytes,
		ScratchDir: path.Join(o.DataDir, "scratch"), CopiesDir: path.Join(o.DataDir, "local"), Event: o.Event,
	})
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// lockDataDir makes the data directory if it is missing, and keeps other processes out
// until the lock is closed. The error wraps ErrDataDirInUse, or is that of the disk.
func lockDataDir(fsys vfs.FS, dir string) (io.Closer, error) {
	if !utf8.ValidString(dir) {
		return nil, fmt.Errorf("the name of the data directory %q is not UTF-8 text, which records of checkpoints need; give it another name", dir)
	}
	if err := fsys.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("the data directory cannot be made: %w", err)
	}
	lock, err := fsys.Lock(path.Join(dir, "lock"))
	switch {
	case errors.Is(err, vfs.ErrLocked):
		return nil, fmt.Errorf("%w: %s; stop that process, or give this one its own --data-dir", ErrDataDirInUse, dir)
	case err != nil:
		return nil, fmt.Errorf("the data directory cannot be locked: %w", err)
	}
	return lock, nil
}

// random returns 64 random bits of the operating system.
func random() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:])
}

// NewJobID returns a fresh job id.
func NewJobID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// Find returns the record of the newest job of that name, or nil.
func (p *Process) Find(ctx context.Context, name string) (*messages.JobRecord, error) {
	jobs, err := p.metadata.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	var newest *messages.JobRecord
	for _, r := range jobs {
		if r.Name == name && (newest == nil || r.CreatedMs > newest.CreatedMs) {
			newest = r
		}
	}
	return newest, nil
}

// RefusedError: the metadata store refuses the command, for a reason that a
// person can act on.
type RefusedError struct{ Reason string }

// Error is the reason.
func (e *RefusedError) Error() string { return e.Reason }

// Register makes a job known, or gives a known one its present graph and
// settings, so that StartJob can start it. It returns the job's incarnation. The
// error is a *RefusedError, or the store's.
func (p *Process) Register(ctx context.Context, r *messages.RegisterJob) (incarnation uint64, err error) {
	r.AtMs = time.Now().UnixMilli()
	result, err := p.metadata.Propose(ctx, &messages.MetadataCommand{Command: &messages.MetadataCommand_RegisterJob{RegisterJob: r}})
	if err != nil {
		return 0, err
	}
	if result.Outcome != messages.MetadataOutcome_APPLIED {
		return 0, &RefusedError{result.Failure}
	}
	return result.Incarnation, nil
}

// closeTimeout is how long Close waits for the actors: each ends after the message
// that it handles, so only a function of a user's that does not return is slower.
const closeTimeout = 10 * time.Second

// Close stops the actors, waits until they have stopped and the work that runs has
// ended, and lets the data directory go. Whoever does not stop in time is named in
// the error and left to itself.
func (p *Process) Close() error {
	var late error
	if p.Runtime != nil {
		late = p.stopActors(closeTimeout)
		_ = p.SweepCopies(context.Background()) // what stays takes space, until the next time
	}
	p.pool.Close()
	return errors.Join(late, p.metadata.Close(), p.lock.Close())
}

// stopActors ends them, and returns an error about those that do not stop in time.
func (p *Process) stopActors(timeout time.Duration) error {
	sys := p.deps.System
	sys.StopAll()
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	select {
	case <-sys.AllStopped():
		return nil
	case <-deadline.C:
		return fmt.Errorf("after %s these had not stopped: %v; a function of theirs does not return, and what it holds open stays so until the process ends", timeout, sys.Running())
	}
}

package metadata

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"

	"cutwater/messages"
	"cutwater/protocol/metadata"
	"cutwater/storage/boltdb"
)

// LocalOptions tune a Local.
type LocalOptions struct {
	// SnapshotEvery is after how many commands the log is replaced by a snapshot;
	// 0 means 1024. More makes opening slower, less makes every n-th command
	// slower.
	SnapshotEvery int
	// LockTimeoutMs is how long to wait for another process to let go; 0 means
	// 200 ms.
	LockTimeoutMs int64
}

const (
	defaultSnapshotEvery = 1024
	defaultLockTimeoutMs = 200
	// maxBatch is how many waiting commands one fsync makes durable.
	maxBatch = 256
)

// Local keeps the log in one bbolt file, for a node on its own. A command is
// answered after its entry is on disk; commands that wait at the same time share
// an fsync. Opening replays the log over the newest snapshot.
type Local struct {
	path    string
	options LocalOptions
	db      *boltdb.DB
	queue   chan *proposal
	stop    chan struct{} // closed by Close
	stopped chan struct{} // closed by the writer

	mu      sync.Mutex
	machine metadata.Machine
	logged  int   // entries since the snapshot
	broken  error // why nothing can be promised any more
	closed  bool
}

type proposal struct {
	command *messages.MetadataCommand
	body    []byte // the command as it is logged
	result  *messages.MetadataResult
	err     error
	done    chan struct{}
}

// OpenLocal opens the log in the file, which it makes if there is none: whole, or,
// after an error or a crash, not at all. Its directory must exist, and be the
// caller's alone. The errors are ErrLocked, ErrCorrupt, ErrNewerFormat, or those
// of the file system.
func OpenLocal(path string, o LocalOptions) (*Local, error) {
	if o.SnapshotEvery == 0 {
		o.SnapshotEvery = defaultSnapshotEvery
	}
	if o.LockTimeoutMs == 0 {
		o.LockTimeoutMs = defaultLockTimeoutMs
	}
	l := &Local{
		path:    path,
		options: o,
		queue:   make(chan *proposal, maxBatch),
		stop:    make(chan struct{}),
		stopped: make(chan struct{}),
	}
	if err := l.open(); err != nil {
		return nil, err
	}
	go l.write()
	return l, nil
}

func (l *Local) open() error {
	lockTimeout := time.Duration(l.options.LockTimeoutMs) * time.Millisecond
	db, err := layout.Open(l.path, lockTimeout)
	if err != nil {
		return err
	}
	if err := db.View(l.replay); err != nil {
		return errors.Join(err, db.Close())
	}
	l.db = db
	return nil
}

// Propose implements Store.
func (l *Local) Propose(ctx context.Context, command *messages.MetadataCommand) (*messages.MetadataResult, error) {
	body, err := encode(command)
	if err != nil {
		return nil, fmt.Errorf("metadata: the command cannot be encoded: %w", err)
	}
	p := &proposal{command: command, body: body, done: make(chan struct{})}
	select {
	case <-l.stop:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	case l.queue <- p:
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		// It is in the queue and may be applied yet.
		return &messages.MetadataResult{Outcome: messages.MetadataOutcome_UNKNOWN, Failure: ctx.Err().Error()}, nil
	case <-l.stopped:
		select {
		case <-p.done:
		default:
			return nil, ErrClosed // the writer has ended without it
		}
	}
	return p.result, p.err
}

// Job implements Store.
func (l *Local) Job(_ context.Context, job string) (*messages.JobRecord, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return nil, err
	}
	if r := l.machine.Job(job); r != nil {
		return r, nil
	}
	return &messages.JobRecord{}, nil
}

// Jobs implements Store.
func (l *Local) Jobs(context.Context) ([]*messages.JobRecord, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return nil, err
	}
	return l.machine.Jobs(), nil
}

// Standing implements Store.
func (l *Local) Standing(_ context.Context, since uint64) ([]*messages.JobRecord, uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return nil, 0, err
	}
	return l.machine.Standing(since), l.machine.Index(), nil
}

func (l *Local) usable() error {
	if l.closed {
		return ErrClosed
	}
	return l.broken
}

// Close implements Store. It waits for the commands that are being written.
func (l *Local) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	l.mu.Unlock()
	close(l.stop)
	<-l.stopped
	return l.db.Close()
}

// write is the only writer: it takes what waits, makes it durable with one
// fsync, applies and answers it.
func (l *Local) write() {
	defer close(l.stopped)
	for {
		var batch []*proposal
		select {
		case <-l.stop:
			return
		case p := <-l.queue:
			batch = append(batch, p)
		}
	more:
		for len(batch) < maxBatch {
			select {
			case p := <-l.queue:
				batch = append(batch, p)
			default:
				break more
			}
		}
		l.commit(batch)
		for _, p := range batch {
			close(p.done)
		}
	}
}

// commit appends and applies a batch. Readers wait for it, so that what they see
// is durable.
func (l *Local) commit(batch []*proposal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		for _, p := range batch {
			p.err = l.broken
		}
		return
	}
	first := l.machine.Index() + 1
	compact := l.logged >= l.options.SnapshotEvery
	err := l.db.Update(func(tx *bolt.Tx) error {
		if compact {
			if err := putSnapshot(tx, l.machine.Snapshot()); err != nil {
				return err
			}
		}
		for i, p := range batch {
			if err := putEntry(tx, first+uint64(i), p.body); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		l.failed(batch, first, err)
		return
	}
	if compact {
		l.logged = 0
	}
	l.logged += len(batch)
	for i, p := range batch {
		p.result = l.machine.Apply(first+uint64(i), p.command)
	}
}

// unwritten is a failure of the disk below the log. It is one of input and output
// by its kind, because of some failures bbolt keeps the text alone.
type unwritten struct {
	path  string
	cause error
}

// Error says which file, why, and what to do.
func (e *unwritten) Error() string {
	return fmt.Sprintf("metadata: %s cannot be written: %v; free disk space or repair the disk", e.path, e.cause)
}

// Unwrap returns the cause and the kind.
func (e *unwritten) Unwrap() []error { return []error{e.cause, syscall.EIO} }

// failed answers a batch whose transaction failed. If its entries are not in the
// file, nothing happened and the next command may succeed. If they are, the
// failure was that of the fsync, and nobody can say what a crash would leave:
// only opening the file again tells. The same goes for a file that turns out to be
// damaged.
func (l *Local) failed(batch []*proposal, first uint64, cause error) {
	written := false
	err := l.db.View(func(tx *bolt.Tx) error {
		written = tx.Bucket(logBucket).Get(indexKey(first)) != nil
		return nil
	})
	switch damaged := l.db.Broken(); {
	case damaged != nil:
		l.broken = damaged
	case written || err != nil:
		l.broken = fmt.Errorf("%w; then restart the node", &unwritten{l.path, cause})
	default:
		for _, p := range batch {
			p.err = &unwritten{l.path, cause}
		}
		return
	}
	for _, p := range batch {
		p.result = &messages.MetadataResult{Outcome: messages.MetadataOutcome_UNKNOWN, Failure: l.broken.Error()}
	}
}

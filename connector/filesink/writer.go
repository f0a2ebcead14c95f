package filesink

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"path"
	"sync"
	"sync/atomic"

	"cutwater/messages"
	"cutwater/storage/failpoint"
	"cutwater/storage/vfs"
	"cutwater/stream"
	"cutwater/stream/row"
)

// writer collects rows in memory and writes them when asked to. The task uses
// buffer; the work that it hands out uses the fields below mu.
type writer struct {
	sink    *Sink
	context stream.SinkContext
	buffer  []byte
	// spare is a buffer whose content is on disk, or nil.
	spare atomic.Pointer[[]byte]

	mu sync.Mutex
	// file is the open part, or nil between two parts.
	file   vfs.File
	part   part
	number int
	// failed is why rows were lost. The next work says it again: only a restore
	// brings those rows back.
	failed error
}

// Write implements stream.SinkWriter.
func (w *writer) Write(v row.Row, _ int64) error {
	w.buffer = w.sink.encoder.Append(w.buffer, v)
	return nil
}

// Buffered implements stream.SinkWriter.
func (w *writer) Buffered() int { return len(w.buffer) }

// Flush implements stream.SinkWriter.
func (w *writer) Flush() func(context.Context) error {
	full := w.take()
	return func(ctx context.Context) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.write(ctx, full)
	}
}

// Prepare implements stream.SinkWriter.
func (w *writer) Prepare(checkpoint uint64) func(context.Context) ([]*messages.Committable, error) {
	rest := w.take()
	return func(ctx context.Context) ([]*messages.Committable, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if err := w.write(ctx, rest); err != nil || w.file == nil {
			return nil, err
		}
		committable, err := w.seal(checkpoint)
		if err != nil {
			return nil, w.fail("make durable", err)
		}
		failpoint.Hit(failpoint.SinkPrepared)
		return []*messages.Committable{committable}, nil
	}
}

// take swaps the full buffer for an empty one.
func (w *writer) take() []byte {
	full := w.buffer
	w.buffer = nil
	if spare := w.spare.Swap(nil); spare != nil {
		w.buffer = *spare
	}
	return full
}

// write appends rows to the open part and opens one if there is none.
func (w *writer) write(ctx context.Context, rows []byte) error {
	if w.failed != nil {
		return w.failed
	}
	if len(rows) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return w.fail("write", err)
	}
	if w.file == nil {
		if err := w.open(); err != nil {
			return w.fail("make", err)
		}
	}
	if err := w.append(rows); err != nil {
		return w.fail("write", err)
	}
	rows = rows[:0]
	w.spare.Store(&rows)
	return nil
}

func (w *writer) open() error {
	w.number++
	w.part = part{Dir: w.sink.config.Dir, Job: w.context.Job, Pending: pendingName(w.context, w.number)}
	// Start made the folder, perhaps on another node.
	if err := w.context.FS.MkdirAll(w.sink.pendingDir(w.context)); err != nil {
		return err
	}
	f, err := w.context.FS.Create(w.part.pendingPath())
	if err != nil {
		return err
	}
	w.file = f
	return w.append(w.sink.encoder.AppendHeader(nil))
}

func (w *writer) append(b []byte) error {
	n, err := w.file.Write(b)
	w.part.Size += int64(n)
	w.part.Checksum = crc32.Update(w.part.Checksum, castagnoli, b[:n])
	return err
}

// seal ends the part: content and name are durable after it.
func (w *writer) seal(checkpoint uint64) (*messages.Committable, error) {
	f := w.file
	w.file = nil
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return nil, err
	}
	if err := w.context.FS.SyncDir(path.Dir(w.part.pendingPath())); err != nil {
		return nil, err
	}
	w.part.Visible = visibleName(w.context, checkpoint, w.sink.config.Format)
	payload, err := encodePart(&w.part)
	if err != nil {
		return nil, err
	}
	return &messages.Committable{
		Job:         w.context.Job,
		Incarnation: w.context.Incarnation,
		Checkpoint:  checkpoint,
		Uid:         w.context.Uid,
		Subtask:     uint32(w.context.Subtask),
		Payload:     payload,
	}, nil
}

// fail keeps the reason for good.
func (w *writer) fail(what string, err error) error {
	w.failed = fmt.Errorf("file sink %q: %s the file %s: %w: look at the disk; the job restarts from its last checkpoint",
		w.context.Uid, what, w.part.pendingPath(), err)
	return w.failed
}

// Close implements stream.SinkWriter.
func (w *writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed == nil {
		w.failed = fmt.Errorf("file sink %q: subtask %d is closed", w.context.Uid, w.context.Subtask)
	}
	if w.file == nil {
		return nil
	}
	f := w.file
	w.file = nil
	return errors.Join(f.Close(), w.part.removePending(w.context.FS))
}

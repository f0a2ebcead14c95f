package local

import (
	"errors"
	"fmt"
	"io"
	"path"

	"cutwater/storage/vfs"
)

// tee writes to the checkpoint, and what that took to the copy.
type tee struct {
	out  io.Writer
	copy *writing
}

func (t *tee) Write(p []byte) (int, error) {
	n, err := t.out.Write(p)
	t.copy.write(p[:n])
	return n, err
}

// writing is a copy that is being written. It never fails: with the first error it is
// given up. It is in memory until it is large enough, since small state ends in the
// checkpoint's metadata and needs no file.
type writing struct {
	store     *Store
	name      string
	buffer    []byte
	file      vfs.File
	temporary string
	failure   error
}

const bufferBytes = 64 << 10

func (w *writing) write(p []byte) {
	if w.failure != nil {
		return
	}
	if w.buffer = append(w.buffer, p...); len(w.buffer) >= bufferBytes {
		w.failure = w.flush()
	}
}

func (w *writing) flush() (err error) {
	if w.file == nil {
		dir := w.store.dir()
		if err := w.store.copies.fs.MkdirAll(dir); err != nil {
			return err
		}
		w.temporary = path.Join(dir, fmt.Sprintf("%s%s.%d", temporaryPrefix, w.name, w.store.copies.temporaries.Add(1)))
		if w.file, err = w.store.copies.fs.Create(w.temporary); err != nil {
			return err
		}
	}
	_, err = w.file.Write(w.buffer)
	w.buffer = w.buffer[:0]
	return err
}

// keep makes what was written the copy of that name, without syncing it: after a loss of
// power its hash tells.
func (w *writing) keep(name string) {
	if w.failure == nil {
		w.failure = w.flush()
	}
	if w.file != nil {
		w.failure = errors.Join(w.failure, w.file.Close())
		w.file = nil
	}
	if w.failure == nil {
		w.failure = w.store.copies.fs.Rename(w.temporary, path.Join(w.store.dir(), name))
	}
	if w.failure == nil {
		return
	}
	w.abandon()
	w.store.copies.dropped.Add(1)
	w.store.tell("local copy dropped", fmt.Sprintf("a restart will read the checkpoint directory instead: %v", w.failure))
}

// abandon leaves no file behind, if the disk lets it.
func (w *writing) abandon() {
	if w.file != nil {
		_ = w.file.Close()
	}
	if w.temporary != "" {
		_ = w.store.copies.fs.Remove(w.temporary)
	}
}

package filestore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/cespare/xxhash/v2"

	"cutwater/messages"
	"cutwater/storage"
	"cutwater/storage/failpoint"
	"cutwater/storage/vfs"
)

// Prepare implements storage.Store. A savepoint's directory must be new.
func (s *Store) Prepare(ctx context.Context, checkpoint uint64, target string) error {
	dir, err := s.directory(checkpoint, target)
	if err != nil {
		return err
	}
	dirs := []string{dir}
	if target == "" {
		dirs = append(dirs, path.Join(s.root, sharedName))
	}
	for _, dir := range dirs {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.fs.MkdirAll(dir); err != nil {
			return describe("make the checkpoint directory", dir, err)
		}
	}
	if target == "" {
		return nil
	}
	if _, err := s.fs.Stat(path.Join(dir, storage.MetadataName)); err == nil {
		return fmt.Errorf("%s holds a savepoint already: choose another directory: %w", dir, storage.ErrPublished)
	}
	return nil
}

// Write implements storage.Store. Content that stays below the threshold never
// touches the disk.
func (s *Store) Write(ctx context.Context, w storage.StateFile, content func(io.Writer) error) (*messages.StateHandle, error) {
	out := &stateWriter{ctx: ctx, store: s, file: w}
	h, err := out.write(content)
	if err != nil {
		out.abandon()
		return nil, fmt.Errorf("state of %q for checkpoint %d: %w", w.Uid, w.Checkpoint, err)
	}
	return h, nil
}

// stateWriter collects content in memory until it is too large to be inline, and
// from then on writes it to a temporary file.
type stateWriter struct {
	ctx   context.Context
	store *Store
	file  storage.StateFile

	small []byte
	open  vfs.File
	// out writes to open through a buffer.
	out  *bufio.Writer
	size uint64
	hash xxhash.Digest

	dir       string
	temporary string
	published string
}

const fileBuffer = 64 << 10

func (o *stateWriter) write(content func(io.Writer) error) (*messages.StateHandle, error) {
	o.hash.Reset()
	if err := content(o); err != nil {
		return nil, err
	}
	if err := o.ctx.Err(); err != nil {
		return nil, err
	}
	if o.open == nil {
		return &messages.StateHandle{Where: &messages.StateHandle_Inline{Inline: append([]byte{}, o.small...)}}, nil
	}
	if err := o.finish(); err != nil {
		return nil, err
	}
	failpoint.Hit(failpoint.SegmentWritten)
	name := o.published
	if o.file.Target == "" {
		name = path.Join(path.Base(o.dir), path.Base(o.published))
	}
	return &messages.StateHandle{Where: &messages.StateHandle_File{File: &messages.StateFile{
		Path: name, Size: o.size, Hash: o.hash.Sum64(),
	}}}, nil
}

// Write takes a part of the content.
func (o *stateWriter) Write(p []byte) (int, error) {
	if err := o.ctx.Err(); err != nil {
		return 0, err
	}
	if o.open == nil {
		if len(o.small)+len(p) <= o.store.inline {
			o.small = append(o.small, p...)
			return len(p), nil
		}
		if err := o.spill(); err != nil {
			return 0, err
		}
	}
	n, err := o.out.Write(p)
	o.size += uint64(n)
	_, _ = o.hash.Write(p[:n]) // A hash takes everything.
	if err != nil {
		return n, describe("write the state file", o.temporary, err)
	}
	return n, nil
}

// spill opens the temporary file and moves there what was collected.
func (o *stateWriter) spill() (err error) {
	if o.dir, err = o.store.directory(o.file.Checkpoint, o.file.Target); err != nil {
		return err
	}
	if o.file.Target == "" && o.file.Scope == messages.SegmentScope_SHARED {
		o.dir = path.Join(o.store.root, sharedName)
	}
	if err := o.store.fs.MkdirAll(o.dir); err != nil {
		return describe("make the checkpoint directory", o.dir, err)
	}
	temporary := path.Join(o.dir, fmt.Sprintf("%s%s.%d", temporaryPrefix, storage.FileName(o.file), o.store.temporaries.Add(1)))
	f, err := o.store.fs.Create(temporary)
	if err != nil {
		return describe("make the state file", temporary, err)
	}
	o.temporary, o.open, o.out = temporary, f, bufio.NewWriterSize(f, fileBuffer)
	small := o.small
	o.small = nil
	_, err = o.Write(small)
	return err
}

// finish makes the file durable and gives it its name.
func (o *stateWriter) finish() error {
	err := o.out.Flush()
	if err == nil {
		err = o.open.Sync()
	}
	if err := errors.Join(err, o.open.Close()); err != nil {
		return describe("write the state file", o.temporary, err)
	}
	// A second file of the same task, operator, kind and checkpoint gets a number.
	name := path.Join(o.dir, storage.FileName(o.file))
	published := name
	err = o.store.fs.Link(o.temporary, published)
	for n := 2; errors.Is(err, fs.ErrExist); n++ {
		published = fmt.Sprintf("%s-%d", name, n)
		err = o.store.fs.Link(o.temporary, published)
	}
	if err != nil {
		return describe("name the state file", published, err)
	}
	o.published = published
	if err := o.store.fs.Remove(o.temporary); err != nil {
		return describe("remove the temporary file", o.temporary, err)
	}
	o.temporary = ""
	if err := o.store.fs.SyncDir(o.dir); err != nil {
		return describe("sync the checkpoint directory", o.dir, err)
	}
	return nil
}

// abandon leaves no file behind. It does what it can: the write has failed
// already, and Sweep removes what stays.
func (o *stateWriter) abandon() {
	if o.open != nil {
		_ = o.open.Close()
	}
	for _, name := range []string{o.temporary, o.published} {
		if name != "" {
			_ = o.store.fs.Remove(name)
		}
	}
}

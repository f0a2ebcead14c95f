package vfs

import (
	"io"
	"io/fs"
	"path"
	"slices"
)

// memFile is an open file of a MemFS.
type memFile struct {
	fs        *MemFS
	node      *node
	name      string
	life      int
	offset    int64
	readOnly  bool
	appending bool
	closed    bool
}

// begin locks the file system and checks that the handle lives.
func (f *memFile) begin(op string, writing bool) error {
	f.fs.mu.Lock()
	var err error
	switch {
	case f.closed || f.life != f.fs.life:
		err = fs.ErrClosed
	case writing && f.readOnly:
		err = fs.ErrPermission
	default:
		return nil
	}
	f.fs.mu.Unlock()
	return failed(op, f.name, err)
}

func (f *memFile) Read(p []byte) (int, error) {
	if err := f.begin("read", false); err != nil {
		return 0, err
	}
	defer f.fs.mu.Unlock()
	n, err := f.readAt(p, f.offset)
	f.offset += int64(n)
	if n > 0 {
		err = nil
	}
	return n, err
}

func (f *memFile) ReadAt(p []byte, offset int64) (int, error) {
	if err := f.begin("read", false); err != nil {
		return 0, err
	}
	defer f.fs.mu.Unlock()
	if offset < 0 {
		return 0, failed("read", f.name, fs.ErrInvalid)
	}
	return f.readAt(p, offset)
}

func (f *memFile) readAt(p []byte, offset int64) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if offset >= int64(len(f.node.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.node.data[offset:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) Write(p []byte) (int, error) {
	if err := f.begin("write", true); err != nil {
		return 0, err
	}
	defer f.fs.mu.Unlock()
	n := f.node
	if f.appending {
		f.offset = int64(len(n.data))
	}
	if len(p) == 0 {
		return 0, nil
	}
	end := f.offset + int64(len(p))
	n.resize(max(end, int64(len(n.data))))
	copy(n.data[f.offset:end], p)
	f.offset = end
	n.dirty, n.modified = true, f.fs.tick()
	return len(p), nil
}

// resize cuts or grows the content; what is new is zero.
func (n *node) resize(size int64) {
	old := int64(len(n.data))
	if size <= old {
		n.data = n.data[:size]
		return
	}
	n.data = slices.Grow(n.data, int(size-old))[:size]
	clear(n.data[old:])
}

func (f *memFile) Seek(offset int64, whence int) (int64, error) {
	if err := f.begin("seek", false); err != nil {
		return 0, err
	}
	defer f.fs.mu.Unlock()
	switch whence {
	case io.SeekCurrent:
		offset += f.offset
	case io.SeekEnd:
		offset += int64(len(f.node.data))
	}
	if offset < 0 {
		return 0, failed("seek", f.name, fs.ErrInvalid)
	}
	f.offset = offset
	return offset, nil
}

func (f *memFile) Sync() error {
	if err := f.begin("sync", false); err != nil {
		return err
	}
	defer f.fs.mu.Unlock()
	if f.node.dirty {
		f.node.durable, f.node.dirty = slices.Clone(f.node.data), false
	}
	return nil
}

func (f *memFile) Truncate(size int64) error {
	if err := f.begin("truncate", true); err != nil {
		return err
	}
	defer f.fs.mu.Unlock()
	if size < 0 {
		return failed("truncate", f.name, fs.ErrInvalid)
	}
	f.node.resize(size)
	f.node.dirty, f.node.modified = true, f.fs.tick()
	return nil
}

func (f *memFile) Stat() (fs.FileInfo, error) {
	if err := f.begin("stat", false); err != nil {
		return nil, err
	}
	defer f.fs.mu.Unlock()
	return f.node.info(path.Base(f.name)), nil
}

func (f *memFile) Close() error {
	if err := f.begin("close", false); err != nil {
		return err
	}
	defer f.fs.mu.Unlock()
	f.closed = true
	return nil
}

func (f *memFile) Name() string { return f.name }

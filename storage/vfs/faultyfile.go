package vfs

import "errors"

// faultyFile is an open file of a FaultyFS.
type faultyFile struct {
	File
	fs *FaultyFS
}

func (f *faultyFile) Read(p []byte) (int, error) {
	v := f.fs.judge(OpRead, f.Name(), 0)
	if v.err != nil {
		return 0, v.err
	}
	n, err := f.File.Read(p)
	v.spoil(p[:n])
	return n, err
}

func (f *faultyFile) ReadAt(p []byte, offset int64) (int, error) {
	v := f.fs.judge(OpRead, f.Name(), 0)
	if v.err != nil {
		return 0, v.err
	}
	n, err := f.File.ReadAt(p, offset)
	v.spoil(p[:n])
	return n, err
}

func (f *faultyFile) Write(p []byte) (int, error) {
	v := f.fs.judge(OpWrite, f.Name(), len(p))
	switch {
	case v.err != nil && v.torn >= 0:
		n, err := f.File.Write(p[:min(v.torn, len(p))])
		return n, errors.Join(v.err, err)
	case v.err != nil:
		return 0, v.err
	}
	return f.File.Write(p)
}

func (f *faultyFile) Sync() error {
	if v := f.fs.judge(OpSync, f.Name(), 0); v.err != nil || v.lost {
		return v.err
	}
	return f.File.Sync()
}

func (f *faultyFile) Truncate(size int64) error {
	if v := f.fs.judge(OpTruncate, f.Name(), 0); v.err != nil {
		return v.err
	}
	return f.File.Truncate(size)
}

// Close closes the file even if the plan makes it fail.
func (f *faultyFile) Close() error {
	v := f.fs.judge(OpClose, f.Name(), 0)
	return errors.Join(v.err, f.File.Close())
}

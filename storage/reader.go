package storage

import (
	"context"
	"fmt"
	"hash"
	"io"

	"github.com/cespare/xxhash/v2"

	"cutwater/messages"
)

// File is an open file to read.
type File interface {
	io.ReadCloser
	io.ReaderAt
}

// NewFileReader reads a state file, and owns it from now on. A Read ends with io.EOF
// only if size and hash are those of want; what ReadAt reads is not verified. Damaged
// makes the error for a file that is not what was written, and failed that for one that
// cannot be read.
func NewFileReader(ctx context.Context, f File, want *messages.StateFile, damaged func(problem string) error, failed func(error) error) StateReader {
	return &fileReader{ctx: ctx, file: f, want: want, damaged: damaged, failed: failed, hash: xxhash.New()}
}

type fileReader struct {
	ctx     context.Context
	file    File
	want    *messages.StateFile
	damaged func(problem string) error
	failed  func(error) error
	read    uint64
	hash    hash.Hash64
}

func (r *fileReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := r.file.Read(p)
	r.read += uint64(n)
	_, _ = r.hash.Write(p[:n]) // A hash takes everything.
	switch size := r.want.GetSize(); {
	case r.read > size:
		return n, r.damaged(fmt.Sprintf("it is longer than the %d bytes that were written", size))
	case err == io.EOF && r.read < size:
		return n, r.damaged(fmt.Sprintf("it ends after %d of %d bytes", r.read, size))
	case err == io.EOF && r.hash.Sum64() != r.want.GetHash():
		return n, r.damaged(fmt.Sprintf("its hash is %016x, and %016x was written", r.hash.Sum64(), r.want.GetHash()))
	case err != nil && err != io.EOF:
		return n, r.failed(err)
	}
	return n, err
}

func (r *fileReader) ReadAt(p []byte, offset int64) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := r.file.ReadAt(p, offset)
	if err != nil && err != io.EOF {
		err = r.failed(err)
	}
	return n, err
}

func (r *fileReader) Size() int64 { return int64(r.want.GetSize()) }

func (r *fileReader) Close() error { return r.file.Close() }

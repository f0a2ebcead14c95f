// Package filestore keeps checkpoints in a directory that every node sees: the
// storage kind "filesystem" for plain paths and file:// URLs, after Flink's
// FileSystemCheckpointStorage.
//
// Nothing is visible before it is durable. A state file and the `_metadata` file
// are written under a temporary name in their own directory and synced; Link then
// gives them their name, which fails if it is taken, in whatever process; and the
// directory is synced before success is reported. So a crash at any point leaves
// a published checkpoint whole or absent, and a writer that was fenced off can
// never replace another's file. What a crash leaves besides, temporary files and
// files that nobody refers to, [Store.Sweep] removes.
//
// A savepoint stands in <target>/savepoint-<first 8 of the job>-<id>/ with all
// its files. They are named relative to their `_metadata`, so the directory can
// be moved.
package filestore

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"cutwater/messages"
	"cutwater/storage"
	"cutwater/storage/vfs"
)

// Options say where a job's checkpoints are.
type Options struct {
	FS vfs.FS
	// Dir is the checkpoint directory of all jobs, a path or a file:// URL.
	Dir string
	// Job is 32 lower-case hexadecimal digits.
	Job string
	// Epoch is the coordinator's, which alone may Sweep; a store that only tasks
	// use may leave it 0.
	Epoch uint64
	// InlineThreshold is in bytes: content up to it comes back inline, and goes
	// into `_metadata`. 0 means that only empty content does. At most 1 MiB.
	InlineThreshold int
}

const maxInlineThreshold = 1 << 20

// Store implements storage.Store.
type Store struct {
	fs     vfs.FS
	job    string
	epoch  uint64
	inline int
	// root is <dir>/<job>.
	root string
	// temporaries numbers the temporary files, so that concurrent writes never meet.
	temporaries atomic.Uint64
}

var _ storage.Store = (*Store)(nil)

// New returns the store of one job. It touches nothing yet.
func New(o Options) *Store {
	return &Store{
		fs:     o.FS,
		job:    o.Job,
		epoch:  o.Epoch,
		inline: min(max(o.InlineThreshold, 0), maxInlineThreshold),
		root:   path.Join(local(o.Dir), o.Job),
	}
}

// local turns a file:// URL into a path.
func local(url string) string { return strings.TrimPrefix(url, "file://") }

const (
	checkpointPrefix = "chk-"
	sharedName       = "shared"
	temporaryPrefix  = ".tmp-"
)

func checkpointName(id uint64) string { return checkpointPrefix + strconv.FormatUint(id, 10) }

// directory is where a checkpoint's own files are.
func (s *Store) directory(checkpoint uint64, target string) (string, error) {
	if target == "" {
		return path.Join(s.root, checkpointName(checkpoint)), nil
	}
	if !path.IsAbs(local(target)) {
		return "", fmt.Errorf("the savepoint directory %q is relative: give an absolute path, since every node must find it", target)
	}
	return path.Join(local(target), fmt.Sprintf("savepoint-%.8s-%d", s.job, checkpoint)), nil
}

// pathOf is where a handle's file is: relative paths start at the job's directory.
func (s *Store) pathOf(f *messages.StateFile) string {
	if path.IsAbs(f.GetPath()) {
		return f.GetPath()
	}
	return path.Join(s.root, f.GetPath())
}

// describe makes one sentence of a failed operation: what was tried, where, why,
// and what the user can do about it.
func describe(what, where string, err error) error {
	advice := "look at the disk and its mount, and try again"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: %s does not exist: check the path, and that every node sees the same directory: %w (%w)", what, where, storage.ErrMissing, cause(err))
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		advice = "free space there, or set checkpointing.dir to another disk"
	case errors.Is(err, syscall.EROFS):
		advice = "it is mounted read-only: mount it for writing, or set checkpointing.dir to another directory"
	case errors.Is(err, fs.ErrPermission):
		advice = "give the user of this process the right to it, or set checkpointing.dir to another directory"
	}
	return fmt.Errorf("%s at %s: %w: %s", what, where, cause(err), advice)
}

// cause drops the path that an error of the file system repeats.
func cause(err error) error {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return pathError.Err
	}
	return err
}

package filesink

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path"
	"strings"
	"syscall"

	"cutwater/connector/rowtext"
	"cutwater/messages"
	"cutwater/storage/failpoint"
	"cutwater/storage/vfs"
	"cutwater/stream"
	"cutwater/stream/row"
)

// Format is how rows are written.
type Format string

// The formats.
const (
	CSV   Format = "csv"
	JSONL Format = "jsonl"
)

// Config is what a sink needs to know.
type Config struct {
	// Dir is the folder of the visible files.
	Dir    string
	Format Format
	// AllowForeign leaves the files of other jobs in the folder alone; without it
	// they are a reason not to start.
	AllowForeign bool
	Schema       *row.Schema
}

// Sink implements stream.Sink.
type Sink struct {
	config  Config
	encoder *rowtext.Encoder
}

var (
	_ stream.Sink[row.Row] = (*Sink)(nil)
	_ stream.Sweeper       = (*Sink)(nil)
)

// New returns the sink, or what is wrong with its configuration.
func New(c Config) (*Sink, error) {
	s := &Sink{config: c}
	switch {
	case c.Dir == "":
		return nil, errors.New("file sink: it has no path: name the folder of its files")
	case c.Schema == nil || len(c.Schema.Fields) == 0:
		return nil, errors.New("file sink: its input has no fields")
	case c.Format == CSV:
		s.encoder = rowtext.CSV(c.Schema)
	case c.Format == JSONL:
		s.encoder = rowtext.JSON(c.Schema)
	default:
		return nil, fmt.Errorf("file sink: the format %q is unknown: use csv or jsonl", c.Format)
	}
	return s, nil
}

// Start implements stream.Sink.
func (s *Sink) Start(_ context.Context, c stream.SinkContext, _ []*messages.Committable) error {
	if err := c.FS.MkdirAll(s.pendingDir(c)); err != nil {
		err := fmt.Errorf("file sink %q: make its folder: %w: check the path and the rights to it", c.Uid, err)
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTDIR) {
			return stream.NoRestart(err)
		}
		return err
	}
	if !s.config.AllowForeign {
		if err := s.refuseForeign(c); err != nil {
			return err
		}
	}
	return nil
}

// NewWriter implements stream.Sink.
func (s *Sink) NewWriter(c stream.SinkContext) (stream.SinkWriter[row.Row], error) {
	return &writer{sink: s, context: c}, nil
}

// Commit implements stream.Sink.
func (s *Sink) Commit(_ context.Context, c stream.SinkContext, committable *messages.Committable) error {
	p, err := decodePart(committable)
	if err != nil {
		return err
	}
	switch err := c.FS.Link(p.pendingPath(), p.visiblePath()); {
	case err == nil:
		failpoint.Hit(failpoint.CommitLinked)
	case errors.Is(err, fs.ErrExist), errors.Is(err, fs.ErrNotExist):
		// An earlier commit, whose answer was lost, has done it, or a part of it.
		if err := p.checkVisible(c.FS); err != nil {
			return err
		}
	default:
		return fmt.Errorf("file sink %q: commit %s: %w: %s; the commit is tried again", committable.Uid, p.visiblePath(), err, linkAdvice(err))
	}
	if err := c.FS.SyncDir(p.Dir); err != nil {
		return fmt.Errorf("file sink %q: sync the folder %s: %w: look at the disk; the commit is tried again", committable.Uid, p.Dir, err)
	}
	failpoint.Hit(failpoint.CommitSynced)
	return p.removePending(c.FS)
}

// Abort implements stream.Sink.
func (s *Sink) Abort(_ context.Context, c stream.SinkContext, committable *messages.Committable) error {
	p, err := decodePart(committable)
	if err != nil {
		return err
	}
	return p.removePending(c.FS)
}

// linkAdvice is what to do about a link that cannot be made.
func linkAdvice(err error) string {
	switch {
	case errors.Is(err, syscall.EXDEV):
		return "its folder " + hiddenDir + " is on another file system, so make it one of the same"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, errors.ErrUnsupported):
		return "allow the user of the node to write there; if that is so, the file system has no hard links, which commits need, so choose a folder on another one"
	}
	return "look at the disk"
}

// checkVisible decides whether the visible file is this part.
func (p *part) checkVisible(fsys vfs.FS) error {
	f, err := fsys.Open(p.visiblePath())
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("file sink: %s cannot be committed, because its pending file %s is gone: was it deleted by hand, or does this node not see the folder? Restore an earlier checkpoint to write its rows again",
			p.visiblePath(), p.pendingPath())
	}
	if err != nil {
		return fmt.Errorf("file sink: compare %s with what was prepared: %w", p.visiblePath(), err)
	}
	crc := crc32.New(castagnoli)
	size, err := io.Copy(crc, f)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("file sink: compare %s with what was prepared: %w", p.visiblePath(), err)
	}
	if size != p.Size || crc.Sum32() != p.Checksum {
		return stream.NoRestart(fmt.Errorf("file sink: %s exists with other content (%d bytes, checksum %08x; prepared were %d bytes, checksum %08x): nothing was overwritten; move that file away to let the commit succeed",
			p.visiblePath(), size, crc.Sum32(), p.Size, p.Checksum))
	}
	return nil
}

func (p *part) removePending(fsys vfs.FS) error {
	if err := fsys.Remove(p.pendingPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("file sink: remove the pending file %s: %w", p.pendingPath(), err)
	}
	return nil
}

// refuseForeign looks for files of other jobs, visible or pending.
func (s *Sink) refuseForeign(c stream.SinkContext) error {
	refuse := func(name, job string) error {
		return stream.NoRestart(fmt.Errorf("file sink %q: the folder %s holds %s of another job (%s): choose another path, empty the folder, or set allow-foreign: true to leave its files alone",
			c.Uid, s.config.Dir, name, job))
	}
	visible, err := c.FS.ReadDir(s.config.Dir)
	if err != nil {
		return fmt.Errorf("file sink %q: list its folder: %w", c.Uid, err)
	}
	for _, e := range visible {
		if job, ok := jobOfVisible(e.Name()); ok && job != shortJob(c.Job) {
			return refuse(e.Name(), job)
		}
	}
	pending, err := c.FS.Glob(path.Join(escapeGlob(s.config.Dir), hiddenDir, "*", "*"))
	if err != nil {
		return fmt.Errorf("file sink %q: list the pending files: %w", c.Uid, err)
	}
	for _, name := range pending {
		// A data directory of the command may stand there, too.
		if job := path.Base(path.Dir(name)); isJob(job) && job != c.Job {
			return refuse(path.Base(name), job)
		}
	}
	return nil
}

// Sweep implements stream.Sweeper: it removes the pending files that a dead attempt of
// this operator left and that nothing will commit. Files of this attempt are spared,
// whoever writes them.
func (s *Sink) Sweep(ctx context.Context, c stream.SinkContext, restored []*messages.Committable) error {
	kept := map[string]bool{}
	for _, committable := range restored {
		p, err := decodePart(committable)
		if err != nil {
			return err
		}
		kept[p.Pending] = true
	}
	entries, err := c.FS.ReadDir(s.pendingDir(c))
	if err != nil {
		return fmt.Errorf("file sink %q: list the pending files: %w", c.Uid, err)
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if kept[e.Name()] || !older(e.Name(), c) {
			continue
		}
		where := path.Join(s.pendingDir(c), e.Name())
		if err := c.FS.Remove(where); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("file sink %q: remove the leftover %s: %w", c.Uid, where, err)
		}
	}
	return nil
}

// escapeGlob makes a path a pattern that matches itself.
func escapeGlob(p string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(p)
}

package filesink_test

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"cutwater/connector/connectortest"
	"cutwater/connector/filesink"
	"cutwater/messages"
	"cutwater/storage/vfs"
	"cutwater/stream"
	"cutwater/stream/catalog"
	"cutwater/stream/row"
)

var schema = &row.Schema{Fields: []row.Field{{Name: "n", Kind: row.Int}, {Name: "text", Kind: row.String}}}

const dir = "/out/daily"

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func value(i int) row.Row {
	const text = "a \"quoted\",\nvalue"
	return row.Row{Cells: []uint64{uint64(i), uint64(len(text))}, Text: text}
}

func build(t *testing.T, format filesink.Format, allowForeign bool) *filesink.Sink {
	t.Helper()
	s, err := filesink.New(filesink.Config{Dir: dir, Format: format, AllowForeign: allowForeign, Schema: schema})
	must(t, err)
	return s
}

// Both formats keep the contract of two-phase commit, on a disk that crashes.
func TestConformance(t *testing.T) {
	readers := map[filesink.Format]func(t *testing.T, content string) []int{
		filesink.CSV: func(t *testing.T, content string) (numbers []int) {
			records, err := csv.NewReader(strings.NewReader(content)).ReadAll()
			must(t, err)
			if len(records) < 2 || records[0][0] != "n" {
				t.Fatalf("a file without header or rows: %q", content)
			}
			for _, r := range records[1:] {
				n, err := strconv.Atoi(r[0])
				must(t, err)
				numbers = append(numbers, n)
			}
			return numbers
		},
		filesink.JSONL: func(t *testing.T, content string) (numbers []int) {
			for line := range strings.Lines(content) {
				var r struct{ N int }
				must(t, json.Unmarshal([]byte(line), &r))
				numbers = append(numbers, r.N)
			}
			return numbers
		},
	}
	for _, format := range []filesink.Format{filesink.CSV, filesink.JSONL} {
		t.Run(string(format), func(t *testing.T) {
			connectortest.Sink(t, connectortest.SinkHarness[row.Row]{
				New:   func(t *testing.T, _ vfs.FS) stream.Sink[row.Row] { return build(t, format, false) },
				Value: value,
				Visible: func(t *testing.T, fsys vfs.FS) (numbers []int) {
					names, err := fsys.Glob(dir + "/part-*." + string(format))
					must(t, err)
					for _, name := range names {
						content, err := vfs.ReadFile(fsys, name)
						must(t, err)
						numbers = append(numbers, readers[format](t, string(content))...)
					}
					return numbers
				},
			})
		})
	}
}

func at(fsys vfs.FS, job, uid string, attempt uint32) stream.SinkContext {
	return stream.SinkContext{Job: job, Incarnation: 2, Uid: uid, Subtask: 3, FS: fsys,
		Fence: &messages.Fence{Job: job, Epoch: 1, Attempt: attempt}}
}

const (
	job      = connectortest.SinkJob
	otherJob = "fedcba9876543210fedcba9876543210"
)

func prepared(t *testing.T, s *filesink.Sink, c stream.SinkContext, checkpoint uint64, rows int) *messages.Committable {
	t.Helper()
	w, err := s.NewWriter(c)
	must(t, err)
	for i := range rows {
		must(t, w.Write(value(i), 0))
	}
	committables, err := w.Prepare(checkpoint)(t.Context())
	must(t, err)
	return committables[0]
}

// Names, header and content are the documented ones, and no pending file stays.
func TestFiles(t *testing.T) {
	disk := vfs.Mem()
	s := build(t, filesink.CSV, false)
	c := at(disk, job, "out", 1)
	must(t, s.Start(t.Context(), c, nil))
	must(t, s.Commit(t.Context(), c, prepared(t, s, c, 17, 1)))
	content, err := vfs.ReadFile(disk, dir+"/part-out-01234567-2-3-17.csv")
	must(t, err)
	if got := string(content); got != "n,text\n0,\"a \"\"quoted\"\",\nvalue\"\n" {
		t.Errorf("content is %q", got)
	}
	pending, err := disk.Glob(dir + "/.cutwater/*/*")
	if err != nil || len(pending) != 0 {
		t.Errorf("pending are %v, %v", pending, err)
	}
}

// A folder with files of another job, visible or pending, is refused by name, and
// allow-foreign leaves them alone.
func TestForeign(t *testing.T) {
	disk := vfs.Mem()
	theirs := build(t, filesink.CSV, false)
	c := at(disk, otherJob, "their-out", 1)
	must(t, theirs.Start(t.Context(), c, nil))
	must(t, theirs.Start(t.Context(), at(disk, job, "out", 1), nil)) // only an empty folder: fine
	part := prepared(t, theirs, c, 1, 1)
	refused := func(what string) {
		t.Helper()
		err := build(t, filesink.CSV, false).Start(t.Context(), at(disk, job, "out", 1), nil)
		if !errors.Is(err, stream.ErrNoRestart) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "allow-foreign") || !strings.Contains(err.Error(), what) {
			t.Errorf("error is %v", err)
		}
	}
	refused(otherJob)
	must(t, theirs.Commit(t.Context(), c, part))
	refused("part-their-out-fedcba98-2-3-1.csv")
	must(t, build(t, filesink.CSV, true).Start(t.Context(), at(disk, job, "out", 1), nil))
	if _, err := disk.Stat(dir + "/part-their-out-fedcba98-2-3-1.csv"); err != nil {
		t.Error(err)
	}
}

// Files that no job wrote are nobody's business, and two sinks of a job share a
// folder without sweeping each other's files.
func TestNeighbours(t *testing.T) {
	disk := vfs.Mem()
	s := build(t, filesink.CSV, false)
	must(t, disk.MkdirAll(dir))
	for _, name := range []string{"README.md", "part-00000.csv", "part-of-a-book-one-two.csv"} {
		must(t, vfs.WriteFile(disk, path.Join(dir, name), []byte("x")))
	}
	must(t, disk.MkdirAll(dir+"/.cutwater/daily"))
	must(t, vfs.WriteFile(disk, dir+"/.cutwater/daily/metadata.db", []byte("x"))) // run's data directory
	must(t, s.Start(t.Context(), at(disk, job, "out", 1), nil))
	neighbour := prepared(t, s, at(disk, job, "out-2", 1), 1, 4)
	leftover := prepared(t, s, at(disk, job, "out", 1), 1, 4)
	must(t, s.Start(t.Context(), at(disk, job, "out", 2), nil))
	must(t, s.Sweep(t.Context(), at(disk, job, "out", 2), nil))
	must(t, s.Commit(t.Context(), at(disk, job, "out-2", 2), neighbour))
	if err := s.Commit(t.Context(), at(disk, job, "out", 2), leftover); err == nil || !strings.Contains(err.Error(), "is gone") {
		t.Errorf("the commit of what was swept: %v", err)
	}
}

// A subtask that restarts while others go on sweeps what it left itself, and spares what
// others have prepared under older attempts.
func TestSweepRegional(t *testing.T) {
	disk := vfs.Mem()
	s := build(t, filesink.CSV, false)
	must(t, s.Start(t.Context(), at(disk, job, "out", 1), nil))
	other := at(disk, job, "out", 1)
	other.Subtask = 1
	theirs, leftover := prepared(t, s, other, 1, 4), prepared(t, s, at(disk, job, "out", 1), 1, 4)
	again := at(disk, job, "out", 2)
	again.Regional = true
	must(t, s.Sweep(t.Context(), again, nil))
	must(t, s.Commit(t.Context(), other, theirs))
	if err := s.Commit(t.Context(), again, leftover); err == nil || !strings.Contains(err.Error(), "is gone") {
		t.Errorf("the commit of what was swept: %v", err)
	}
}

// noLinks is a disk whose file system refuses links.
type noLinks struct {
	vfs.FS
	err error
}

func (d noLinks) Link(from, to string) error {
	return &os.LinkError{Op: "link", Old: from, New: to, Err: d.err}
}

// Where files cannot be linked, the error of the commit says what the folder lacks.
func TestNoLinks(t *testing.T) {
	for err, advice := range map[error]string{
		syscall.EXDEV:   "its folder .cutwater is on another file system",
		syscall.EPERM:   "no hard links",
		syscall.ENOTSUP: "no hard links",
		syscall.EIO:     "look at the disk",
	} {
		c := at(noLinks{vfs.Mem(), err}, job, "out", 1)
		s := build(t, filesink.CSV, false)
		must(t, s.Start(t.Context(), c, nil))
		got := s.Commit(t.Context(), c, prepared(t, s, c, 1, 1))
		if got == nil || !errors.Is(got, err) || !strings.Contains(got.Error(), advice) {
			t.Errorf("%v: %v", err, got)
		}
	}
}

// A visible file with other content is never overwritten, and the error says so.
func TestVisibleFileDiffers(t *testing.T) {
	disk := vfs.Mem()
	s := build(t, filesink.JSONL, false)
	c := at(disk, job, "out", 1)
	must(t, s.Start(t.Context(), c, nil))
	part := prepared(t, s, c, 17, 3)
	name := dir + "/part-out-01234567-2-3-17.jsonl"
	must(t, vfs.WriteFile(disk, name, []byte("edited by hand\n")))
	err := s.Commit(t.Context(), c, part)
	if !errors.Is(err, stream.ErrNoRestart) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "nothing was overwritten") {
		t.Errorf("error is %v", err)
	}
	if content, _ := vfs.ReadFile(disk, name); string(content) != "edited by hand\n" {
		t.Errorf("content is %q", content)
	}
}

// A committable remembers its folder: a topology whose path was edited still
// commits what was prepared in the old one.
func TestPathEdited(t *testing.T) {
	disk := vfs.Mem()
	s := build(t, filesink.CSV, false)
	c := at(disk, job, "out", 1)
	must(t, s.Start(t.Context(), c, nil))
	part := prepared(t, s, c, 1, 1)
	moved, err := filesink.New(filesink.Config{Dir: "/elsewhere", Format: filesink.JSONL, Schema: schema})
	must(t, err)
	c = at(disk, job, "out", 2)
	must(t, moved.Start(t.Context(), c, []*messages.Committable{part}))
	must(t, moved.Commit(t.Context(), c, part))
	if _, err := disk.Stat(dir + "/part-out-01234567-2-3-1.csv"); err != nil {
		t.Error(err)
	}
}

// The spec makes sinks, with csv as its default, and refuses what makes no sense.
func TestSpec(t *testing.T) {
	spec := filesink.Spec()
	_, err := spec.New(catalog.Values{Strings: map[string]string{"path": dir}, Schema: schema})
	must(t, err)
	for _, bad := range []catalog.Values{
		{Schema: schema},
		{Strings: map[string]string{"path": dir}},
		{Strings: map[string]string{"path": dir, "format": "parquet"}, Schema: schema},
	} {
		if _, err := spec.New(bad); err == nil {
			t.Errorf("%v was taken", bad.Strings)
		}
	}
}

// Writing a row into the buffer allocates nothing once the buffer has its size.
func TestWriteAllocatesNothing(t *testing.T) {
	s := build(t, filesink.CSV, false)
	w, err := s.NewWriter(at(vfs.Mem(), job, "out", 1))
	must(t, err)
	for range 2 {
		for range 2000 {
			must(t, w.Write(value(1), 0))
		}
		must(t, w.Flush()(t.Context()))
	}
	v := value(1)
	if n := testing.AllocsPerRun(100, func() { _ = w.Write(v, 0) }); n != 0 {
		t.Errorf("%v allocations per row", n)
	}
}

package file

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"cutwater/messages"
	"cutwater/storage/vfs"
	"cutwater/stream"
	"cutwater/stream/catalog"
	"cutwater/stream/row"
)

// A split is read where the path now says that its file is; a path that means
// another file is refused instead of being ignored.
func TestChangedPath(t *testing.T) {
	const text = "a,b,c\n1,2,3\n"
	fsys := memory(t, "old/f.csv", text)
	for path, content := range map[string]string{"new/f.csv": text, "new/renamed.csv": text, "new/other.csv": "a,b,c\n7,8,9\n"} {
		if err := errors.Join(fsys.MkdirAll("new"), vfs.WriteFile(fsys, path, []byte(content))); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ before, now, reads, fails string }{
		{before: "old/f.csv", now: "old/f.csv", reads: "old/f.csv"},
		{before: "old/f.csv", now: "new/renamed.csv", reads: "new/renamed.csv"},
		{before: "old/f.csv", now: "new/other.csv", fails: "new/other.csv starts with other bytes than before: the file has changed"},
		{before: "old/f.csv", now: "gone/f.csv", fails: "cannot read gone/f.csv: file does not exist; correct the path"},
		{before: "old/f.csv", now: "old/*.csv", reads: "old/f.csv"},
		{before: "old/*.csv", now: "old/[e-g].csv", reads: "old/f.csv"},
		{before: "./old/*.csv", now: "./old/*.csv", reads: "old/f.csv"},
		{before: "./old/f.csv", now: "./old/f.csv", reads: "./old/f.csv"},
		{before: "o*/f.csv", now: "o*/f.csv", reads: "old/f.csv"},
		{before: "old/*.csv", now: "new/f*.csv", reads: "new/f.csv"},
		{before: "old/*.csv", now: "new/r*.csv", fails: "the job is in the middle of old/f.csv, which the path new/r*.csv does not name; change the path back"},
		{before: "old/*.csv", now: "n*/f.csv", fails: "which the path n*/f.csv does not name"},
	} {
		split := discover(t, newSource(t, Config{Path: c.before, Schema: abc}), fsys)[0]
		r, err := newSource(t, Config{Path: c.now, Schema: abc}).Open(context.Background(), fsys, split)
		if c.fails != "" {
			if !errors.Is(err, stream.ErrNoRestart) || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s, then %s: %v, want %s", c.before, c.now, err, c.fails)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s, then %s: %v", c.before, c.now, err)
			continue
		}
		if got := r.(*reader).split.Path; got != c.reads {
			t.Errorf("%s, then %s: reads %s, want %s", c.before, c.now, got, c.reads)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// An input that cannot be read is one sentence with the path and what to do; no
// restart mends it.
func TestDiscoverErrors(t *testing.T) {
	fsys := memory(t, "dir/f.csv", "a,b\n1,2\n")
	for path, want := range map[string]string{
		"missing.csv": "cannot read missing.csv: file does not exist; correct the path",
		"dir/x*.csv":  "no file matches dir/x*.csv; correct the path",
		"dir/f.csv":   `dir/f.csv: no column "c" in the header (columns: a, b); correct the schema, or set header: false`,
		"dir":         "; name a readable file, or several by a pattern",
	} {
		_, err := newSource(t, Config{Path: path, Schema: abc}).Discover(context.Background(), fsys, 1)
		if !errors.Is(err, stream.ErrNoRestart) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
	_, err := newSource(t, Config{Path: "missing.csv", Schema: abc}).Discover(context.Background(), fsys, 1)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v does not wrap fs.ErrNotExist", err)
	}
	twice := memory(t, "f.csv", "a,a\n1,2\n")
	_, err = newSource(t, Config{Path: "f.csv", Schema: &row.Schema{Fields: abc.Fields[:1]}}).Discover(context.Background(), twice, 1)
	if err == nil || !strings.Contains(err.Error(), `column "a" stands twice`) {
		t.Error(err)
	}
}

// A configuration that makes no sense is refused before any file is touched.
func TestNewErrors(t *testing.T) {
	for want, c := range map[string]Config{
		"path is empty":        {Schema: abc},
		"unknown format":       {Path: "f", Schema: abc, Format: "xml"},
		"schema has no fields": {Path: "f"},
		"is negative":          {Path: "f", Schema: abc, SplitSizeBytes: -1},
		"max-record-size":      {Path: "f", Schema: abc, MaxRecordSizeBytes: 2 << 30},
		"cannot be a delim":    {Path: "f", Schema: abc, Delimiter: '"'},
		"has no type":          {Path: "f", Schema: &row.Schema{Fields: []row.Field{{Name: "a"}}}},
		"twice":                {Path: "f", Schema: &row.Schema{Fields: []row.Field{abc.Fields[0], abc.Fields[0]}}},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// Groups follow the files, or the option files: in-order; ids are stable.
func TestGroups(t *testing.T) {
	fsys := memory(t, "d/2.csv", "a,b,c\n1,2,3\n4,5,6\n")
	for name, content := range map[string]string{"d/1.csv": "a,b,c\n7,8,9\n", "d/3.csv": ""} {
		if err := vfs.WriteFile(fsys, name, []byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	c := Config{Path: "d/*.csv", Schema: abc, SplitSizeBytes: 1}
	for _, inOrder := range []bool{false, true} {
		c.InOrder = inOrder
		splits := discover(t, newSource(t, c), fsys)
		want := []struct {
			id, group string
			ordinal   uint64
		}{{"d/1.csv@6", "d/1.csv", 0}, {"d/2.csv@6", "d/2.csv", 0}, {"d/2.csv@12", "d/2.csv", 1}}
		if len(splits) != len(want) {
			t.Fatalf("%d splits", len(splits))
		}
		for i, s := range splits {
			w := want[i]
			if inOrder {
				w.group, w.ordinal = "d/*.csv", uint64(i)
			}
			if s.Id != w.id || s.Group != w.group || s.Ordinal != w.ordinal || s.SizeBytes != 6 {
				t.Errorf("%v, want %v", s, w)
			}
		}
	}
}

// A file that is not the discovered one any more is refused; one that only grew
// is read as it was.
func TestChangedFile(t *testing.T) {
	const content = "a,b,c\n1,2,3\n4,5,6\n"
	s := newSource(t, Config{Path: "f.csv", Schema: abc, SplitSizeBytes: 1})
	splits := discover(t, s, memory(t, "f.csv", content))
	long := strings.Repeat("a,b,c\n", fingerprintSize)
	longSplits := discover(t, s, memory(t, "f.csv", long))
	noBreak := strings.TrimSuffix(long, "\n")
	noBreakSplits := discover(t, s, memory(t, "f.csv", noBreak))
	for _, c := range []struct {
		name, content string
		split         *messages.Split
		changed       bool
	}{
		{"the same", content, splits[1], false},
		{"grown", content + "7,8,9\n", splits[1], false},
		{"shorter", content[:14], splits[1], true},
		{"another start", "a,b,c\n1,2,4\n4,5,6\n", splits[1], true},
		{"grown behind a last line without a break", noBreak + "\n1,2,3\n", noBreakSplits[len(noBreakSplits)-1], false},
		{"a record made longer", long[:len(long)-1] + "dd\n", longSplits[len(longSplits)-1], true},
		{"moved records", long[:len(long)-8] + "\n1,2,3\n\n", longSplits[len(longSplits)-1], true},
	} {
		r, err := s.Open(context.Background(), memory(t, "f.csv", c.content), c.split)
		if errors.Is(err, errChanged) != c.changed || errors.Is(err, stream.ErrNoRestart) != c.changed || (err == nil) == c.changed {
			t.Errorf("%s: %v", c.name, err)
		}
		if err == nil {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// A file that is gone is somebody's mistake, which no restart mends; a disk that fails
// may be read the next time.
func TestGoneIsNotBroken(t *testing.T) {
	s := newSource(t, Config{Path: "f.csv", Schema: abc})
	fsys := memory(t, "f.csv", "a,b,c\n1,2,3\n")
	split := discover(t, s, fsys)[0]
	broken := vfs.Faulty(fsys, vfs.Plan{Faults: []vfs.Fault{{Kind: vfs.Fail, Op: vfs.OpRead, Err: syscall.EIO}}})
	if _, err := s.Open(context.Background(), broken, split); !errors.Is(err, syscall.EIO) || errors.Is(err, stream.ErrNoRestart) {
		t.Errorf("a disk that fails: %v", err)
	}
	if err := fsys.Remove("f.csv"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(context.Background(), fsys, split); !errors.Is(err, stream.ErrNoRestart) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is gone: %v", err)
	}
}

// Splits that were discovered with a header are not read without one, nor the
// other way round.
func TestHeaderChanged(t *testing.T) {
	fsys := memory(t, "f.csv", "a,b,c\n1,2,3\n")
	with, without := newSource(t, Config{Path: "f.csv", Schema: abc}), newSource(t, Config{Path: "f.csv", Schema: abc, NoHeader: true})
	for _, pair := range [][2]*Source{{with, without}, {without, with}} {
		_, err := pair[1].Open(context.Background(), fsys, discover(t, pair[0], fsys)[0])
		if !errors.Is(err, stream.ErrNoRestart) || !strings.Contains(err.Error(), "the splits were discovered with header: ") {
			t.Error(err)
		}
	}
}

// The options of a topology reach the source; missing ones have their defaults.
func TestSpec(t *testing.T) {
	spec := Spec()
	source, err := spec.New(catalog.Values{Schema: abc, Strings: map[string]string{"path": "f", "delimiter": "\t", "files": "in-order"},
		Ints: map[string]int64{"split-size": 5}, Bools: map[string]bool{"header": false}})
	if err != nil {
		t.Fatal(err)
	}
	want := Config{Path: "f", Format: CSV, Schema: abc, SplitSizeBytes: 5, MaxRecordSizeBytes: DefaultMaxRecordSizeBytes, NoHeader: true, Delimiter: '\t', InOrder: true}
	if got := source.(*Source).config; got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if _, err := spec.New(catalog.Values{Schema: abc, Strings: map[string]string{"path": "f", "delimiter": "::"}}); err == nil {
		t.Error("a delimiter of two characters was accepted")
	}
}

// A file that shrinks while it is read is an error, not the end of a split.
func TestShrinkingFile(t *testing.T) {
	f := framer{file: strings.NewReader("1,2"), path: "f.csv", end: 6, chunk: chunkSize, maxRecord: 100, delimiter: ','}
	f.seek(0, 1)
	err := f.fill()
	if !errors.Is(err, errChanged) || !strings.Contains(err.Error(), "f.csv ends at byte 3, before byte 6: the file has changed") {
		t.Error(err)
	}
}

// Package vfstest is the conformance suite of vfs.FS.
package vfstest

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"testing"

	"cutwater/storage/vfs"
)

// Run holds a file system to the contract. Fresh returns it and an empty
// directory in it.
func Run(t *testing.T, fresh func(t *testing.T) (fsys vfs.FS, dir string)) {
	tests := []struct {
		name string
		run  func(t *testing.T, fsys vfs.FS, at func(name string) string)
	}{
		{"a file reads back what was written", readBack},
		{"append goes to the end", appends},
		{"truncate cuts and grows", truncates},
		{"create empties a file that exists", createTruncates},
		{"a missing file is fs.ErrNotExist, and so is a missing directory", missing},
		{"a directory is not opened as a file", directoryIsNoFile},
		{"link publishes once", linkOnce},
		{"two names of a file share its content", linkShares},
		{"rename replaces", renameReplaces},
		{"remove spares full directories, remove-all does not", removes},
		{"directories are made with their parents and listed in order", directories},
		{"a removed file lives on in who has it open", removedWhileOpen},
		{"glob matches within one directory level", globs},
		{"a lock excludes until it is closed", locks},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			fsys, dir := fresh(t)
			test.run(t, fsys, func(name string) string { return path.Join(dir, name) })
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error is %v, want %v", err, want)
	}
}

func write(t *testing.T, fsys vfs.FS, p, content string) {
	t.Helper()
	must(t, vfs.WriteFile(fsys, p, []byte(content)))
}

func want(t *testing.T, fsys vfs.FS, p, content string) {
	t.Helper()
	got, err := vfs.ReadFile(fsys, p)
	must(t, err)
	if string(got) != content {
		t.Fatalf("%s holds %q, want %q", p, got, content)
	}
}

func readBack(t *testing.T, fsys vfs.FS, at func(string) string) {
	write(t, fsys, at("f"), "hello, water")
	must(t, fsys.SyncDir(at("")))
	f, err := fsys.Open(at("f"))
	must(t, err)
	defer f.Close()
	if f.Name() != at("f") {
		t.Errorf("name is %q", f.Name())
	}
	part := make([]byte, 5)
	if n, err := f.ReadAt(part, 7); n != 5 || string(part) != "water" || err != nil && err != io.EOF {
		t.Errorf("ReadAt: %d %q %v", n, part, err)
	}
	if n, err := f.ReadAt(part, 10); n != 2 || err != io.EOF {
		t.Errorf("ReadAt over the end: %d, %v", n, err)
	}
	if _, err := f.Seek(-5, io.SeekEnd); err != nil {
		t.Error(err)
	}
	if rest, err := io.ReadAll(f); string(rest) != "water" || err != nil {
		t.Errorf("after Seek: %q, %v", rest, err)
	}
	info, err := f.Stat()
	must(t, err)
	if info.Size() != 12 || info.Name() != "f" || info.IsDir() {
		t.Errorf("stat: %q, %d bytes, directory %v", info.Name(), info.Size(), info.IsDir())
	}
	if _, err := f.Write([]byte("x")); err == nil {
		t.Error("a file opened for reading was written")
	}
	must(t, f.Close())
	_, err = f.Read(part)
	wantErr(t, err, fs.ErrClosed)
}

func appends(t *testing.T, fsys vfs.FS, at func(string) string) {
	for _, part := range []string{"one", "two"} {
		f, err := fsys.OpenAppend(at("f"))
		must(t, err)
		_, err = f.Write([]byte(part))
		must(t, err)
		must(t, f.Close())
	}
	want(t, fsys, at("f"), "onetwo")
}

func truncates(t *testing.T, fsys vfs.FS, at func(string) string) {
	write(t, fsys, at("f"), "abcdef")
	f, err := fsys.OpenAppend(at("f"))
	must(t, err)
	must(t, f.Truncate(2))
	must(t, f.Truncate(4))
	_, err = f.Write([]byte("z"))
	must(t, err)
	must(t, f.Close())
	want(t, fsys, at("f"), "ab\x00\x00z")
}

func createTruncates(t *testing.T, fsys vfs.FS, at func(string) string) {
	write(t, fsys, at("f"), "long content")
	write(t, fsys, at("f"), "short")
	want(t, fsys, at("f"), "short")
}

func missing(t *testing.T, fsys vfs.FS, at func(string) string) {
	_, err := fsys.Open(at("no"))
	wantErr(t, err, fs.ErrNotExist)
	_, err = fsys.Stat(at("no"))
	wantErr(t, err, fs.ErrNotExist)
	_, err = fsys.Create(at("no/f"))
	wantErr(t, err, fs.ErrNotExist)
	_, err = fsys.ReadDir(at("no"))
	wantErr(t, err, fs.ErrNotExist)
	wantErr(t, fsys.SyncDir(at("no")), fs.ErrNotExist)
	wantErr(t, fsys.Remove(at("no")), fs.ErrNotExist)
	wantErr(t, fsys.Link(at("no"), at("f")), fs.ErrNotExist)
	wantErr(t, fsys.Rename(at("no"), at("f")), fs.ErrNotExist)
	must(t, fsys.RemoveAll(at("no")))
}

func directoryIsNoFile(t *testing.T, fsys vfs.FS, at func(string) string) {
	must(t, fsys.MkdirAll(at("d")))
	if _, err := fsys.Open(at("d")); err == nil {
		t.Error("a directory was opened")
	}
	if _, err := fsys.Create(at("d")); err == nil {
		t.Error("a directory was overwritten")
	}
	write(t, fsys, at("f"), "")
	if err := fsys.MkdirAll(at("f/d")); err == nil {
		t.Error("a directory was made in a file")
	}
	if err := fsys.MkdirAll(at("f")); err == nil {
		t.Error("a directory was made over a file")
	}
}

func linkOnce(t *testing.T, fsys vfs.FS, at func(string) string) {
	write(t, fsys, at("a"), "first")
	write(t, fsys, at("b"), "second")
	must(t, fsys.Link(at("a"), at("final")))
	wantErr(t, fsys.Link(at("b"), at("final")), fs.ErrExist)
	want(t, fsys, at("final"), "first")
}

func linkShares(t *testing.T, fsys vfs.FS, at func(string) string) {
	write(t, fsys, at("a"), "1")
	must(t, fsys.Link(at("a"), at("b")))
	write(t, fsys, at("a"), "changed")
	want(t, fsys, at("b"), "changed")
	must(t, fsys.Remove(at("a")))
	want(t, fsys, at("b"), "changed")
}

func renameReplaces(t *testing.T, fsys vfs.FS, at func(string) string) {
	write(t, fsys, at("a"), "new")
	write(t, fsys, at("b"), "old")
	must(t, fsys.Rename(at("a"), at("b")))
	want(t, fsys, at("b"), "new")
	_, err := fsys.Stat(at("a"))
	wantErr(t, err, fs.ErrNotExist)
	must(t, fsys.MkdirAll(at("d")))
	must(t, fsys.Rename(at("b"), at("d/c")))
	want(t, fsys, at("d/c"), "new")
}

func removes(t *testing.T, fsys vfs.FS, at func(string) string) {
	must(t, fsys.MkdirAll(at("d/e")))
	write(t, fsys, at("d/e/f"), "x")
	if err := fsys.Remove(at("d/e")); err == nil {
		t.Error("a full directory was removed")
	}
	must(t, fsys.Remove(at("d/e/f")))
	must(t, fsys.Remove(at("d/e")))
	write(t, fsys, at("d/g"), "x")
	must(t, fsys.RemoveAll(at("d")))
	_, err := fsys.Stat(at("d"))
	wantErr(t, err, fs.ErrNotExist)
}

func directories(t *testing.T, fsys vfs.FS, at func(string) string) {
	must(t, fsys.MkdirAll(at("x/y/z")))
	must(t, fsys.MkdirAll(at("x/y/z")))
	write(t, fsys, at("x/b"), "")
	write(t, fsys, at("x/a"), "")
	entries, err := fsys.ReadDir(at("x"))
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
		if e.IsDir() != (e.Name() == "y") {
			t.Errorf("%s: directory %v", e.Name(), e.IsDir())
		}
	}
	if !slices.Equal(names, []string{"a", "b", "y"}) {
		t.Errorf("names are %q", names)
	}
}

func removedWhileOpen(t *testing.T, fsys vfs.FS, at func(string) string) {
	write(t, fsys, at("f"), "still here")
	f, err := fsys.Open(at("f"))
	must(t, err)
	defer f.Close()
	must(t, fsys.Remove(at("f")))
	if got, err := io.ReadAll(f); string(got) != "still here" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
}

func globs(t *testing.T, fsys vfs.FS, at func(string) string) {
	must(t, fsys.MkdirAll(at("in/deep")))
	for _, name := range []string{"in/b.csv", "in/a.csv", "in/c.txt", "in/deep/d.csv"} {
		write(t, fsys, at(name), "")
	}
	got, err := fsys.Glob(at("in/*.csv"))
	must(t, err)
	if !slices.Equal(got, []string{at("in/a.csv"), at("in/b.csv")}) {
		t.Errorf("glob found %q", got)
	}
	if got, err := fsys.Glob(at("in/none*")); len(got) != 0 || err != nil {
		t.Errorf("glob found %q, %v", got, err)
	}
	_, err = fsys.Glob(at("in/["))
	wantErr(t, err, path.ErrBadPattern)
}

func locks(t *testing.T, fsys vfs.FS, at func(string) string) {
	held, err := fsys.Lock(at("lock"))
	must(t, err)
	_, err = fsys.Lock(at("lock"))
	wantErr(t, err, vfs.ErrLocked)
	must(t, held.Close())
	again, err := fsys.Lock(at("lock"))
	must(t, err)
	must(t, again.Close())
}

package file

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"cutwater/messages"
	"cutwater/storage/vfs"
	"cutwater/stream"
	"cutwater/stream/row"
)

// abc is a schema of three strings.
var abc = &row.Schema{Fields: []row.Field{{Name: "a", Kind: row.String}, {Name: "b", Kind: row.String}, {Name: "c", Kind: row.String}}}

// memory is a file system with one file.
func memory(t testing.TB, path, content string) vfs.FS {
	t.Helper()
	fsys := vfs.Mem()
	if err := fsys.MkdirAll(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	if err := vfs.WriteFile(fsys, path, []byte(content)); err != nil {
		t.Fatal(err)
	}
	return fsys
}

func newSource(t testing.TB, c Config) *Source {
	t.Helper()
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func discover(t testing.TB, s *Source, fsys vfs.FS) []*messages.Split {
	t.Helper()
	found, err := s.Discover(context.Background(), fsys, 1)
	if err != nil {
		t.Fatal(err)
	}
	return found.Splits
}

// readAll reads every split in turn: the rows as text, and what was malformed.
func readAll(t testing.TB, s *Source, fsys vfs.FS) (rows []string, bad []*stream.MalformedError) {
	t.Helper()
	for _, split := range discover(t, s, fsys) {
		r, err := s.Open(context.Background(), fsys, split)
		if err != nil {
			t.Fatal(err)
		}
		for done := false; !done; {
			var v row.Row
			status, err := r.Next(&v)
			var m *stream.MalformedError
			switch {
			case errors.As(err, &m):
				bad = append(bad, m)
			case err != nil:
				t.Fatal(err)
			case status == stream.ReadRecord:
				rows = append(rows, format(s.Schema(), v))
			}
			done = status == stream.ReadEnd
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return rows, bad
}

// format writes a row as text that tells every value from every other.
func format(s *row.Schema, v row.Row) string {
	var b strings.Builder
	for i, f := range s.Fields {
		if i > 0 {
			b.WriteByte('|')
		}
		cell := v.Cells[i]
		switch {
		case i < nullable && v.Nulls&(1<<i) != 0:
			b.WriteString("null")
		case isText(f.Kind):
			from := cell >> 32
			fmt.Fprintf(&b, "%q", v.Text[from:from+uint64(uint32(cell))])
		case f.Kind == row.Float:
			fmt.Fprint(&b, floatOf(cell))
		default:
			fmt.Fprint(&b, int64(cell))
		}
	}
	return b.String()
}

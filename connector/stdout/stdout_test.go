package stdout_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"cutwater/connector/connectortest"
	"cutwater/connector/stdout"
	"cutwater/messages"
	"cutwater/storage/vfs"
	"cutwater/stream"
	"cutwater/stream/catalog"
	"cutwater/stream/row"
)

var schema = &row.Schema{Fields: []row.Field{{Name: "n", Kind: row.Int}, {Name: "s", Kind: row.String}}}

func value(i int) row.Row { return row.Row{Cells: []uint64{uint64(i), 1}, Text: "x"} }

// Printing on commit keeps the contract within a process, over restarts of the job.
func TestConformance(t *testing.T) {
	var out *bytes.Buffer
	var printer *stdout.Printer
	var disk vfs.FS
	connectortest.Sink(t, connectortest.SinkHarness[row.Row]{
		New: func(_ *testing.T, fsys vfs.FS) stream.Sink[row.Row] {
			if fsys != disk { // a new case
				disk, out = fsys, &bytes.Buffer{}
				printer = stdout.NewPrinter(out)
			}
			return stdout.New(printer, schema, false)
		},
		Value: value,
		Visible: func(t *testing.T, _ vfs.FS) (numbers []int) {
			for line := range strings.Lines(out.String()) {
				var r struct{ N int }
				if err := json.Unmarshal([]byte(line), &r); err != nil {
					t.Fatal(err)
				}
				numbers = append(numbers, r.N)
			}
			return numbers
		},
		Volatile: true,
	})
}

// At once means before any checkpoint: a flush prints, a prepare prints the rest.
func TestAtOnce(t *testing.T) {
	var out bytes.Buffer
	w, err := stdout.New(stdout.NewPrinter(&out), schema, true).NewWriter(stream.SinkContext{})
	if err != nil {
		t.Fatal(err)
	}
	_ = w.Write(value(1), 0)
	if w.Buffered() == 0 {
		t.Error("nothing waits to be printed")
	}
	if err := w.Flush()(t.Context()); err != nil || out.String() != "{\"n\":1,\"s\":\"x\"}\n" {
		t.Errorf("printed %q, %v", out.String(), err)
	}
	_ = w.Write(value(2), 0)
	committables, err := w.Prepare(1)(t.Context())
	if err != nil || len(committables) != 0 || strings.Count(out.String(), "\n") != 2 {
		t.Errorf("printed %q, %v, %v", out.String(), committables, err)
	}
}

type broken struct{ left int }

func (b *broken) Write(p []byte) (int, error) {
	if b.left--; b.left < 0 {
		return len(p), nil
	}
	return 0, errors.New("broken pipe")
}

// A commit that could not print is no commit: the next try prints.
func TestPrintFails(t *testing.T) {
	s := stdout.New(stdout.NewPrinter(&broken{left: 1}), schema, false)
	c := &messages.Committable{Checkpoint: 1, Payload: []byte("x\n")}
	if err := s.Commit(t.Context(), stream.SinkContext{}, c); err == nil {
		t.Error("no error")
	}
	if err := s.Commit(t.Context(), stream.SinkContext{}, c); err != nil {
		t.Error(err)
	}
}

// More than a checkpoint should carry fails with a way out.
func TestTooMuch(t *testing.T) {
	w, err := stdout.New(stdout.NewPrinter(nil), schema, false).NewWriter(stream.SinkContext{Uid: "out"})
	if err != nil {
		t.Fatal(err)
	}
	long := row.Row{Cells: []uint64{1, stdout.MaxPartBytes}, Text: strings.Repeat("x", stdout.MaxPartBytes)}
	if err := w.Write(long, 0); err == nil || !strings.Contains(err.Error(), `"out"`) || !strings.Contains(err.Error(), "file sink") {
		t.Errorf("error is %v", err)
	}
}

// The spec refuses what makes no sense.
func TestSpec(t *testing.T) {
	spec := stdout.Spec()
	if _, err := spec.New(catalog.Values{Schema: schema}); err != nil {
		t.Error(err)
	}
	if _, err := spec.New(catalog.Values{Schema: schema, Strings: map[string]string{"when": "never"}}); err == nil {
		t.Error("when: never was taken")
	}
}

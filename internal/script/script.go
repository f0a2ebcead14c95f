// Package script runs text scripts against machines: a file is a story of
// directives, each followed by `----` and the golden output, which is the log of
// what the machine did.
//
//	# A duplicate ack changes nothing and keeps its state (scenario 6).
//	ack task=a/0 checkpoint=1
//	----
//	duplicate
//
// Run the test with -rewrite to renew golden output; review it like code. An
// error that a directive does not expect fails the test even then: a directive
// expects one with the argument `error`.
package script

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// Handler runs one directive and returns its output.
type Handler func(d *Directive) (string, error)

// Directive is one step of a script.
type Directive struct {
	// Verb is the first word.
	Verb string
	// Body is the text after the first line, before `----`.
	Body string
	data *datadriven.TestData
}

// Arg returns the value of key=value, or def if there is none.
func (d *Directive) Arg(key, def string) string {
	for _, a := range d.data.CmdArgs {
		if a.Key == key {
			return strings.Join(a.Vals, ",")
		}
	}
	return def
}

// Has reports whether the word stands among the arguments.
func (d *Directive) Has(key string) bool {
	for _, a := range d.data.CmdArgs {
		if a.Key == key {
			return true
		}
	}
	return false
}

// Int returns the value of key=number, or def.
func (d *Directive) Int(key string, def int64) int64 {
	s := d.Arg(key, "")
	if s == "" {
		return def
	}
	var n int64
	if _, err := fmt.Sscan(s, &n); err != nil {
		panic(fmt.Sprintf("%s: %s=%s is not a number", d.data.Pos, key, s))
	}
	return n
}

// Words returns the arguments without a value, in order.
func (d *Directive) Words() []string {
	var words []string
	for _, a := range d.data.CmdArgs {
		if len(a.Vals) == 0 && a.Key != "error" {
			words = append(words, a.Key)
		}
	}
	return words
}

// RunDir runs every *.txt file of a directory; each gets a fresh handler.
func RunDir(t *testing.T, dir string, fresh func(t *testing.T) Handler) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scripts in %s (%v)", dir, err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			handle := fresh(t)
			datadriven.RunTest(t, path, func(t *testing.T, data *datadriven.TestData) string {
				d := &Directive{Verb: data.Cmd, Body: data.Input, data: data}
				out, err := guarded(handle, d)
				switch {
				case err != nil && !d.Has("error"):
					t.Fatalf("%s: unexpected error: %v", data.Pos, err)
				case err == nil && d.Has("error"):
					t.Fatalf("%s: expected an error, got %q", data.Pos, out)
				case err != nil:
					out += "error: " + err.Error()
				}
				if out = strings.TrimRight(out, "\n"); out == "" {
					return "ok\n"
				}
				return out + "\n"
			})
		})
	}
}

// guarded turns a broken assertion into an error that a script can expect.
func guarded(handle Handler, d *Directive) (out string, err error) {
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(error)
			if !ok || !strings.HasPrefix(e.Error(), "assertion failed") {
				panic(r)
			}
			err = errors.New(e.Error())
		}
	}()
	return handle(d)
}

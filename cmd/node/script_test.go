package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"cutwater/cmd/node/command"
	"cutwater/stream"
	"cutwater/stream/row"
)

// The test binary is the command too: scripts run it in processes of its own,
// with an operator that panics.
func TestMain(m *testing.M) {
	stream.RegisterProcess("explode", stream.RowProcess{
		Each: func(in, out *row.Schema) (stream.Processor[stream.NoKey, row.Row, row.Row], error) {
			return explode{}, nil
		},
	})
	testscript.Main(m, map[string]func(){
		"cutwater": func() { os.Exit(command.Main(os.Args[1:], os.Stdout, os.Stderr)) },
	})
}

// explode passes rows on and panics at the first whose n is 13, as a user's code
// might.
type explode struct{}

func (explode) Process(c *stream.Context[stream.NoKey, row.Row], v row.Row) error {
	if n := int64(v.Cells[2]); n == 13 {
		var nothing []int
		_ = nothing[n]
	}
	c.Emit(v)
	return nil
}

// Whoever makes a mistake gets one sentence with a next step and the exit code of
// its kind, and nothing is lost or half written: the scripts in testdata/script.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "damage": damage, "big": big, "find": find, "rows": rowsCommand,
		},
		RequireExplicitExec: true,
	})
}

// exits CODE COMMAND ARGS... runs a command that must end with the code. Who is
// told of an error gets one sentence that begins with "error: ", and no stack.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit interface{ ExitCode() int }
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		code = exit.ExitCode()
	}
	stderr := ts.ReadFile("stderr")
	said := 0
	for line := range strings.Lines(stderr) {
		if strings.HasPrefix(line, "error: ") {
			said++
		}
	}
	switch {
	case code != want:
		ts.Fatalf("exit code %d, want %d:\n%s", code, want, stderr)
	case code == 0 && said > 0, code != 0 && said != 1:
		ts.Fatalf("exit code %d and %d lines of error:\n%s", code, said, stderr)
	case strings.Contains(stderr, "goroutine "):
		ts.Fatalf("a stack of goroutines:\n%s", stderr)
	}
}

// damage FILE cut|flip|OFFSET=BYTE changes a file: cut drops its last byte, flip
// changes a bit in its middle.
func damage(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	content, err := os.ReadFile(path)
	ts.Check(err)
	switch at, value, isByte := strings.Cut(args[1], "="); {
	case args[1] == "cut":
		content = content[:len(content)-1]
	case args[1] == "flip":
		content[len(content)/2] ^= 1
	case isByte:
		i, err := strconv.Atoi(at)
		ts.Check(err)
		b, err := strconv.Atoi(value)
		ts.Check(err)
		content[i] = byte(b)
	default:
		ts.Fatalf("no such damage")
	}
	ts.Check(os.WriteFile(path, content, 0o644))
}

// big FILE SIZE writes orders of which the second has an item of that many bytes.
func big(ts *testscript.TestScript, _ bool, args []string) {
	size, err := strconv.Atoi(args[1])
	ts.Check(err)
	var b bytes.Buffer
	b.WriteString("at,item,n\n2026-01-01T00:00:00Z,tea,1\n2026-01-01T00:00:00Z,")
	b.Write(bytes.Repeat([]byte("x"), size))
	b.WriteString(",2\n2026-01-01T00:00:00Z,tea,3\n")
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b.Bytes(), 0o644))
}

// find VARIABLE PATTERN sets a variable to the last path that matches; with ! none
// may match.
func find(ts *testscript.TestScript, neg bool, args []string) {
	found, err := filepath.Glob(ts.MkAbs(args[len(args)-1]))
	ts.Check(err)
	switch {
	case neg && len(found) > 0:
		ts.Fatalf("there is %v", found)
	case !neg && len(found) == 0:
		ts.Fatalf("nothing matches %s", args[1])
	case !neg:
		ts.Setenv(args[0], slices.Max(found))
	}
}

// rows PATTERN FILE compares the rows of all files that match, sorted and without
// headers, with a file. A row longer than 100 bytes is shown by its length.
func rowsCommand(ts *testscript.TestScript, _ bool, args []string) {
	found, err := filepath.Glob(ts.MkAbs(args[0]))
	ts.Check(err)
	var got []string
	for _, path := range found {
		content, err := os.ReadFile(path)
		ts.Check(err)
		for _, line := range strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")[1:] {
			if len(line) > 100 {
				line = fmt.Sprintf("%d bytes", len(line))
			}
			got = append(got, line+"\n")
		}
	}
	slices.Sort(got)
	if want := ts.ReadFile(args[1]); strings.Join(got, "") != want {
		ts.Fatalf("rows:\n%swant:\n%s", strings.Join(got, ""), want)
	}
}

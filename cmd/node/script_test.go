package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
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

// explode passes rows on, panics at the first whose n is 13, as a user's code might,
// and fails at one whose n is 14 with a text that is not UTF-8.
type explode struct{}

func (explode) Process(c *stream.Context[stream.NoKey, row.Row], v row.Row) error {
	if n := int64(v.Cells[2]); n == 13 {
		var nothing []int
		_ = nothing[n]
	} else if n == 14 {
		return errors.New("no \xff here")
	}
	c.Emit(v)
	return nil
}

// Whoever makes a mistake gets one sentence with a next step and the exit code of
// its kind, and nothing is lost or half written: the scripts in testdata/script.
func TestScripts(t *testing.T) {
	p := scripts()
	p.Dir = "testdata/script"
	testscript.Run(t, p)
}

// scripts are run with these commands.
func scripts() testscript.Params {
	return testscript.Params{
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "raw": raw, "suspend": suspend, "damage": damage, "big": big, "find": find, "rows": rowsCommand, "same": same,
			"node": startNode, "leave": leaveNodes, "crash": crashNodes, "until": until,
			"ports": ports, "listens": listens,
		},
		Setup: func(e *testscript.Env) error {
			flights, err := filepath.Abs(filepath.Join(example, "flights.csv"))
			e.Setenv("FLIGHTS", flights)
			setupNodes(e)
			return err
		},
		RequireExplicitExec: true,
	}
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

// raw file NAME TEXT writes a file, raw env NAME TEXT sets a variable. File names
// and texts have Go's escapes, for what the text of a script cannot hold.
func raw(ts *testscript.TestScript, _ bool, args []string) {
	unquote := func(s string) string {
		text, err := strconv.Unquote(`"` + s + `"`)
		ts.Check(err)
		return text
	}
	switch args[0] {
	case "file":
		ts.Check(os.WriteFile(ts.MkAbs(unquote(args[1])), []byte(unquote(args[2])), 0o666))
	case "env":
		ts.Setenv(args[1], unquote(args[2]))
	default:
		ts.Fatalf("no such kind: %s", args[0])
	}
}

// suspend COMMAND ARGS... runs a command until it has completed two checkpoints and
// committed a file, and then suspends it with SIGTERM, which must end well. RATE is
// so low for it that no machine is too slow to be ahead of the end of the input.
func suspend(ts *testscript.TestScript, _ bool, args []string) {
	c := exec.Command(args[0], args[1:]...)
	c.Dir, c.Env = ts.MkAbs("."), append(os.Environ(), "FLIGHTS="+ts.Getenv("FLIGHTS"), "RATE=2000")
	stderr, err := c.StderrPipe()
	ts.Check(err)
	ts.Check(c.Start())
	said, completed, asked := "", 0, false
	for s := bufio.NewScanner(stderr); s.Scan(); {
		said += s.Text() + "\n"
		if strings.Contains(s.Text(), " completed after ") {
			completed++
			visible, err := filepath.Glob(ts.MkAbs("out/part-*"))
			ts.Check(err)
			if completed >= 2 && len(visible) > 0 && !asked {
				asked = true
				ts.Check(c.Process.Signal(syscall.SIGTERM))
			}
		}
	}
	if err := c.Wait(); err != nil || !strings.Contains(said, "suspended; the same command resumes from checkpoint") {
		ts.Fatalf("suspending: %v\n%s", err, said)
	}
}

// damage FILE cut|flip|newer changes a file: cut drops its last byte, flip changes
// a bit in its middle, newer makes checkpoint metadata those of the next format.
func damage(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	content, err := os.ReadFile(path)
	ts.Check(err)
	switch args[1] {
	case "cut":
		content = content[:len(content)-1]
	case "flip":
		content[len(content)/2] ^= 1
	case "newer":
		content[8]++ // of the header that package storage describes
		binary.LittleEndian.PutUint32(content[20:], crc32.Checksum(content[:20], crc32.MakeTable(crc32.Castagnoli)))
	default:
		ts.Fatalf("no such damage: %s", args[1])
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
		newest := slices.MaxFunc(found, func(a, b string) int { // chk-10 is after chk-9
			return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
		})
		ts.Setenv(args[0], newest)
	}
}

// rows PATTERN FILE compares the rows of all files that match, sorted and without
// headers, with a file. A row longer than 100 bytes is shown by its length.
func rowsCommand(ts *testscript.TestScript, _ bool, args []string) {
	if got, want := rowsOf(ts, args[0]), ts.ReadFile(args[1]); got != want {
		ts.Fatalf("rows:\n%swant:\n%s", got, want)
	}
}

// same PATTERN PATTERN compares the rows of two sets of files.
func same(ts *testscript.TestScript, _ bool, args []string) {
	if a, b := rowsOf(ts, args[0]), rowsOf(ts, args[1]); a != b || a == "" {
		ts.Fatalf("%d bytes of rows in %s, %d in %s, or they differ", len(a), args[0], len(b), args[1])
	}
}

func rowsOf(ts *testscript.TestScript, pattern string) string {
	found, err := filepath.Glob(ts.MkAbs(pattern))
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
	return strings.Join(got, "")
}

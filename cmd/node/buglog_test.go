package main

import (
	"net"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// runRow runs the script of a row of docs/bug-log.md.
func runRow(t *testing.T, id string) {
	p := scripts()
	p.Files = []string{"testdata/buglog/" + id + ".txtar"}
	testscript.Run(t, p)
}

// J03 (arroyo #992): damaged state was loaded by each restart, for ever. Here the command
// ends, names the ways out, and either is for once.
func TestBugLog_J03_DamagedCheckpoint(t *testing.T) { runRow(t, "J03") }

// J08 (Reduction): flags were read as another type and ignored. Here each flag of start
// that is not its default has an effect that another command, or a connection, sees.
func TestBugLog_J08_FlagsHaveEffect(t *testing.T) { runRow(t, "J08") }

// ports NAME... sets variables to ports that are free.
func ports(ts *testscript.TestScript, neg bool, names []string) {
	if neg || len(names) == 0 {
		ts.Fatalf("usage: ports NAME...")
	}
	for _, name := range names {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		ts.Check(err)
		defer l.Close() // so that the next one is another
		_, port, err := net.SplitHostPort(l.Addr().String())
		ts.Check(err)
		ts.Setenv(name, port)
	}
}

// listens PORT: somebody takes connections there, or nobody does.
func listens(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: listens PORT")
	}
	c, err := net.Dial("tcp", "127.0.0.1:"+args[0])
	if err == nil {
		ts.Check(c.Close())
	}
	if (err != nil) != neg {
		ts.Fatalf("port %s: %v", args[0], err)
	}
}

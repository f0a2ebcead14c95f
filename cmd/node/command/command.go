// Package command is the cutwater command line.
//
// Data goes to standard output, everything else to standard error. Exit codes: 0
// ok, 1 error, 2 usage, 3 not found, 4 conflict, 5 rejected by lint or because the topology no
// longer fits its state, 6 job failed, 7 no node answers, or not in time.
//
// run works alone, in package node's Process. start is a node of a cluster (start.go,
// backend.go); the commands behind it ask one through its HTTP API (connect.go).
package command

import (
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"cutwater/connector/blackhole"
	"cutwater/connector/datagen"
	"cutwater/connector/file"
	"cutwater/connector/filesink"
	"cutwater/connector/stdout"
	"cutwater/stream/catalog"
)

// Exit codes.
const (
	exitOK       = 0
	exitError    = 1
	exitUsage    = 2
	exitNotFound = 3
	exitConflict = 4
	exitRejected = 5
	exitFailed   = 6
	// exitUnreachable: no node answers, or what was waited for did not come in time.
	exitUnreachable = 7
)

// codedError carries an exit code; an error without one is a usage error.
type codedError struct {
	code int
	err  error
}

func (e *codedError) Error() string { return e.err.Error() }
func (e *codedError) Unwrap() error { return e.err }

func coded(code int, err error) error { return &codedError{code, err} }

// Main runs the command with its arguments and returns the exit code.
func Main(args []string, out, errOut io.Writer) int {
	signal.Ignore(syscall.SIGXFSZ) // a write above the limit of file sizes fails like one to a full disk
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	cmd, err := root.ExecuteC()
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(errOut, "error:", err)
	var c *codedError
	if errors.As(err, &c) && c.code != exitUsage {
		return c.code
	}
	// What has no code comes from the parsing of arguments.
	fmt.Fprintf(errOut, "`%s --help` shows how it is used\n", cmd.CommandPath())
	return exitUsage
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "cutwater",
		Short:         "Exactly-once stateful stream processing in one binary",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newRun(), newLint(), newVersion(), newStart(), newDeploy(), newJobs(), newJob(), newCheckpoints(), newCancel(), newNodes(), newEvents(), newRecover(), newCompletion())
	return root
}

// oneFile accepts the arguments of a command that works on one topology file.
func oneFile(cmd *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return fmt.Errorf("%s needs the path of a topology file", cmd.Name())
	case 1:
		return nil
	}
	return fmt.Errorf("%s takes one topology file, and these are %d: %s", cmd.Name(), len(args), strings.Join(args, " "))
}

// connectors are the ones that a topology.yaml can name.
func connectors() *catalog.Catalog {
	return &catalog.Catalog{
		Sources: []catalog.SourceSpec{file.Spec(), datagen.Spec()},
		Sinks:   []catalog.SinkSpec{filesink.Spec(), stdout.Spec(), blackhole.Spec()},
	}
}

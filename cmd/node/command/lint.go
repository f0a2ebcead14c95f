package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"cutwater/messages"
	"cutwater/protocol/job"
	"cutwater/stream"
	"cutwater/topology"
)

// findingJSON is one element of the array that lint -o json prints.
type findingJSON struct {
	// Rule is that of docs/lint.md, such as CW002.
	Rule string `json:"rule"`
	// Severity is "error" or "warning".
	Severity string `json:"severity"`
	File     string `json:"file"`
	// Line and Column count from 1, the column in characters; 0 is no place in
	// particular.
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Message string `json:"message"`
	// Source is the text of the line.
	Source string `json:"source"`
}

func newLint() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lint FILE",
		Short: "Check a topology file and print what is wrong with it",
		Long: `Check a topology file and print everything that is wrong with it, each finding
with its place and its rule; docs/lint.md explains the rules. Nothing is run, and
no input or output is touched.

Exit code 0: it can run, perhaps with warnings. 5: it has errors.`,
		Args:              oneFile,
		ValidArgsFunction: topologyFiles,
	}
	output := formatFlag(cmd, "the list of findings")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return lint(cmd, args[0], *output) }
	return cmd
}

func lint(cmd *cobra.Command, name string, output format) error {
	path, src, err := readTopology(name)
	if err != nil {
		return coded(exitError, err)
	}
	t, findings := topology.Lint(path, src, connectors(), os.LookupEnv)
	if t != nil {
		program, _, err := topology.Build(t, connectors())
		if err == nil {
			_, err = job.Plan(program.Graph())
		}
		findings = append(findingsOf(path, err), findings...)
	}
	broken := 0
	for _, f := range findings {
		if f.Severity == topology.Error {
			broken++
		}
	}
	if output == jsonText {
		if err := printJSON(cmd, findingsJSON(findings)); err != nil {
			return err
		}
	} else {
		for _, f := range findings {
			fmt.Fprintln(cmd.OutOrStdout(), f)
		}
	}
	if broken > 0 {
		return coded(exitRejected, fmt.Errorf("%s is rejected: %s", name, count(broken, "error")))
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s, %s\n", name, count(len(t.Operators), "operator"), count(len(findings), "warning"))
	return nil
}

// findingsOf makes findings of what Build returned.
func findingsOf(path string, err error) []topology.Diagnostic {
	var errs topology.Errors
	switch {
	case err == nil:
		return nil
	case errors.As(err, &errs):
		return errs
	}
	return []topology.Diagnostic{{Severity: topology.Error, File: path, Message: err.Error()}}
}

func findingsJSON(findings []topology.Diagnostic) []findingJSON {
	out := make([]findingJSON, len(findings)) // never nil: no findings are []
	for i, f := range findings {
		out[i] = findingJSON{Rule: f.Rule, Severity: f.Severity.String(), File: f.File, Line: f.Line, Column: f.Column, Message: f.Message, Source: f.Source}
	}
	return out
}

// readTopology reads the file and makes its path absolute.
func readTopology(name string) (path string, src []byte, err error) {
	path, err = filepath.Abs(name)
	if err != nil {
		return "", nil, err
	}
	if !utf8.ValidString(path) { // its folder becomes part of paths in messages
		return "", nil, fmt.Errorf("the path of the topology %q is not UTF-8 text; rename the file or its folder", path)
	}
	src, err = os.ReadFile(path)
	if err != nil {
		return "", nil, fmt.Errorf("the topology cannot be read: %w", err)
	}
	return path, src, nil
}

// loaded is a topology that is ready to run.
type loaded struct {
	path     string // absolute
	topology *topology.Topology
	program  *stream.Program
	settings *messages.JobSettings
}

// load reads, checks and builds a topology; parallelism above 0 replaces the
// file's. Warnings go to warn.
func load(name string, parallelism int, warn func(string)) (*loaded, error) {
	path, src, err := readTopology(name)
	if err != nil {
		return nil, coded(exitError, err)
	}
	t, err := topology.Load(path, src, connectors(), os.LookupEnv)
	if err != nil {
		return nil, rejected(name, err)
	}
	for _, w := range t.Warnings {
		warn(w.String())
	}
	if parallelism > 0 {
		if most := t.MaxParallelism; most > 0 && parallelism > most {
			return nil, coded(exitRejected, fmt.Errorf("--parallelism %d is above max-parallelism %d of %s; lower it, or raise max-parallelism", parallelism, most, name))
		}
		t.Parallelism = parallelism
	}
	l := &loaded{path: path, topology: t}
	if l.program, l.settings, err = topology.Build(t, connectors()); err != nil {
		return nil, rejected(name, err)
	}
	if _, err := job.Plan(l.program.Graph()); err != nil {
		return nil, rejected(name, err)
	}
	return l, nil
}

func rejected(name string, err error) error {
	return coded(exitRejected, fmt.Errorf("%s is rejected:\n%w", name, err))
}

package command

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"cutwater/messages"
	"cutwater/stream"
	"cutwater/topology"
)

func newLint() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "lint FILE",
		Short: "Check a topology file and print what is wrong with it",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, src, err := readTopology(args[0])
			if err != nil {
				return coded(exitError, err)
			}
			t, diagnostics := topology.Lint(path, src, connectors(), os.LookupEnv)
			if output == "json" {
				if err := json.NewEncoder(cmd.OutOrStdout()).Encode(diagnostics); err != nil {
					return coded(exitError, err)
				}
			} else {
				for _, d := range diagnostics {
					fmt.Fprintln(cmd.OutOrStdout(), d)
				}
			}
			if t == nil {
				return coded(exitRejected, fmt.Errorf("%s has mistakes", args[0]))
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: %d operators, %d warnings\n", args[0], len(t.Operators), len(diagnostics))
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}

// readTopology reads the file and makes its path absolute.
func readTopology(name string) (path string, src []byte, err error) {
	path, err = filepath.Abs(name)
	if err != nil {
		return "", nil, err
	}
	src, err = os.ReadFile(path)
	if err != nil {
		return "", nil, fmt.Errorf("the topology cannot be read: %w", err)
	}
	return path, src, nil
}

// load reads, checks and builds a topology; warnings go to warn.
func load(name string, parallelism int, warn func(string)) (path string, p *stream.Program, s *messages.JobSettings, err error) {
	path, src, err := readTopology(name)
	if err != nil {
		return "", nil, nil, coded(exitError, err)
	}
	t, err := topology.Load(path, src, connectors(), os.LookupEnv)
	if err != nil {
		return "", nil, nil, coded(exitRejected, fmt.Errorf("%s is rejected:\n%w", name, err))
	}
	for _, w := range t.Warnings {
		warn(fmt.Sprint(w))
	}
	if parallelism > 0 {
		t.Parallelism = parallelism
	}
	p, s, err = topology.Build(t, connectors())
	if err != nil {
		return "", nil, nil, coded(exitRejected, fmt.Errorf("%s is rejected:\n%w", name, err))
	}
	return path, p, s, nil
}

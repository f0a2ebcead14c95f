package command

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// versionJSON is the output of version -o json.
type versionJSON struct {
	// Version is that of the module, "(devel)" for a build of a clone.
	Version string `json:"version"`
	// Commit was built; empty if that is not known.
	Commit string `json:"commit"`
	// Go is the version of the compiler.
	Go string `json:"go"`
}

func newVersion() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of the program",
		Args:  cobra.NoArgs,
	}
	output := formatFlag(cmd, "the version")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		v := version()
		if *output == jsonText {
			return printJSON(cmd, v)
		}
		line := "cutwater " + v.Version
		if v.Commit != "" {
			line += " " + v.Commit
		}
		fmt.Fprintln(cmd.OutOrStdout(), line, v.Go)
		return nil
	}
	return cmd
}

func version() versionJSON {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return versionJSON{Version: "unknown"}
	}
	v := versionJSON{Version: info.Main.Version, Go: info.GoVersion}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Commit = s.Value
		}
	}
	return v
}

package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// shells are those that completion knows.
var shells = []string{"bash", "zsh", "fish"}

func newCompletion() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print a script that completes commands, flags, files and jobs in a shell",
		Long: `Print a script that makes a shell complete commands, flags, topology files and the
names of jobs, for which a node is asked.

  bash:  source <(cutwater completion bash)
  zsh:   cutwater completion zsh > "${fpath[1]}/_cutwater"
  fish:  cutwater completion fish > ~/.config/fish/completions/cutwater.fish`,
		ValidArgs:             shells,
		DisableFlagsInUseLine: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("completion needs one shell: %s", strings.Join(shells, ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			switch root, out := cmd.Root(), cmd.OutOrStdout(); args[0] {
			case "bash":
				err = root.GenBashCompletionV2(out, true)
			case "zsh":
				err = root.GenZshCompletion(out)
			case "fish":
				err = root.GenFishCompletion(out, true)
			default:
				return coded(exitUsage, fmt.Errorf("there is no completion for %q, but for %s", args[0], strings.Join(shells, ", ")))
			}
			if err != nil {
				return coded(exitError, fmt.Errorf("standard output cannot be written: %w", err))
			}
			return nil
		},
	}
}

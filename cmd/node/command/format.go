package command

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// format is how a command prints its data: the value of -o. docs/command.md
// describes each command's JSON.
type format string

const (
	text     format = "text"
	jsonText format = "json"
)

// Set implements pflag.Value.
func (f *format) Set(s string) error {
	if s != string(text) && s != string(jsonText) {
		return errors.New("it must be text or json")
	}
	*f = format(s)
	return nil
}

// String implements pflag.Value.
func (f *format) String() string { return string(*f) }

// Type implements pflag.Value.
func (f *format) Type() string { return "format" }

// formatFlag adds -o to a command.
func formatFlag(cmd *cobra.Command, what string) *format {
	f := text
	cmd.Flags().VarP(&f, "output", "o", "text or json: how "+what+" is printed on standard output")
	return &f
}

// printJSON prints one value on one line of standard output.
func printJSON(cmd *cobra.Command, v any) error {
	if err := json.NewEncoder(cmd.OutOrStdout()).Encode(v); err != nil {
		return coded(exitError, fmt.Errorf("standard output cannot be written: %w", err))
	}
	return nil
}

// printLine prints one line on standard output.
func printLine(cmd *cobra.Command, line string) error {
	if _, err := fmt.Fprintln(cmd.OutOrStdout(), line); err != nil {
		return coded(exitError, fmt.Errorf("standard output cannot be written: %w", err))
	}
	return nil
}

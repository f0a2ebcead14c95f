// Command node is the cutwater command: see package command. Install it under its
// own name with `go install ./cmd/cutwater`.
package main

import (
	"os"

	"cutwater/cmd/node/command"
)

func main() { os.Exit(command.Main(os.Args[1:], os.Stdout, os.Stderr)) }

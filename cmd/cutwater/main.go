// Command cutwater is the command of package command, under the name that an
// installed program should have.
package main

import (
	"os"

	"cutwater/cmd/node/command"
)

func main() { os.Exit(command.Main(os.Args[1:], os.Stdout, os.Stderr)) }

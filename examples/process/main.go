// Command process is cutwater with an operator of its own: the command of package
// command, and in worst.go an operator in Go that topology.yaml uses by name.
//
//	go run ./examples/process run examples/process/topology.yaml
package main

import (
	"os"

	"cutwater/cmd/node/command"
	"cutwater/stream"
)

func init() { stream.RegisterProcess("worst-flight", worstFlights) }

func main() { os.Exit(command.Main(os.Args[1:], os.Stdout, os.Stderr)) }

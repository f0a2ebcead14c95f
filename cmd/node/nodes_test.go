package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// patience bounds what a script waits for.
const patience = 30 * time.Second

// nodes are the processes of `cutwater start` of one script, by data folder.
type nodes map[string]*exec.Cmd

// nodesOf are those of a script.
func nodesOf(ts *testscript.TestScript) nodes { return ts.Value(nodesKey{}).(nodes) }

type nodesKey struct{}

// node DIR ARGS... starts a node with that data folder and returns when it says that
// it is ready. What it says on standard error goes to the file DIR.log.
func startNode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: node DIR ARGS...")
	}
	dir := args[0]
	log, err := os.OpenFile(ts.MkAbs(dir+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	ts.Check(err)
	defer log.Close()
	c := exec.Command("cutwater", append([]string{"start", "--data-dir", dir}, args[1:]...)...)
	c.Dir, c.Stderr = ts.MkAbs("."), log
	c.Env = append(os.Environ(), "CUTWATER_CLUSTER="+ts.Getenv("CUTWATER_CLUSTER"))
	out, err := c.StdoutPipe()
	ts.Check(err)
	ts.Check(c.Start())
	nodesOf(ts)[dir] = c
	ts.Defer(func() { _ = c.Process.Kill(); _ = c.Wait() }) // unless it has ended
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.Contains(line, " ready: http://127.0.0.1:") {
		ts.Fatalf("node %s: %v, %s\n%s", dir, err, line, ts.ReadFile(dir+".log"))
	}
}

// leave DIR... ends nodes with SIGTERM, one after the other; each must end well.
func leaveNodes(ts *testscript.TestScript, neg bool, args []string) {
	for _, dir := range args {
		c := nodesOf(ts)[dir]
		if neg || c == nil {
			ts.Fatalf("there is no node %s", dir)
		}
		ts.Check(c.Process.Signal(syscall.SIGTERM))
		if err := c.Wait(); err != nil {
			ts.Fatalf("node %s: %v\n%s", dir, err, ts.ReadFile(dir+".log"))
		}
		delete(nodesOf(ts), dir)
	}
}

// crash DIR... ends nodes as a loss of power does.
func crashNodes(ts *testscript.TestScript, neg bool, args []string) {
	for _, dir := range args {
		c := nodesOf(ts)[dir]
		if neg || c == nil {
			ts.Fatalf("there is no node %s", dir)
		}
		ts.Check(c.Process.Kill())
		_ = c.Wait() // it was killed
		delete(nodesOf(ts), dir)
	}
}

// until PATTERN COMMAND ARGS... runs a command again and again until its standard
// output matches.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until PATTERN COMMAND ARGS...")
	}
	wanted, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	last := errors.New("it was not run")
	for end := time.Now().Add(patience); time.Now().Before(end); {
		last = ts.Exec(args[1], args[2:]...)
		if last == nil && wanted.MatchString(ts.ReadFile("stdout")) {
			return
		}
	}
	ts.Fatalf("not within %v: %v\n%s%s", patience, last, ts.ReadFile("stdout"), ts.ReadFile("stderr"))
}

// setupNodes gives a script a cluster of its own.
func setupNodes(e *testscript.Env) {
	e.Values[nodesKey{}] = nodes{}
	e.Setenv("CUTWATER_CLUSTER", fmt.Sprintf("script-%d-%d", os.Getpid(), time.Now().UnixNano()))
}

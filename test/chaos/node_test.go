package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// node is a process of `cutwater start`, or the place of one: it may run or not.
type node struct {
	index   int // from 1
	cluster *cluster
	dir     string // its data folder
	log     string // the file with what all its starts have said
	hides   string // a folder in whose place the node sees an empty one of its own; or nothing

	mu      sync.Mutex
	process *exec.Cmd
	ended   chan struct{} // closed when the process has
	code    int           // its exit code then
	leaves  bool          // the process was told to end
	paused  bool
	starts  int
	trouble error // the process ended, and nobody wanted it to
	cramped bool  // there was no room when it started, and it may give up
}

// start starts the process, unless it runs. It does not wait until that is ready.
func (n *node) start() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process != nil {
		return nil
	}
	log, err := os.OpenFile(n.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own
	n.starts++
	_, err = os.Stat(n.filler())
	n.cramped = err == nil
	fmt.Fprintf(log, "--- start %d of node %d at %s\n", n.starts, n.index, time.Now().Format("15:04:05.000"))
	args := append([]string{"start", "--data-dir", n.dir, "--bind", n.cluster.net.bind(n.index)}, n.cluster.flags(n.cluster, n.index)...)
	name := n.cluster.binary
	if n.hides != "" {
		name, args = "unshare", append([]string{"-m", "sh", "-c", `mount -t tmpfs none "$0" && exec "$@"`, n.hides, name}, args...)
	}
	c := n.cluster.net.command(context.Background(), n.index, name, args...)
	c.Stdout, c.Stderr, c.Env, c.SysProcAttr = log, log, n.cluster.env, mortal()
	if err := c.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	n.process, n.ended, n.leaves, n.paused = c, ended, false, false
	go func() {
		err := c.Wait()
		n.mu.Lock()
		if !n.leaves && !n.cramped {
			n.trouble = errors.Join(n.trouble, fmt.Errorf("node %d ended by itself: %w", n.index, errors.Join(err, errors.New("see "+n.log))))
		}
		n.process, n.code = nil, c.ProcessState.ExitCode()
		n.mu.Unlock()
		close(ended)
	}()
	return nil
}

// signal sends a signal to the process, if there is one. With last it is to end, and
// what is returned is closed when it has.
func (n *node) signal(s syscall.Signal, last bool) <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process == nil {
		done := make(chan struct{})
		close(done)
		return done
	}
	n.leaves = n.leaves || last
	_ = n.process.Process.Signal(s) // it may have ended
	n.paused = s == syscall.SIGSTOP || n.paused && s != syscall.SIGCONT
	return n.ended
}

// tellStacks ends the process with the stacks of its goroutines in the log. One that
// stands still has heard of nothing that came in the meantime.
func (n *node) tellStacks() {
	ended := n.signal(syscall.SIGQUIT, true)
	n.signal(syscall.SIGCONT, false)
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
	}
}

// kill ends the process as a loss of power would, but for the files.
func (n *node) kill() { <-n.signal(syscall.SIGKILL, true) }

// stop asks the process to leave its cluster and to end, and waits for that.
func (n *node) stop(patience time.Duration) error {
	n.signal(syscall.SIGCONT, false)
	select {
	case <-n.signal(syscall.SIGTERM, true):
		if n.code != 0 {
			return fmt.Errorf("node %d could not leave as it should: exit code %d, see %s", n.index, n.code, n.log)
		}
		return nil
	case <-time.After(patience):
		n.tellStacks()
		n.kill()
		return fmt.Errorf("node %d did not end within %v after SIGTERM, see the stacks in %s", n.index, patience, n.log)
	}
}

// answers reports whether somebody may ask the process.
func (n *node) answers() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.process != nil && !n.paused && !n.leaves
}

// pid is that of the process, or 0.
func (n *node) pid() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process == nil {
		return 0
	}
	return n.process.Process.Pid
}

// mishap is why the process has ended, if nobody wanted it to, and forgets it.
func (n *node) mishap() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	defer func() { n.trouble = nil }()
	return n.trouble
}

// filler is the file that takes all room on the node's file system.
func (n *node) filler() string { return filepath.Join(n.dir, "filler") }

// fill leaves no room on the node's file system.
func (n *node) fill() error {
	f, err := os.Create(n.filler())
	if err != nil {
		return nil // it is full already
	}
	defer f.Close()
	for block := make([]byte, 1<<16); len(block) > 0; block = block[:len(block)/2] {
		for err = nil; err == nil; {
			_, err = f.Write(block)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			return err
		}
	}
	return nil
}

// free gives the room back.
func (n *node) free() error {
	if err := os.Remove(n.filler()); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

package chaos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// network is where the nodes of a cluster are: machines of their own, or all one.
type network interface {
	// command is a program that runs on the machine of a node.
	command(ctx context.Context, node int, name string, args ...string) *exec.Cmd
	// dial connects to an address from the machine of a node.
	dial(ctx context.Context, node int, address string) (net.Conn, error)
	// bind is the address of a node.
	bind(node int) string
	// breakable: the faults below can be made.
	breakable() bool
	// cable pulls the cable of a node, or plugs it in.
	cable(node int, in bool) error
	// lose drops what a node sends to another one.
	lose(from, to int, how loss) error
}

// loss is what becomes of what one node sends to another one.
type loss string

const (
	nothing    loss = "nothing"    // it arrives
	silent     loss = "silent"     // it vanishes
	unroutable loss = "unroutable" // the sender is told that there is no way
)

// loopback is one machine.
type loopback struct{}

func (loopback) command(ctx context.Context, _ int, name string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, name, args...)
}

func (loopback) dial(ctx context.Context, _ int, address string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}

func (loopback) bind(int) string           { return "127.0.0.1" }
func (loopback) breakable() bool           { return false }
func (loopback) cable(int, bool) error     { return errors.ErrUnsupported }
func (loopback) lose(int, int, loss) error { return errors.ErrUnsupported }

// namespaces gives each node a network namespace, whose only interface leads to a
// bridge in a namespace that has no other one.
type namespaces struct{ prefix string }

// newNetwork makes a network for nodes, and says which.
func newNetwork(t testing.TB, nodes int) network {
	t.Helper()
	if os.Getuid() != 0 {
		t.Log("not root: all nodes on 127.0.0.1, without partitions and full disks")
		return loopback{}
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Log("no command ip: all nodes on 127.0.0.1, without partitions and full disks")
		return loopback{}
	}
	sweep(t)
	n := namespaces{prefix: ownPrefix()}
	t.Cleanup(func() {
		for i := range nodes + 1 {
			_ = ip("netns", "del", n.name(i)) // it may not have come so far
		}
	})
	err := errors.Join(
		ip("netns", "add", n.name(0)),
		ip("-n", n.name(0), "link", "add", "hub", "type", "bridge"),
		ip("-n", n.name(0), "link", "set", "hub", "up"))
	for i := 1; i <= nodes && err == nil; i++ {
		err = errors.Join(
			ip("netns", "add", n.name(i)),
			ip("-n", n.name(0), "link", "add", n.port(i), "type", "veth", "peer", "name", cableName, "netns", n.name(i)),
			ip("-n", n.name(0), "link", "set", n.port(i), "master", "hub", "up"),
			ip("-n", n.name(i), "link", "set", "lo", "up"),
			ip("-n", n.name(i), "addr", "add", n.bind(i)+"/24", "brd", "+", "dev", cableName),
			ip("-n", n.name(i), "link", "set", cableName, "up"))
	}
	if err != nil {
		t.Logf("no network namespaces: all nodes on 127.0.0.1, without partitions and full disks: %v", err)
		return loopback{}
	}
	return n
}

// cableName is the interface of a node.
const cableName = "cable"

// prefix begins the names of all namespaces and file systems; that of a process
// follows.
const prefix = "cutwater-chaos-"

// ownPrefix begins those of this process.
func ownPrefix() string { return fmt.Sprintf("%s%d-", prefix, os.Getpid()) }

// orphaned reports whether the process that gave something its name is gone.
func orphaned(name string) bool {
	rest, ours := strings.CutPrefix(name, prefix)
	pid, _, _ := strings.Cut(rest, "-")
	_, err := os.Stat("/proc/" + pid)
	return ours && os.IsNotExist(err)
}

// sweep removes what runs that were killed have left.
func sweep(t testing.TB) {
	list, err := exec.Command("ip", "netns", "list").Output()
	if err != nil {
		t.Fatal(err)
	}
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(list)) {
		if name := strings.Fields(line)[0]; orphaned(name) {
			_ = ip("netns", "del", name) // another run may have been faster
		}
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); orphaned(fields[0]) {
			_ = unmount(fields[1])
		}
	}
}

func ip(args ...string) error {
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

func (n namespaces) name(node int) string { return n.prefix + strconv.Itoa(node) }
func (n namespaces) port(node int) string { return "port" + strconv.Itoa(node) }
func (n namespaces) bind(node int) string { return fmt.Sprintf("10.77.0.%d", 10+node) }
func (n namespaces) breakable() bool      { return true }

func (n namespaces) command(ctx context.Context, node int, name string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", n.name(node), name}, args...)...)
}

// dial makes the socket on a thread that is in the node's namespace, where it stays.
func (n namespaces) dial(ctx context.Context, node int, address string) (net.Conn, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	back, err := enterNamespace("/run/netns/" + n.name(node))
	if err != nil {
		return nil, err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	return conn, errors.Join(err, back())
}

func (n namespaces) cable(node int, in bool) error {
	state := "down"
	if in {
		state = "up"
	}
	return ip("-n", n.name(0), "link", "set", n.port(node), state)
}

// nobody is a hardware address that no machine has.
const nobody = "02:00:00:00:00:ff"

func (n namespaces) lose(from, to int, how loss) error {
	_ = ip("-n", n.name(from), "route", "del", "blackhole", n.bind(to)) // if there is one
	_ = ip("-n", n.name(from), "neigh", "del", n.bind(to), "dev", cableName)
	switch how {
	case silent:
		return ip("-n", n.name(from), "neigh", "replace", n.bind(to), "lladdr", nobody, "nud", "permanent", "dev", cableName)
	case unroutable:
		return ip("-n", n.name(from), "route", "add", "blackhole", n.bind(to))
	}
	return nil
}

package transport

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"cutwater/cluster/secret"
	"cutwater/internal/leak"
	"cutwater/protocol"
)

// The variables that make the test program a node of its own: where the node of the
// test listens, and the secret.
const (
	childControl = "TRANSPORT_TEST_CONTROL"
	childData    = "TRANSPORT_TEST_DATA"
	childSecret  = "TRANSPORT_TEST_SECRET"
)

func TestMain(m *testing.M) {
	if _, ok := os.LookupEnv(childControl); ok {
		if err := child(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	leak.VerifyTestMain(m)
}

// child is a node that answers until its input ends; it prints where it listens.
func child() error {
	var test Location
	var err1, err2, err3 error
	var s secret.Secret
	test.Control, err1 = netip.ParseAddrPort(os.Getenv(childControl))
	test.Data, err2 = netip.ParseAddrPort(os.Getenv(childData))
	if text := os.Getenv(childSecret); text != "" {
		s, err3 = secret.New([]byte(text))
	}
	var config net.ListenConfig
	control, err4 := config.Listen(context.Background(), "tcp", "127.0.0.1:0")
	data, err5 := config.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return err
	}
	o := Options{Node: nodeB, ClusterName: "test", Control: control, Data: data, Secret: s,
		Locate: func(node string) (Location, bool) { return test, node == nodeA }}
	var t *Transport
	answer(&o, func(from, to protocol.Address, m proto.Message) { t.Send(from, to, m) })
	t, err := Open(o)
	if err != nil {
		return err
	}
	fmt.Println(control.Addr(), data.Addr())
	_, err = io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, t.Close())
}

// process is a node in a process of its own.
type process struct {
	*exec.Cmd
	end io.Closer // its input
}

// spawn starts the node that the test's own node talks to.
func (c *cluster) spawn(n *node, secret string) *process {
	c.t.Helper()
	p := &process{Cmd: exec.CommandContext(c.ctx, os.Args[0])}
	p.Env = append(os.Environ(), childControl+"="+n.where.Control.String(), childData+"="+n.where.Data.String(), childSecret+"="+secret)
	p.Stderr = os.Stderr
	in, err1 := p.StdinPipe()
	out, err2 := p.StdoutPipe()
	if err := errors.Join(err1, err2, p.Start()); err != nil {
		c.t.Fatal(err)
	}
	p.end = in
	line, err := bufio.NewReader(out).ReadString('\n')
	var control, data string
	if err == nil {
		_, err = fmt.Sscan(line, &control, &data)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.place(nodeB, Location{Control: netip.MustParseAddrPort(control), Data: netip.MustParseAddrPort(data)})
	return p
}

// A process that is paused has not ended: what waits for it arrives when it goes on.
// One that is killed has, and that is known at once.
func TestProcess(t *testing.T) {
	c := newCluster(t)
	a := c.open(nodeA, Location{}, nil)
	p := c.spawn(a, "")
	a.Send(to(nodeA), to(nodeB), heartbeat(1))
	a.receive()
	if err := p.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	a.Send(to(nodeA), to(nodeB), heartbeat(2))
	a.until("it is written", func(c Counts) bool { return c.Control.SentMessages == 2 })
	a.noLoss()
	if err := p.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	a.receive()
	killed := time.Now()
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if l := a.lostNext(); l.node != nodeB || l.lane != Control || !errors.Is(l.err, ErrEnded) {
		t.Errorf("told %v", l)
	}
	withinSoon(t, killed)
	if err := p.Wait(); err == nil {
		t.Error("it was not killed")
	}
}

// A process that ends of its own will says so, and ends well.
func TestProcessLeaves(t *testing.T) {
	const text = "0123456789abcdef"
	c := newCluster(t)
	a := c.open(nodeA, Location{}, withSecret(t))
	p := c.spawn(a, text)
	a.Send(to(nodeA), to(nodeB), heartbeat(1))
	a.receive()
	if err := p.end.Close(); err != nil {
		t.Fatal(err)
	}
	if l := a.lostNext(); l.lane != Control || !errors.Is(l.err, ErrLeft) {
		t.Errorf("told %v", l)
	}
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
	a.noLoss()
}

// BenchmarkProcesses is BenchmarkExchange between two processes; the time of the
// processors is that of the sender alone.
func BenchmarkProcesses(b *testing.B) {
	for name, text := range map[string]string{"plain": "", "tls": "0123456789abcdef"} {
		b.Run(name, func(b *testing.B) {
			c := newCluster(b)
			s := newSource(c, func(o *Options) {
				if text != "" {
					withSecret(b)(o)
				}
			})
			p := c.spawn(s.node, text)
			s.exchange(b)
			if err := errors.Join(p.end.Close(), p.Wait()); err != nil {
				b.Error(err)
			}
		})
	}
}

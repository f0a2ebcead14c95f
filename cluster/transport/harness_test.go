package transport

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"cutwater/cluster/secret"
	"cutwater/messages"
	"cutwater/protocol"
)

const (
	nodeA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.1"
	nodeB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb.1"
)

// cluster is what gossip would know.
type cluster struct {
	t      testing.TB
	ctx    context.Context // ends when the test should have
	mu     sync.Mutex
	places map[string]Location
}

func newCluster(t testing.TB) *cluster {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return &cluster{t: t, ctx: ctx, places: map[string]Location{}}
}

func (c *cluster) locate(node string) (Location, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, ok := c.places[node]
	return l, ok
}

func (c *cluster) place(node string, l Location) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.places[node] = l
}

type delivery struct {
	to protocol.Address
	m  proto.Message
}

type loss struct {
	node string
	lane Lane
	err  error
}

// node is a Transport with what it delivered and told.
type node struct {
	*Transport
	c         *cluster
	name      string
	where     Location
	delivered chan delivery
	losses    chan loss
	log       *lines
}

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}

func listen(t testing.TB, address string) net.Listener {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// open starts a node; at is where it listens, any free ports if it is the zero value.
// Unless change says otherwise no time-out ever passes.
func (c *cluster) open(name string, at Location, change func(*Options)) *node {
	c.t.Helper()
	control, data := "127.0.0.1:0", "127.0.0.1:0"
	if at != (Location{}) {
		control, data = at.Control.String(), at.Data.String()
	}
	n := &node{c: c, name: name, delivered: make(chan delivery, 1<<16), losses: make(chan loss, 1<<10), log: &lines{}}
	o := Options{
		Node: name, ClusterName: "test", Control: listen(c.t, control), Data: listen(c.t, data),
		Locate:  c.locate,
		Deliver: func(to protocol.Address, m proto.Message) { n.delivered <- delivery{to, m} },
		Lost:    func(node string, lane Lane, err error) { n.losses <- loss{node, lane, err} },
		Log:     slog.New(slog.NewTextHandler(n.log, nil)),

		DialTimeout: time.Hour, HelloTimeout: time.Hour,
	}
	n.where = Location{Control: addrPort(o.Control.Addr()), Data: addrPort(o.Data.Addr())}
	if change != nil {
		change(&o)
	}
	var err error
	if n.Transport, err = Open(o); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if err := n.Close(); err != nil {
			c.t.Error(err)
		}
	})
	c.place(name, n.where)
	return n
}

// pair starts two nodes.
func pair(t testing.TB, change func(*Options)) (*cluster, *node, *node) {
	c := newCluster(t)
	return c, c.open(nodeA, Location{}, change), c.open(nodeB, Location{}, change)
}

// kill ends a node as the death of its process would.
func (n *node) kill() {
	n.once.Do(func() {
		if err := n.stop(true); err != nil {
			n.c.t.Error(err)
		}
	})
}

// receive waits for the next message.
func (n *node) receive() delivery {
	n.c.t.Helper()
	select {
	case d := <-n.delivered:
		return d
	case <-n.c.ctx.Done():
		n.c.t.Fatalf("%s: nothing was delivered; lost: %d; log: %s", n.name, len(n.losses), n.log.text.String())
		panic("unreachable")
	}
}

// lostNext waits for the next loss.
func (n *node) lostNext() loss {
	n.c.t.Helper()
	select {
	case l := <-n.losses:
		return l
	case <-n.c.ctx.Done():
		n.c.t.Fatalf("%s: no loss was told; log: %s", n.name, n.log.text.String())
		panic("unreachable")
	}
}

// noLoss fails if a loss was told.
func (n *node) noLoss() {
	n.c.t.Helper()
	select {
	case l := <-n.losses:
		n.c.t.Errorf("%s was told of a loss: %s, %v: %v", n.name, l.node, l.lane, l.err)
	default:
	}
}

// until waits for a condition on counters, which no signal tells.
func (n *node) until(what string, ok func(Counts) bool) {
	n.c.t.Helper()
	for n.c.ctx.Err() == nil {
		if ok(n.Counts()) {
			return
		}
		yield()
	}
	n.c.t.Fatalf("%s: never came: %s: %+v", n.name, what, n.Counts())
}

// untilIdle waits until nothing waits for a peer, and nobody dials it.
func (n *node) untilIdle(peer string, lane Lane) {
	n.c.t.Helper()
	n.until("nobody dials", func(Counts) bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return !n.peers[peer].links[lane].isRunning()
	})
}

// breakConnections closes what is open on a lane to or from a peer.
func (n *node) breakConnections(lane Lane, peer string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.peers[peer]
	if in := p.inbound[lane]; in != nil {
		in.conn.Close()
	}
	l := p.links[lane]
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		l.conn.Close()
	}
}

func to(node string) protocol.Address { return protocol.Address(node + "|task/x") }

// batch is a message of the data lane, heartbeat one of the control lane.
func batch(seq uint64, data string) *messages.RecordBatch {
	return &messages.RecordBatch{Attempt: 1, Channel: 2, Seq: seq, Count: 3, FixedWidth: 8, Data: []byte(data)}
}

func heartbeat(number uint64) *messages.Heartbeat {
	return &messages.Heartbeat{Node: nodeA, Number: number}
}

func newSecret(t testing.TB, text string) secret.Secret {
	s, err := secret.New([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func withSecret(t testing.TB) func(*Options) {
	s := newSecret(t, "0123456789abcdef")
	return func(o *Options) { o.Secret = s }
}

// modes runs a test over plain connections and over TLS.
func modes(t *testing.T, test func(t *testing.T, change func(*Options))) {
	t.Run("plain", func(t *testing.T) { test(t, func(*Options) {}) })
	t.Run("tls", func(t *testing.T) { test(t, withSecret(t)) })
}

func (l loss) String() string { return fmt.Sprintf("%s %v: %v", l.node, l.lane, l.err) }

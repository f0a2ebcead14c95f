package transport

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"google.golang.org/protobuf/proto"

	"cutwater/cluster/secret"
	"cutwater/messages"
	"cutwater/protocol"
)

// Version is that of the frames and of the hello: two nodes with different ones do
// not talk. A new kind of message does not change it.
const Version = 1

// Bounds, in bytes.
const (
	// MaxFrameBytes is the largest message, with its data.
	MaxFrameBytes = 80 << 20
	// MaxControlQueueBytes may wait for the control lane to one node; a message that
	// is larger may wait alone.
	MaxControlQueueBytes = 8 << 20
	// MaxDataQueueBytes may wait for the data lane to one node; more breaks it.
	MaxDataQueueBytes = 1 << 30
	// MaxHelloBytes is the largest first frame of a connection.
	MaxHelloBytes = 4 << 10
)

// The defaults of Options, and what is not an option.
const (
	defaultDialTimeout  = 3 * time.Second
	defaultHelloTimeout = 3 * time.Second
	// goodbyeTimeout bounds how long Close waits for others to read the last words.
	goodbyeTimeout = 250 * time.Millisecond
	// maxStrangers bounds the connections that have not said yet who they are.
	maxStrangers = 128
)

// Sentinels by which callers decide; the errors that wrap them say what to do.
var (
	// ErrNeedsSecret: an address that others can reach needs a cluster secret.
	ErrNeedsSecret = errors.New("transport: no cluster secret")
	// ErrSecret: the other node has another secret, or one of the two has none.
	ErrSecret = errors.New("transport: other cluster secret")
	// ErrLeft: the node was closed of its own will.
	ErrLeft = errors.New("transport: the node has left")
	// ErrEnded: the process is not there any more.
	ErrEnded = errors.New("transport: the node has ended")
	// ErrUnreachable: no connection could be had in time.
	ErrUnreachable = errors.New("transport: the node cannot be reached")
	// ErrBroken: a connection ended without a word.
	ErrBroken = errors.New("transport: the connection broke")
	// ErrQueueFull: as much waits for the node as may.
	ErrQueueFull = errors.New("transport: too much waits for the node")
)

// Lane is one of the two ways from one node to another.
type Lane int

// The lanes.
const (
	Control Lane = iota
	Data
	lanes
)

// String names the lane in one word.
func (l Lane) String() string { return [...]string{"control", "data"}[l] }

// LaneOf returns the lane of a message: data for what is numbered on a channel, and
// for what opens and refills channels; control for everything else.
func LaneOf(m proto.Message) Lane {
	switch m.(type) {
	case interface{ GetSeq() uint64 }, *messages.Credit, *messages.ChannelRequest:
		return Data
	}
	return Control
}

// Location is where a start of a node listens, one address per lane.
type Location struct{ Control, Data netip.AddrPort }

// of returns the address of a lane.
func (l Location) of(lane Lane) netip.AddrPort {
	if lane == Data {
		return l.Data
	}
	return l.Control
}

// Options make a Transport. Node, ClusterName, Control, Data, Locate and Deliver are
// required. The functions are called by goroutines of the transport, several at a
// time; they must neither block nor call Close.
type Options struct {
	// Node is the name of this start of this node, `<node id>.<start>`.
	Node string
	// ClusterName must be that of the other nodes.
	ClusterName string
	// ClusterID is asked at each connection; two nodes that both know theirs must have
	// the same. Nil and "" mean: not known yet.
	ClusterID func() string
	// Control and Data accept the connections of others, with TCP. They are closed by
	// Close, and by Open if it fails.
	Control, Data net.Listener
	// Locate says where a start of a node listens; not ok if it is not known. It must
	// not call the transport.
	Locate func(node string) (where Location, ok bool)
	// Deliver takes a message for an actor of this node. Those of one lane from one
	// node come one after the other, in order.
	Deliver func(to protocol.Address, m proto.Message)
	// Lost is told that messages from or to a node are lost on the Data lane; and with
	// Control that this start of the node is over: the error wraps ErrEnded or ErrLeft.
	// It may be nil.
	Lost func(node string, lane Lane, err error)
	// Secret makes connections mutual TLS. Without one all addresses must be loopback.
	Secret secret.Secret
	// Release is called once for each batch given to Send, before Send returns, whether
	// it was taken or dropped: its data was copied. Nil means that batches are not
	// pooled.
	Release func(*messages.RecordBatch)
	// Batch returns an empty batch, with room for so many bytes of Data if it has one,
	// to be filled and delivered. Nil means a new one.
	Batch func(bytes int) *messages.RecordBatch
	// DialTimeout is how long a connection to a node is tried for before what waits for
	// it is dropped. 0 means 3 s.
	DialTimeout time.Duration
	// HelloTimeout is how long a new connection may take to say who it is and to be
	// welcomed, with TLS. 0 means 3 s.
	HelloTimeout time.Duration
	// Log takes in what was refused, once for each cause; nil means nothing.
	Log *slog.Logger
	// Cut reports whether the network to an address is cut: a fault for tests. What was
	// connected breaks with the next message. Nil means never.
	Cut func(to netip.AddrPort) bool
}

// withDefaults fills what was left out.
func (o Options) withDefaults() Options {
	if o.ClusterID == nil {
		o.ClusterID = func() string { return "" }
	}
	if o.Lost == nil {
		o.Lost = func(string, Lane, error) {}
	}
	if o.Release == nil {
		o.Release = func(*messages.RecordBatch) {}
	}
	if o.Batch == nil {
		o.Batch = func(int) *messages.RecordBatch { return &messages.RecordBatch{} }
	}
	if o.DialTimeout == 0 {
		o.DialTimeout = defaultDialTimeout
	}
	if o.HelloTimeout == 0 {
		o.HelloTimeout = defaultHelloTimeout
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Cut == nil {
		o.Cut = func(netip.AddrPort) bool { return false }
	}
	return o
}

// check holds the rule that only loopback goes without a secret, and that nothing is
// missing.
func (o Options) check() error {
	if o.Node == "" || o.ClusterName == "" || o.Control == nil || o.Data == nil || o.Locate == nil || o.Deliver == nil {
		return errors.New("transport: Options needs Node, ClusterName, Control, Data, Locate and Deliver")
	}
	for _, l := range []net.Listener{o.Control, o.Data} {
		if a := addrPort(l.Addr()); !o.Secret.Given() && !isLoopback(a) {
			return fmt.Errorf("%w: %v can be reached by others; give the cluster a secret, or bind to 127.0.0.1", ErrNeedsSecret, l.Addr())
		}
	}
	return nil
}

// addrPort is the address of a TCP socket; the zero value if it is of another kind.
func addrPort(a net.Addr) netip.AddrPort {
	if t, ok := a.(*net.TCPAddr); ok {
		return t.AddrPort()
	}
	return netip.AddrPort{}
}

func isLoopback(a netip.AddrPort) bool { return a.Addr().Unmap().IsLoopback() }

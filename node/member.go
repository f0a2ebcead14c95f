package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"cutwater/cluster/membership"
	"cutwater/cluster/metadata"
	"cutwater/cluster/metadata/replicated"
	"cutwater/cluster/secret"
	"cutwater/messages"
	"cutwater/protocol"
	"cutwater/storage/vfs"
	"cutwater/stream/operator"
)

// MemberOptions describe a node of a cluster.
type MemberOptions struct {
	// DataDir is absolute; it is made if missing and locked while the node lives.
	DataDir string
	FS      vfs.FS
	// ClusterName decides which nodes belong together.
	ClusterName string
	// Bind is the address to listen at; not valid means 127.0.0.1.
	Bind netip.Addr
	// Advertise is the address that others use, if it is not Bind.
	Advertise netip.Addr
	// Ports are those to listen at; see Ports.
	Ports Ports
	// Join lists where to look for other nodes, as discovery.Parse takes it.
	Join []string
	// Silent: the node does not announce itself on its network.
	Silent bool
	// AnnouncePort is the UDP port of announcements; 0 is discovery.DefaultPort.
	AnnouncePort uint16
	// Secret is the cluster's; without one all addresses must be loopback.
	Secret secret.Secret
	// Slots is how many subtasks of each vertex run here at once; at least 1.
	Slots int
	// Version is the program's, for people.
	Version string
	// Zone is what may fail at once with this node.
	Zone string
	// Preset is the set of time-outs of gossip; see membership.Config.
	Preset membership.Preset
	// Voters decides how many nodes have a vote in the metadata, and when; the zero
	// value is that of package replicated.
	Voters replicated.Policy
	// Programs finds the code that the binary has registered. May be nil.
	Programs func(name string) (operator.Program, error)
	// Build makes a program and its settings of a topology that was deployed.
	Build func(*messages.TopologySource) (operator.Program, *messages.JobSettings, error)
	// ChannelMemoryBytes bounds the memory of channels; see Deps.
	ChannelMemoryBytes int64
	// Event is told what happens; see Deps.Event. May be nil.
	Event func(protocol.Event)
	// Log takes in what the node reports; nil means nothing.
	Log *slog.Logger
}

// Ports are a node's ports; 0 is any free one, and for HTTP 8081 if that is free. A
// port that is given and in use is an error.
type Ports struct{ Gossip, Metadata, Control, Data, HTTP uint16 }

// defaultHTTPPort is Flink's.
const defaultHTTPPort = 8081

// ErrPortInUse: a port that was given is taken.
var ErrPortInUse = membership.ErrPortInUse

// Member is a node of a cluster: it finds others, shares the metadata with them,
// runs tasks and coordinators, and dispatches jobs while it leads.
type Member struct {
	options MemberOptions
	lock    io.Closer
	http    net.Listener
	started time.Time
	events  *eventLog

	mu      sync.Mutex
	session *session // the present one
	changed chan struct{}
	closed  bool
	failure error         // why there is no session, and never will be
	failed  chan struct{} // closed when there is a failure

	stop    context.CancelFunc
	running sync.WaitGroup
}

// StartMember starts a node and returns when it listens; it is ready a moment later,
// see Ready. The errors wrap ErrDataDirInUse, ErrPortInUse or those of package
// membership.
func StartMember(o MemberOptions) (*Member, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	lock, err := lockDataDir(o.FS, o.DataDir)
	if err != nil {
		return nil, err
	}
	m := &Member{options: o, lock: lock, started: time.Now(), events: newEventLog(), changed: make(chan struct{}), failed: make(chan struct{})}
	if m.http, err = listenHTTP(o.Bind, o.Ports.HTTP); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	first, err := openSession(m, false)
	if err != nil {
		return nil, errors.Join(err, m.http.Close(), lock.Close())
	}
	m.session = first
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	m.running.Go(func() { m.run(ctx, first) })
	return m, nil
}

// complete fills in defaults and refuses what cannot work, before anything is opened.
func (o *MemberOptions) complete() error {
	if !o.Bind.IsValid() {
		o.Bind = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Event == nil {
		o.Event = func(protocol.Event) {}
	}
	switch {
	case o.Slots < 1:
		return fmt.Errorf("a node with %d slots runs nothing; give it one at least", o.Slots)
	case o.Build == nil:
		return errors.New("a node needs to know how topologies are built")
	}
	if err := membership.CheckName(o.ClusterName); err != nil {
		return err
	}
	return membership.CheckAddresses(o.Secret, o.Bind, o.Advertise)
}

// listenHTTP opens the port of the API.
func listenHTTP(bind netip.Addr, port uint16) (net.Listener, error) {
	if port == 0 {
		if l, err := listen(bind, defaultHTTPPort, "http"); err == nil {
			return l, nil
		}
	}
	return listen(bind, port, "http")
}

// listen opens a TCP port; what is for the error.
func listen(bind netip.Addr, port uint16, what string) (net.Listener, error) {
	l, err := net.Listen("tcp", netip.AddrPortFrom(bind, port).String())
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%w: %d, which was given for %s; stop who uses it, or give another one, or none", ErrPortInUse, port, what)
	case err != nil:
		return nil, fmt.Errorf("nobody can listen for %s at %v: %w", what, bind, err)
	}
	return l, nil
}

// run keeps a session, and replaces it when its cluster has given way to another.
func (m *Member) run(ctx context.Context, s *session) {
	for {
		var next *session
		var err error
		select {
		case <-ctx.Done():
			return
		case <-s.yielded:
			next, err = s.rejoin()
		case by := <-s.superseded:
			err = s.end(by)
		}
		m.mu.Lock()
		m.session, m.failure = next, err
		m.mu.Unlock()
		m.notify()
		if err != nil {
			m.options.Log.Error("the node has no cluster any more", "error", err)
			close(m.failed)
			return
		}
		s = next
	}
}

// Failed is closed when the node has no cluster any more and will not have one: it can
// only be closed. Ready says why.
func (m *Member) Failed() <-chan struct{} { return m.failed }

// current is the present session, or why there is none.
func (m *Member) current() (*session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return nil, fmt.Errorf("%w: this node is ending; ask another one", metadata.ErrUnavailable)
	case m.failure != nil:
		return nil, m.failure
	}
	return m.session, nil
}

// HTTP is the listener of the node's API, for whoever serves it. Close closes it.
func (m *Member) HTTP() net.Listener { return m.http }

// Close ends the node without a word: to others it fails. It returns within 30 s; an
// error that wraps ErrStuck says what has not ended by then.
func (m *Member) Close() error { return m.end(func(*session) error { return nil }) }

// Leave ends the node as others expect it: it gets no more work, and another node leads
// before it goes, if ctx allows. It is bounded as Close is. It keeps its vote in the metadata, see
// replicated.Policy for how long.
func (m *Member) Leave(ctx context.Context) error {
	return m.end(func(s *session) error { return s.leave(ctx) })
}

func (m *Member) end(before func(*session) error) error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil
	}
	m.closed = true
	m.mu.Unlock()
	m.events.close()
	m.stop()
	return within(endTimeout, m.options.Log, func(waitsFor func(string)) error {
		waitsFor("the change to another cluster")
		m.running.Wait()
		var err error
		if m.session != nil {
			waitsFor("the farewell to the other nodes")
			err = errors.Join(before(m.session), m.session.close(waitsFor))
		}
		return errors.Join(err, m.http.Close(), m.lock.Close())
	})
}

func (m *Member) buildProgram(source *messages.TopologySource) (operator.Program, error) {
	program, _, err := m.options.Build(source)
	return program, err
}

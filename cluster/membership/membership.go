package membership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-multierror"
	"github.com/hashicorp/memberlist"
	"google.golang.org/protobuf/proto"

	"cutwater/cluster/secret"
	"cutwater/messages"
	"cutwater/storage/vfs"
)

// Sentinels by which callers decide; the errors that wrap them say what to do.
var (
	// ErrNeedsSecret: an address that others can reach needs a cluster secret.
	ErrNeedsSecret = errors.New("membership: no cluster secret")
	// ErrPortInUse: the port that was given is taken.
	ErrPortInUse = errors.New("membership: port in use")
	// ErrClosed: the membership was closed.
	ErrClosed = errors.New("membership: closed")
)

// Config says who a node is and how it gossips.
type Config struct {
	// Identity is the node's, from OpenIdentity; it must stay open until Close.
	Identity *Identity
	// Meta is what others learn: cluster name and id, roles, ports, zone. Node,
	// start, versions and leaving are set by Start.
	Meta *messages.NodeMeta
	// Bind is the address to listen at, with TCP and UDP. Port 0 is any free one.
	Bind netip.AddrPort
	// Advertise is the address that others use, if it is not Bind; port 0 is that
	// of Bind. It is needed if Bind is the unspecified address of IPv6.
	Advertise netip.AddrPort
	// Secret encrypts gossip. Without one both addresses must be loopback.
	Secret secret.Secret
	// Preset is the set of time-outs; Local if empty and Bind is loopback, else LAN.
	Preset Preset
	// FS and Dir are the data folder, which must exist; peers are remembered in it.
	FS  vfs.FS
	Dir string
	// OnEvent is told what happens to other nodes, one event at a time, from a
	// goroutine of its own, and perhaps before Start returns. While it runs, events
	// of one node are combined. Close waits for it, so it must not call Leave or
	// Close. May be nil.
	OnEvent func(Event)
	// Log takes in what gossip reports, bounded in rate; nil means nothing.
	Log *slog.Logger
	// Cut reports whether the network to an address is cut: a fault for tests. It is
	// called by several goroutines. Nil means never.
	Cut func(to netip.AddrPort) bool

	// tune changes the time-outs, in tests of this package.
	tune func(*memberlist.Config)
}

// Membership is this node's part in gossip. It is safe for concurrent use.
type Membership struct {
	config    Config
	list      *memberlist.Memberlist
	transport *transport
	view      *view
	peers     *peers
	log       *slog.Logger
	address   netip.AddrPort

	mu      sync.Mutex
	meta    *messages.NodeMeta // never changed, only replaced
	encoded []byte
	closed  bool
	// joining are calls of Join that may outlive their context.
	joining sync.WaitGroup

	// ending is held by Leave and Close, which memberlist cannot do at once.
	ending  sync.Mutex
	telling sync.WaitGroup
	stop    chan struct{}
}

// Start opens the sockets and begins to answer others; it contacts nobody. The errors
// wrap ErrNeedsSecret (before any socket is opened), ErrPortInUse or ErrMeta, or
// are those of the network.
func Start(c Config) (*Membership, error) {
	if err := checkAddresses(c); err != nil {
		return nil, err
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.OnEvent == nil {
		c.OnEvent = func(Event) {}
	}
	meta := proto.CloneOf(c.Meta)
	meta.Node, meta.Start, meta.Leaving = c.Identity.Node, c.Identity.Start, false
	meta.ProtocolVersion, meta.OldestProtocolVersion = ProtocolVersion, OldestProtocolVersion
	encoded, err := encodeMeta(meta)
	if err != nil {
		return nil, err
	}
	m := &Membership{config: c, view: newView(meta.Node), log: c.Log, meta: meta, encoded: encoded, stop: make(chan struct{})}
	if m.peers, err = loadPeers(c.FS, c.Dir); err != nil {
		c.Log.Warn(err.Error())
	}
	if err := m.gossip(); err != nil {
		return nil, err
	}
	m.telling.Go(m.tell)
	return m, nil
}

// checkAddresses refuses addresses that cannot work.
func checkAddresses(c Config) error {
	if !c.Bind.Addr().IsValid() {
		return errors.New("membership: there is no address to bind to; give an IP address and a port")
	}
	if c.Bind.Addr().Is6() && c.Bind.Addr().IsUnspecified() && !c.Advertise.IsValid() {
		return fmt.Errorf("membership: bound to %v, the node needs an advertised address of its own", c.Bind.Addr())
	}
	return CheckAddresses(c.Secret, c.Bind.Addr(), c.Advertise.Addr())
}

// CheckAddresses holds the rule that only loopback goes without a secret; an address
// that is not valid does not count. The error wraps ErrNeedsSecret. Whoever opens
// sockets for the cluster asks it first.
func CheckAddresses(s secret.Secret, addresses ...netip.Addr) error {
	for _, a := range addresses {
		if a.IsValid() && !a.Unmap().IsLoopback() && !s.Given() {
			return fmt.Errorf("%w: %v can be reached by others; give the cluster a secret, or bind to 127.0.0.1", ErrNeedsSecret, a)
		}
	}
	return nil
}

// gossip starts memberlist.
func (m *Membership) gossip() error {
	c := m.config
	if c.Preset == "" {
		c.Preset = LAN
		if c.Bind.Addr().Unmap().IsLoopback() {
			c.Preset = Local
		}
	}
	settings, err := c.Preset.settings()
	if err != nil {
		return err
	}
	if c.tune != nil {
		c.tune(settings)
	}
	settings.Name = gossipName(m.meta.Node, m.meta.Start)
	settings.Logger = gossipLog(c.Log)
	settings.SecretKey = c.Secret.Key(secret.Gossip)
	d := delegate{m}
	settings.Delegate, settings.Events, settings.Alive, settings.Merge, settings.Conflict = d, d, d, d, d
	if m.transport, err = newTransport(c.Bind, c.Cut, settings); err != nil {
		return err
	}
	settings.Transport = m.transport
	settings.BindAddr, settings.BindPort = c.Bind.Addr().String(), m.transport.port()
	if c.Advertise.IsValid() {
		settings.AdvertiseAddr, settings.AdvertisePort = c.Advertise.Addr().String(), int(c.Advertise.Port())
		if settings.AdvertisePort == 0 {
			settings.AdvertisePort = settings.BindPort
		}
	}
	if m.list, err = memberlist.Create(settings); err != nil {
		return errors.Join(fmt.Errorf("gossip cannot start at %v: %w", c.Bind, err), m.transport.Shutdown())
	}
	m.address = addressOf(m.list.LocalNode())
	return nil
}

// tell reports events, and remembers peers, until stop.
func (m *Membership) tell() {
	for {
		select {
		case <-m.stop:
			return
		case <-m.view.changed:
		}
		events := m.view.tell()
		if err := m.peers.seen(m.others()); err != nil {
			m.log.Warn(err.Error())
		}
		for _, e := range events {
			m.config.OnEvent(e)
		}
	}
}

// Address is where others reach this node's gossip.
func (m *Membership) Address() netip.AddrPort { return m.address }

// Self is what this node says of itself now.
func (m *Membership) Self() Member {
	return Member{m.ownMeta(), m.address}
}

func (m *Membership) ownMeta() *messages.NodeMeta {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.meta
}

// Members are the nodes that seem to be alive, this one included, sorted by node id.
func (m *Membership) Members() []Member { return m.view.members() }

func (m *Membership) others() (others []Member) {
	for _, member := range m.view.members() {
		if member.Meta.Node != m.config.Identity.Node {
			others = append(others, member)
		}
	}
	return others
}

// Peers are addresses of other nodes that are or were members, the most recent
// first, those of earlier starts included.
func (m *Membership) Peers() []netip.AddrPort { return m.peers.addresses() }

// Health is 0 if gossip keeps its own times; higher numbers tell that this node, or
// its network, is too slow.
func (m *Membership) Health() int { return m.list.GetHealthScore() }

// Join contacts an address, and with it the cluster behind it. It returns nil at
// once if the address is this node's or a member's. The errors wrap those of Admit,
// ErrSecret, ErrClosed or ctx.Err, or are those of the network.
func (m *Membership) Join(ctx context.Context, address netip.AddrPort) error {
	if m.knows(address) {
		return nil
	}
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return ErrClosed
	}
	result := make(chan error, 1)
	m.joining.Go(func() {
		_, err := m.list.Join([]string{address.String()})
		result <- err
	})
	m.mu.Unlock()
	select {
	case err := <-result:
		return explain(err)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m *Membership) knows(address netip.AddrPort) bool {
	if address == m.address {
		return true
	}
	for _, member := range m.view.members() {
		if member.Gossip == address {
			return true
		}
	}
	return false
}

// explain finds the reason in an error of memberlist, which has texts only.
func explain(err error) error {
	if err == nil {
		return nil
	}
	var several *multierror.Error
	if errors.As(err, &several) && len(several.Errors) > 0 {
		err = several.Errors[0]
	}
	text := err.Error()
	for _, reason := range []error{ErrOtherName, ErrOtherCluster, ErrProtocol, ErrMeta} {
		if _, detail, ok := strings.Cut(text, reason.Error()); ok {
			return fmt.Errorf("%w%s", reason, detail)
		}
	}
	if strings.Contains(text, "crypt") {
		return fmt.Errorf("%w: the other node has another one, or one of the two has none; give all nodes of the cluster the same", ErrSecret)
	}
	_, detail, found := strings.Cut(text, ": ")
	if !found {
		detail = text
	}
	return fmt.Errorf("membership: cannot join: %s", detail)
}

// Update changes what this node says of itself; change must not touch node, start
// or versions. It returns when others are being told. The error wraps ErrMeta, or
// says which member the new words do not admit, and then nothing has changed.
func (m *Membership) Update(change func(*messages.NodeMeta)) error {
	if err := m.replace(change); err != nil {
		return err
	}
	// The news is queued before the call waits for it to be on its way; it need not.
	_ = m.list.UpdateNode(time.Nanosecond)
	return nil
}

func (m *Membership) replace(change func(*messages.NodeMeta)) error {
	others := m.others()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	meta := proto.CloneOf(m.meta)
	change(meta)
	encoded, err := encodeMeta(meta)
	if err != nil {
		return err
	}
	for _, other := range others {
		if err := Admit(meta, other.Meta); err != nil {
			return fmt.Errorf("the member %v would not be one: %w", other, err)
		}
	}
	m.meta, m.encoded = meta, encoded
	return nil
}

// Leave tells others that this node goes of its own will, and closes it. Where they
// cannot be told before ctx is done they will see it fail instead, and the error
// says so; the node is closed in any case.
func (m *Membership) Leave(ctx context.Context) error {
	m.ending.Lock()
	defer m.ending.Unlock()
	if err := m.replace(func(meta *messages.NodeMeta) { meta.Leaving = true }); err != nil {
		return errors.Join(err, m.close())
	}
	// Two steps, because a member's last words are all that others keep of it.
	err := m.list.UpdateNode(remaining(ctx))
	err = errors.Join(err, m.list.Leave(remaining(ctx)))
	if err != nil {
		err = fmt.Errorf("not all members could be told that the node leaves: %w", err)
	}
	return errors.Join(err, m.close())
}

// Close ends gossip without a word: to others this node fails. It returns when all
// sockets are closed; a probe of gossip may wait for the end of its time-out. More
// calls do nothing.
func (m *Membership) Close() error {
	m.ending.Lock()
	defer m.ending.Unlock()
	return m.close()
}

func (m *Membership) close() error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil
	}
	m.closed = true
	m.mu.Unlock()
	err := m.list.Shutdown()
	close(m.stop)
	m.joining.Wait()
	m.telling.Wait()
	return err
}

// leaveTimeout bounds each step of Leave where the context does not.
const leaveTimeout = 2 * time.Second

// remaining is the time until ctx is done, at most leaveTimeout and never 0, which
// memberlist takes for ever.
func remaining(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return leaveTimeout
	}
	return max(time.Nanosecond, min(leaveTimeout, time.Until(deadline)))
}

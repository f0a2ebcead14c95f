package node

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cutwater/actors/system"
	"cutwater/cluster/discovery"
	"cutwater/cluster/membership"
	"cutwater/cluster/metadata/replicated"
	"cutwater/cluster/secret"
	"cutwater/cluster/transport"
	"cutwater/messages"
)

// session is a node's time in one cluster. A node whose cluster gives way to another
// begins a new one, under a new name and with an empty log.
type session struct {
	member    *Member
	name      string // of this start
	identity  *membership.Identity
	clock     system.Clock
	pool      *system.Pool
	programs  *programs
	system    *system.System
	runtime   *Runtime
	control   *Control
	store     *replicated.Store
	transport atomic.Pointer[transport.Transport]
	gossip    *membership.Membership
	asker     *asker
	discovery *discovery.Loop

	ctx     context.Context
	stop    context.CancelFunc
	loops   sync.WaitGroup
	opened  chan struct{} // closed when all of the above is there
	news    chan struct{} // the roster may have changed
	yielded chan struct{} // closed when the cluster has given way to another
	// superseded gets the id of the cluster as which this one goes on without it.
	superseded chan string

	mu         sync.Mutex
	away       string          // why the node is not ready, or empty
	cancelling map[string]bool // jobs that are being cancelled from here
}

// openSession joins or founds a cluster. Patient: others will be found for sure.
func openSession(m *Member, patient bool) (s *session, err error) {
	o := m.options
	s = &session{member: m, clock: system.NewWallClock(), pool: system.NewPool(executorSlots),
		programs: &programs{registered: o.Programs, build: m.buildProgram},
		opened:   make(chan struct{}), news: make(chan struct{}, 1), yielded: make(chan struct{}), superseded: make(chan string, 1), cancelling: map[string]bool{}, away: "it has not found its cluster yet"}
	s.ctx, s.stop = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close(untold))
			s = nil
		}
	}()
	if s.identity, err = membership.OpenIdentity(o.FS, o.DataDir, o.ClusterName, rand.Reader); err != nil {
		return s, err
	}
	s.name = nodeName(&messages.NodeMeta{Node: s.identity.Node, Start: s.identity.Start})
	l, err := s.listen()
	if err != nil {
		return s, err
	}
	if err = s.openStore(l); err != nil {
		return s, errors.Join(err, l.control.Close(), l.data.Close())
	}
	if err = s.startActors(); err != nil {
		return s, errors.Join(err, l.control.Close(), l.data.Close())
	}
	if err = s.openTransport(l); err != nil {
		return s, err
	}
	if err = s.startGossip(l.ports()); err != nil {
		return s, err
	}
	close(s.opened)
	s.start(s.look)
	s.start(s.lead)
	s.start(s.sweepCopies)
	if err = s.startDiscovery(); err != nil {
		return s, err
	}
	s.start(func() { s.found(patient) })
	return s, nil
}

// listeners are the node's ports, but for those of gossip and HTTP.
type listeners struct{ metadata, control, data net.Listener }

// listen opens the ports, all or none.
func (s *session) listen() (l listeners, err error) {
	o := s.member.options
	var opened []net.Listener
	for _, p := range []struct {
		what  string
		given uint16
		into  *net.Listener
	}{{"metadata", o.Ports.Metadata, &l.metadata}, {"control", o.Ports.Control, &l.control}, {"data", o.Ports.Data, &l.data}} {
		if *p.into, err = listen(o.Bind, p.given, p.what); err != nil {
			for _, other := range opened {
				err = errors.Join(err, other.Close())
			}
			return l, err
		}
		opened = append(opened, *p.into)
	}
	return l, nil
}

func (l listeners) ports() *messages.NodePorts {
	return &messages.NodePorts{Metadata: uint32(portOfListener(l.metadata)), Control: uint32(portOfListener(l.control)), Data: uint32(portOfListener(l.data))}
}

// openStore opens this node's part of the metadata log, which owns its listener.
func (s *session) openStore(l listeners) (err error) {
	o := s.member.options
	dir := path.Join(o.DataDir, "metadata")
	if err := o.FS.MkdirAll(dir); err != nil {
		return errors.Join(fmt.Errorf("the folder of the metadata cannot be made: %w", err), l.metadata.Close())
	}
	config, err := o.Secret.TLS()
	if err != nil {
		return errors.Join(err, l.metadata.Close())
	}
	listener, dial := l.metadata, (&net.Dialer{}).DialContext
	if config != nil {
		listener, dial = tls.NewListener(listener, config), (&tls.Dialer{Config: config}).DialContext
	}
	s.store, err = replicated.Open(replicated.Options{NodeID: s.identity.Node, Dir: dir, Listener: listener,
		Dial:      func(ctx context.Context, addr string) (net.Conn, error) { return dial(ctx, "tcp", addr) },
		Advertise: netip.AddrPortFrom(s.advertised(), portOfListener(l.metadata)).String(), Locate: s.locateMetadata})
	return err
}

// openTransport lets other nodes reach the actors; it owns its listeners.
func (s *session) openTransport(l listeners) error {
	o := s.member.options
	t, err := transport.Open(transport.Options{Node: s.name, ClusterName: o.ClusterName, ClusterID: s.store.ClusterID,
		Control: l.control, Data: l.data, Locate: s.locate, Deliver: s.deliver, Lost: s.lost, Secret: o.Secret,
		Release: s.runtime.batches.Release, Batch: s.batch, Log: o.Log})
	if err == nil {
		s.transport.Store(t)
	}
	return err
}

func portOfListener(l net.Listener) uint16 {
	return uint16(l.Addr().(*net.TCPAddr).Port)
}

// advertised is the address by which others reach this node.
func (s *session) advertised() netip.Addr {
	if a := s.member.options.Advertise; a.IsValid() {
		return a
	}
	return s.member.options.Bind
}

func (s *session) startGossip(ports *messages.NodePorts) (err error) {
	o := s.member.options
	status := s.store.Status()
	ports.Http = uint32(portOfListener(s.member.http))
	s.gossip, err = membership.Start(membership.Config{
		Identity: s.identity,
		Meta: &messages.NodeMeta{ClusterName: o.ClusterName, ClusterId: status.ClusterID, Provisional: status.Provisional, Supersedes: status.Supersedes,
			Ports: ports, Zone: o.Zone, Slots: uint32(o.Slots), Version: o.Version},
		Bind: netip.AddrPortFrom(o.Bind, o.Ports.Gossip), Advertise: netip.AddrPortFrom(o.Advertise, 0),
		Secret: o.Secret, Preset: o.Preset, FS: o.FS, Dir: o.DataDir, OnEvent: s.met, Log: o.Log,
	})
	return err
}

func (s *session) startActors() (err error) {
	o := s.member.options
	s.system = system.New(system.Options{Node: s.name, Clock: s.clock, Executor: s.pool, Transport: s})
	s.runtime, err = NewRuntime(Deps{
		System: s.system, FS: o.FS, Metadata: s.store, Programs: s.programs.find, Offer: s.programs.offer, Random: random,
		ChannelMemoryBytes: o.ChannelMemoryBytes, ScratchDir: path.Join(o.DataDir, "scratch"), CopiesDir: path.Join(o.DataDir, "local"),
		Event: s.happened, JobEvent: s.happenedTo,
		LastView: func(v *messages.JobView) { s.asker.keep(v) },
	})
	if err != nil {
		return err
	}
	if s.asker, err = spawnAsker(s.system); err != nil {
		return err
	}
	s.control, err = NewControl(ControlConfig{Runtime: s.runtime, NowMs: s.clock.MonotonicMs, Leader: s.leader, Event: s.happened})
	return err
}

func (s *session) startDiscovery() error {
	o := s.member.options
	sources, err := discovery.Parse(o.Join, o.Ports.Gossip, o.FS)
	if err != nil {
		return err
	}
	if !o.Silent {
		announcer, err := discovery.NewAnnouncer(discovery.Announcement{ClusterName: o.ClusterName, ClusterID: s.store.ClusterID,
			Node: s.identity.Node, Gossip: s.gossip.Address(), Key: o.Secret.Key(secret.Announcement), Port: o.AnnouncePort})
		if err != nil {
			o.Log.Warn(err.Error())
		} else {
			sources = append(sources, announcer)
		}
	}
	sources = append(sources, discovery.Remembered{Peers: s.gossip.Peers})
	s.discovery = discovery.NewLoop(discovery.Config{Sources: sources, Join: s.gossip.Join, Seed: random(), Changed: func(status discovery.Status) {
		if status.Error != "" {
			o.Log.Warn("no node was joined", "source", status.Name, "error", status.Error)
		}
		s.happened(SourceChanged{status.Name, status.Error})
	}})
	s.start(func() { s.discovery.Run(s.ctx) })
	return nil
}

// rejoin ends this session with its log, and begins the next.
func (s *session) rejoin() (*session, error) {
	s.member.options.Log.Info("this node has no jobs and joins the other cluster", "cluster", s.store.Status().YieldedTo)
	abandoned := s.store.Abandon()
	if err := errors.Join(abandoned, s.close(untold)); err != nil {
		return nil, err
	}
	return openSession(s.member, true)
}

// end ends this session, whose cluster goes on as another one without this node, and
// sees to it that the next start of the node does not begin one.
func (s *session) end(by string) error {
	dir := path.Join(s.member.options.DataDir, "metadata")
	return errors.Join(replicated.SupersededBy(by, dir), s.store.Supersede(by), s.close(untold))
}

// handOver bounds how long a node that leaves waits for another one to lead.
const handOver = 5 * time.Second

// leave hands over what others can take before this node goes. Its vote stays: most
// who go come back, and one that does not is replaced when it has been gone for a
// while, if there is another node. Were it given up each time, a restart of one node
// after the other would leave all votes with the last.
func (s *session) leave(ctx context.Context) error {
	_ = s.gossip.Update(func(m *messages.NodeMeta) { m.Leaving = true }) // Leave says it again
	bounded, cancel := context.WithTimeout(ctx, handOver)
	defer cancel()
	if err := s.store.TransferLeadership(bounded); err != nil {
		s.member.options.Log.Warn("the others will elect a leader when this node is gone", "error", err)
	}
	return s.gossip.Leave(ctx)
}

// start runs f beside the session, which ends only when f does; not after close.
func (s *session) start(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() == nil {
		s.loops.Go(f)
	}
}

// close ends everything that the session opened, in the order that lets nothing be
// called after its end.
func (s *session) close(waitsFor func(part string)) error {
	s.mu.Lock()
	s.stop()
	s.mu.Unlock()
	var errs []error
	if s.system != nil {
		s.system.StopAll()
	}
	if t := s.transport.Load(); t != nil {
		waitsFor("the transport")
		errs = append(errs, t.Close())
	}
	if s.gossip != nil {
		waitsFor("gossip")
		errs = append(errs, s.gossip.Close())
	}
	if s.store != nil {
		waitsFor("the metadata log")
		errs = append(errs, s.store.Close())
	}
	waitsFor("a loop of the node")
	s.loops.Wait()
	waitsFor("the work of actors")
	s.pool.Close()
	if s.identity != nil {
		errs = append(errs, s.identity.Close())
	}
	return errors.Join(errs...)
}

// untold is for ends that nobody waits for with a limit.
func untold(string) {}

// shortName is a node's name as people read it.
func shortName(name string) string {
	id, start, ok := strings.Cut(name, ".")
	if !ok || len(id) < 8 {
		return name
	}
	return id[:8] + "." + start
}

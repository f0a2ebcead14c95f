package system

import (
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"cutwater/protocol"
)

// System is one node's view of the actors: it spawns, names and reaches them.
// Addresses have the form "<node>|<kind>/<name...>", for example
// "n1|task/7f3a.../count-5e1d/0/2".
type System struct {
	node       string
	clock      Clock
	executor   Executor
	dispatcher actor.Dispatcher
	transport  Transport
	observe    func(to protocol.Address, m any)
	actors     *actor.ActorSystem
	prefix     string
	unknown    atomic.Uint64

	mu      sync.RWMutex
	spawned map[protocol.Address]*Self
	numbers uint32 // the last Self.Number
	stopped bool
	// The library knows actors by short names that are given again: its registry keeps
	// room for every name that it has met.
	names int
	free  []string
	// running are the actors until after Stopped, when their address is another's
	// already; gone is closed when StopAll was called and none is left.
	running map[*Self]bool
	gone    chan struct{}
}

// Transport carries messages to other nodes.
type Transport interface {
	// Send delivers, delays or loses the message; it does not block.
	Send(from, to protocol.Address, m proto.Message)
}

// Options make a System. Node, Clock and Executor are required.
type Options struct {
	Node       string
	Clock      Clock
	Executor   Executor
	Dispatcher actor.Dispatcher // default: a goroutine per activation
	Transport  Transport        // default: there are no other nodes
	// Observe sees every message before its actor handles it.
	Observe func(to protocol.Address, m any)
	// Actors may be shared by several Systems that differ in Prefix; creating
	// one is expensive.
	Actors *actor.ActorSystem
	Prefix string
}

// throughput is how many messages an actor handles before others get a turn.
const throughput = 256

// New makes a System.
func New(o Options) *System {
	if o.Actors == nil {
		o.Actors = NewActors()
	}
	if o.Dispatcher == nil {
		o.Dispatcher = actor.NewDefaultDispatcher(throughput)
	}
	return &System{node: o.Node, clock: o.Clock, executor: o.Executor, dispatcher: o.Dispatcher,
		transport: o.Transport, observe: o.Observe, actors: o.Actors, prefix: o.Prefix,
		spawned: map[protocol.Address]*Self{}, running: map[*Self]bool{}, gone: make(chan struct{})}
}

// NewActors makes the actor library's system: silent, without metrics.
func NewActors() *actor.ActorSystem {
	quiet := slog.New(slog.DiscardHandler)
	return actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }),
		actor.WithDeadLetterThrottleCount(0),
		actor.WithDeadLetterThrottleInterval(time.Millisecond), // a goroutine waits that long after a dead letter
		actor.WithDeadLetterRequestLogging(false))
}

// Node is the name of this node.
func (s *System) Node() string { return s.node }

// Clock is the node's clock.
func (s *System) Clock() Clock { return s.clock }

// Executor is the node's executor.
func (s *System) Executor() Executor { return s.executor }

// Address returns the address of a local actor's name.
func (s *System) Address(name string) protocol.Address {
	return protocol.Address(s.node + "|" + name)
}

// NodeOf returns the node of an address.
func NodeOf(a protocol.Address) string {
	node, _, _ := strings.Cut(string(a), "|")
	return node
}

// Handler is an actor: it receives one message at a time. Everything it does on
// receipt happens on the mailbox's goroutine.
type Handler interface {
	// Receive handles a message. Started is called before, Stopped after.
	Receive(m proto.Message)
	Started(self *Self)
	Stopped()
}

// Self is an actor's handle on itself.
type Self struct {
	System  *System
	Address protocol.Address
	Mailbox *Mailbox
	// Number tells the actor from all others of this System, those that had its
	// address before it among them.
	Number  uint32
	pid     *actor.PID
	process actor.Process // set when the actor starts
}

// Stop ends the actor after the message that it is handling; what is queued is
// dropped. Only the actor itself may call it.
func (s *Self) Stop() { s.process.Stop(s.pid) }

// Send delivers a message, from this actor.
func (s *Self) Send(to protocol.Address, m proto.Message) { s.System.Send(s.Address, to, m) }

// Spawn starts an actor under the name. It fails if the name is taken, or after
// StopAll.
func (s *System) Spawn(name string, h Handler, mailbox *Mailbox) (*Self, error) {
	address := s.Address(name)
	self := &Self{System: s, Address: address, Mailbox: mailbox}
	if err := s.enter(self); err != nil {
		return nil, err
	}
	if s.observe != nil {
		mailbox.observe = func(m any) { s.observe(address, m) }
	}
	props := actor.PropsFromFunc(func(c actor.Context) {
		switch m := c.Message().(type) {
		case *actor.Started:
			self.process, _ = s.actors.ProcessRegistry.GetLocal(self.pid.Id)
			h.Started(self)
		case *actor.Stopped:
			defer s.leave(self)
			s.forget(self)
			h.Stopped()
		case proto.Message:
			if _, lifecycle := c.Message().(actor.SystemMessage); !lifecycle {
				h.Receive(m)
			}
		}
	}, actor.WithMailbox(func() actor.Mailbox { return mailbox }), actor.WithDispatcher(s.dispatcher),
		actor.WithGuardian(stopOnFailure))
	if _, err := s.actors.Root.SpawnNamed(props, self.pid.Id); err != nil {
		s.forget(self)
		s.leave(self)
		return nil, fmt.Errorf("system: actor %s cannot be started: %w", address, err)
	}
	if s.stopping() {
		s.Stop(address) // StopAll may have gone through the list before it was started
	}
	return self, nil
}

// enter gives an actor its address, unless another one has it or no more may start.
func (s *System) enter(self *Self) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.stopped:
		return fmt.Errorf("system: actor %s is not started: the node is stopping", self.Address)
	case s.spawned[self.Address] != nil:
		return fmt.Errorf("system: actor %s is running already", self.Address)
	}
	var name string
	if last := len(s.free) - 1; last >= 0 {
		name, s.free = s.free[last], s.free[:last]
	} else {
		s.names++
		name = s.prefix + s.node + "|" + strconv.Itoa(s.names)
	}
	s.numbers++
	self.Number = s.numbers
	self.pid = actor.NewPID(s.actors.Address(), name)
	s.spawned[self.Address] = self
	s.running[self] = true
	return nil
}

// forget frees the address of an actor that stops. The library has forgotten its name
// before.
func (s *System) forget(self *Self) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spawned[self.Address] == self {
		delete(s.spawned, self.Address)
		s.free = append(s.free, self.pid.Id)
	}
}

// leave is the end of an actor.
func (s *System) leave(self *Self) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running[self] {
		return // it panicked at its end, and was ended again
	}
	delete(s.running, self)
	if s.stopped && len(s.running) == 0 {
		close(s.gone)
	}
}

func (s *System) stopping() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.stopped
}

// process finds an actor. The lock is held meanwhile: after it the actor's name may be
// another's.
func (s *System) process(to protocol.Address) (actor.Process, *actor.PID) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	self, ok := s.spawned[to]
	if !ok {
		return nil, nil
	}
	process, ok := s.actors.ProcessRegistry.GetLocal(self.pid.Id)
	if !ok {
		return nil, nil // it is about to start, or has stopped
	}
	return process, self.pid
}

// Abandon makes every actor unreachable without stopping it, as a crash of the
// node does. Only simulations call it: their dispatcher gives no turn to the
// actors of a dead node.
func (s *System) Abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, self := range s.spawned { // the order has no effect
		s.actors.ProcessRegistry.Remove(self.pid)
	}
	clear(s.spawned)
}

// StopAll asks every actor to stop; it does not wait, and no actor is started any
// more. AllStopped tells when they have.
func (s *System) StopAll() {
	s.mu.Lock()
	if !s.stopped && len(s.running) == 0 {
		close(s.gone)
	}
	s.stopped = true
	s.mu.Unlock()
	for _, a := range s.Running() { // one that has stopped since is not found
		s.Stop(a)
	}
}

// AllStopped is closed when StopAll was called and the last actor has handled its
// end. One that is in the middle of a message ends after it.
func (s *System) AllStopped() <-chan struct{} { return s.gone }

// Running lists the addresses of the actors that have not stopped, sorted.
func (s *System) Running() []protocol.Address {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var running []protocol.Address
	for self := range s.running {
		running = append(running, self.Address)
	}
	slices.Sort(running)
	return running
}

// stopOnFailure: no actor is ever restarted in place; shells recover their own
// panics, so this is the last line.
var stopOnFailure = actor.NewOneForOneStrategy(0, 0, func(any) actor.Directive { return actor.StopDirective })

// Send delivers a message to an address, or drops and counts it if no such actor
// is there. Messages of one sender to one receiver keep their order.
func (s *System) Send(from, to protocol.Address, m proto.Message) {
	if NodeOf(to) != s.node && s.transport != nil {
		s.transport.Send(from, to, m)
		return
	}
	s.Deliver(to, m)
}

// Deliver posts a message to a local actor.
func (s *System) Deliver(to protocol.Address, m proto.Message) {
	process, _ := s.process(to)
	if process == nil {
		s.unknown.Add(1)
		return
	}
	process.SendUserMessage(nil, m)
}

// LongestQueue returns the actor with the most user messages waiting, and how many
// there are, for simulations and diagnosis; any goroutine may call it.
func (s *System) LongestQueue() (longest protocol.Address, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, self := range s.spawned { // of equals the first in the alphabet counts
		if n := self.Mailbox.UserMessageCount(); n > waiting || n == waiting && self.Address < longest {
			longest, waiting = self.Address, n
		}
	}
	return longest, waiting
}

// Undelivered counts the messages that found no actor: late mail of fenced
// attempts, mostly.
func (s *System) Undelivered() uint64 { return s.unknown.Load() }

// Stop ends a local actor.
func (s *System) Stop(a protocol.Address) {
	if process, pid := s.process(a); process != nil {
		process.Stop(pid)
	}
}

// Route is a resolved address, for channels that send many messages.
type Route struct {
	system  *System
	from    protocol.Address
	to      protocol.Address
	process actor.Process
}

// Route resolves an address once. Messages to a local actor that has ended are
// dropped with it.
func (s *System) Route(from, to protocol.Address) *Route {
	return &Route{system: s, from: from, to: to}
}

// Send is System.Send without the look-up.
func (r *Route) Send(m proto.Message) {
	if r.process == nil {
		if NodeOf(r.to) != r.system.node && r.system.transport != nil {
			r.system.transport.Send(r.from, r.to, m)
			return
		}
		process, _ := r.system.process(r.to)
		if process == nil {
			r.system.unknown.Add(1)
			return
		}
		r.process = process
	}
	r.process.SendUserMessage(nil, m)
}

// To is the address that the route leads to.
func (r *Route) To() protocol.Address { return r.to }

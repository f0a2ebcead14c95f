package system

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
)

// Mailbox is the queue of one actor, the same in production and simulation. It
// delivers one message at a time, in this order:
//
//	system > control > channels, round robin over those not blocked > default action
//
// Everything that is not in-band data (a message with a channel number) is
// control. A task that is in the middle of a batch holds the channels: then the
// default action, which goes on with the batch, takes their place.
type Mailbox struct {
	invoker    actor.MessageInvoker
	dispatcher actor.Dispatcher
	observe    func(m any)
	stamp      func(m any)
	status     atomic.Int32 // 0 idle, 1 scheduled or running
	// started: the invoker and the dispatcher are there. An actor has its address
	// a moment before, so others may already post.
	started atomic.Bool

	// waiting is 1 while system or control mail waits; tasks test it between
	// records.
	waiting *atomic.Int32

	mu            sync.Mutex
	system        queue
	control       queue
	channels      []queue
	ready         []uint64 // bit per channel: it has messages
	blocked       []uint64 // bit per channel: alignment holds it back
	next          int      // where round robin goes on
	held          bool
	wanted        bool // the default action may have work
	suspended     bool
	defaultAction func() bool
}

// inBand is what a message on a data channel has.
type inBand interface {
	proto.Message
	GetAttempt() uint32
	GetChannel() uint32
	GetSeq() uint64
}

// queue is a FIFO that reuses its memory once it is empty.
type queue struct {
	items []any
	head  int
}

func (q *queue) empty() bool { return q.head == len(q.items) }

func (q *queue) push(m any) { q.items = append(q.items, m) }

func (q *queue) pop() any {
	m := q.items[q.head]
	q.items[q.head] = nil
	q.head++
	switch {
	case q.empty():
		q.items, q.head = q.items[:0], 0
	case q.head >= 64 && q.head*2 >= len(q.items):
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	return m
}

// NewMailbox makes a mailbox with that many input channels. Observe, if not
// nil, sees every user message before it is handled.
func NewMailbox(channels int, observe func(m any)) *Mailbox {
	words := (channels + 63) / 64
	return &Mailbox{
		waiting:  new(atomic.Int32),
		channels: make([]queue, channels),
		ready:    make([]uint64, words),
		blocked:  make([]uint64, words),
		observe:  observe,
	}
}

// SetDefaultAction sets what runs when no message is deliverable. It does a
// bounded piece of work and returns false if it cannot go on until Wake. The
// owner calls it, before or while it runs.
func (m *Mailbox) SetDefaultAction(f func() bool) {
	m.mu.Lock()
	m.defaultAction = f
	m.mu.Unlock()
}

// SetWaiting replaces the flag that says that control mail waits; call it before
// the actor is spawned.
func (m *Mailbox) SetWaiting(flag *atomic.Int32) { m.waiting = flag }

// SetStamp sets a function that sees each in-band message when it is queued, in
// the sender's goroutine; call it before the actor is spawned.
func (m *Mailbox) SetStamp(f func(m any)) { m.stamp = f }

// Wake runs the default action again. Any goroutine may call it.
func (m *Mailbox) Wake() {
	m.mu.Lock()
	m.wanted = true
	m.mu.Unlock()
	m.schedule()
}

// Hold keeps the channels back until Release: the owner is in the middle of a
// message of one of them.
func (m *Mailbox) Hold() {
	m.mu.Lock()
	m.held = true
	m.mu.Unlock()
}

// Release ends Hold.
func (m *Mailbox) Release() {
	m.mu.Lock()
	m.held = false
	m.mu.Unlock()
	m.schedule()
}

// Block holds one channel back (barrier alignment).
func (m *Mailbox) Block(channel uint32) {
	m.mu.Lock()
	m.blocked[channel/64] |= 1 << (channel % 64)
	m.mu.Unlock()
}

// Unblock lets a channel go on.
func (m *Mailbox) Unblock(channel uint32) {
	m.mu.Lock()
	m.blocked[channel/64] &^= 1 << (channel % 64)
	m.mu.Unlock()
	m.schedule()
}

// Queued lists what waits on a channel, oldest first.
func (m *Mailbox) Queued(channel uint32) []proto.Message {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := &m.channels[channel]
	list := make([]proto.Message, 0, len(q.items)-q.head)
	for _, x := range q.items[q.head:] {
		list = append(list, x.(proto.Message))
	}
	return list
}

// PostUserMessage implements actor.Mailbox. A message for a channel that the
// actor does not have goes to control, where its owner sees and refuses it.
func (m *Mailbox) PostUserMessage(message any) {
	m.mu.Lock()
	if b, ok := message.(inBand); ok && int(b.GetChannel()) < len(m.channels) {
		if m.stamp != nil {
			m.stamp(message)
		}
		c := b.GetChannel()
		m.channels[c].push(message)
		m.ready[c/64] |= 1 << (c % 64)
	} else {
		m.control.push(message)
		m.waiting.Store(1)
	}
	m.mu.Unlock()
	m.schedule()
}

// PostSystemMessage implements actor.Mailbox.
func (m *Mailbox) PostSystemMessage(message any) {
	m.mu.Lock()
	m.system.push(message)
	m.waiting.Store(1)
	m.mu.Unlock()
	m.schedule()
}

// RegisterHandlers implements actor.Mailbox.
func (m *Mailbox) RegisterHandlers(invoker actor.MessageInvoker, dispatcher actor.Dispatcher) {
	m.invoker, m.dispatcher = invoker, dispatcher
}

// Start implements actor.Mailbox: what was posted so far is delivered.
func (m *Mailbox) Start() {
	m.started.Store(true)
	m.schedule()
}

// UserMessageCount implements actor.Mailbox.
func (m *Mailbox) UserMessageCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := len(m.control.items) - m.control.head
	for i := range m.channels {
		n += len(m.channels[i].items) - m.channels[i].head
	}
	return n
}

func (m *Mailbox) schedule() {
	// Who posts before Start finds started false, or Start finds what was posted.
	if m.started.Load() && m.status.CompareAndSwap(0, 1) {
		m.dispatcher.Schedule(m.run)
	}
}

// turn is what the mailbox does next.
type turn uint8

const (
	turnIdle turn = iota
	turnSystem
	turnUser
	turnDefault
)

// take picks the next turn; the order is the contract of Mailbox.
func (m *Mailbox) take() (turn, any, func() bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.system.empty() {
		x := m.system.pop()
		m.lower()
		return turnSystem, x, nil
	}
	if m.suspended {
		return turnIdle, nil, nil
	}
	if !m.control.empty() {
		x := m.control.pop()
		m.lower()
		return turnUser, x, nil
	}
	if !m.held {
		if c := m.nextReady(); c >= 0 {
			x := m.channels[c].pop()
			if m.channels[c].empty() {
				m.ready[c/64] &^= 1 << (c % 64)
			}
			return turnUser, x, nil
		}
	}
	if m.wanted && m.defaultAction != nil {
		return turnDefault, nil, m.defaultAction
	}
	return turnIdle, nil, nil
}

// lower clears the waiting flag when no mail waits any more.
func (m *Mailbox) lower() {
	if m.system.empty() && m.control.empty() {
		m.waiting.Store(0)
	}
}

// nextReady returns the next channel that has messages and is not blocked, from
// where round robin stands, or -1.
func (m *Mailbox) nextReady() int {
	n := len(m.channels)
	if n == 0 {
		return -1
	}
	from := m.next
	if from >= n {
		from = 0
	}
	words := len(m.ready)
	for i := range words + 1 {
		w := (from/64 + i) % words
		free := m.ready[w] &^ m.blocked[w]
		switch i {
		case 0:
			free &= ^uint64(0) << (from % 64)
		case words:
			free &= 1<<(from%64) - 1
		}
		if free != 0 {
			c := w*64 + bits.TrailingZeros64(free)
			m.next = c + 1
			return c
		}
	}
	return -1
}

// run takes turns until nothing is left or the dispatcher's throughput is used
// up; with a throughput of one the dispatcher decides who goes next.
func (m *Mailbox) run() {
	var current any
	defer func() {
		if r := recover(); r != nil {
			m.invoker.EscalateFailure(r, current)
			m.status.Store(0)
			m.schedule()
		}
	}()
	for budget := m.dispatcher.Throughput(); ; budget-- {
		if budget <= 0 {
			m.dispatcher.Schedule(m.run)
			return
		}
		what, message, action := m.take()
		current = message
		switch what {
		case turnSystem:
			m.invokeSystem(message)
		case turnUser:
			if m.observe != nil {
				m.observe(message)
			}
			m.invoker.InvokeUserMessage(message)
		case turnDefault:
			m.runDefault(action)
		case turnIdle:
			m.status.Store(0)
			// A message that came between take and the store found the status
			// at 1 and did not schedule: look again.
			if !m.deliverable() || !m.status.CompareAndSwap(0, 1) {
				return
			}
			budget++
		}
	}
}

func (m *Mailbox) invokeSystem(message any) {
	switch message.(type) {
	case *actor.SuspendMailbox, *actor.ResumeMailbox:
		_, suspend := message.(*actor.SuspendMailbox)
		m.mu.Lock()
		m.suspended = suspend
		m.mu.Unlock()
	default:
		m.invoker.InvokeSystemMessage(message)
	}
}

// runDefault runs the action. A Wake while it runs must not be lost, so the flag
// is lowered before and raised again after.
func (m *Mailbox) runDefault(action func() bool) {
	m.mu.Lock()
	m.wanted = false
	m.mu.Unlock()
	if action() {
		m.mu.Lock()
		m.wanted = true
		m.mu.Unlock()
	}
}

// deliverable reports whether take would find something.
func (m *Mailbox) deliverable() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.system.empty() {
		return true
	}
	if m.suspended {
		return false
	}
	if !m.control.empty() || m.wanted && m.defaultAction != nil {
		return true
	}
	if !m.held {
		for w := range m.ready {
			if m.ready[w]&^m.blocked[w] != 0 {
				return true
			}
		}
	}
	return false
}

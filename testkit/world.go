package testkit

import (
	"container/heap"
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"cutwater/actors/system"
	"cutwater/messages/describe"
	"cutwater/protocol"
)

// World is a seeded simulation: the production actors of several nodes on one
// goroutine, under a virtual clock, network, executor and file system. The seed
// decides which mailbox goes next, how long everything takes and which faults
// happen; the same seed gives the same run, to the bit.
//
// A World is not safe for concurrent use.
type World struct {
	seed     uint64
	rng      *rand.Rand
	nowUs    int64
	steps    int
	ready    []func()
	events   eventQueue
	eventSeq uint64
	nodes    []*Node
	actors   *actor.ActorSystem
	prefix   string
	encode   bool // messages between nodes are encoded and decoded
	links    map[[2]string]int64
	hash     interface {
		io.Writer
		Sum64() uint64
	}
	trace io.Writer
	// Faults counts what was injected, by kind.
	Faults map[string]int
	faults Faults
}

// Faults are the probabilities of injected faults, each per opportunity.
type Faults struct {
	// DropControl loses a control message between two actors.
	DropControl float64
	// DuplicateControl delivers one twice.
	DuplicateControl float64
	// DelayControl delivers one late (up to 200 ms), behind younger ones.
	DelayControl float64
	// SlowWork makes work on the executor take up to 500 ms.
	SlowWork float64
	// MetadataUnknown loses the metadata store's answer, or the command with it.
	MetadataUnknown float64
	// SlowTask lets a mailbox wait for up to 20 ms before its next turn.
	SlowTask float64
}

// epochUs is when every simulation begins.
const epochUs = 1_700_000_000_000_000

// sharedActors is used by all worlds of a process: making one costs more than a
// short simulation. Worlds keep apart by the prefix of their actors' names.
var sharedActors = sync.OnceValues(func() (*actor.ActorSystem, *worldCounter) {
	return system.NewActors(), &worldCounter{}
})

type worldCounter struct {
	mu   sync.Mutex
	last int
}

func (c *worldCounter) next() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	return c.last
}

// NewWorld makes an empty world; add nodes and start jobs on them. On odd seeds
// every message between nodes is encoded and decoded.
func NewWorld(seed uint64, faults Faults) *World {
	actors, counter := sharedActors()
	return &World{
		seed:   seed,
		rng:    rand.New(rand.NewPCG(seed, 0x43757477)),
		nowUs:  epochUs,
		actors: actors,
		prefix: fmt.Sprintf("w%d:", counter.next()),
		encode: seed%2 == 1,
		links:  map[[2]string]int64{},
		hash:   fnv.New64a(),
		Faults: map[string]int{},
		faults: faults,
	}
}

// Trace prints one line per delivered message to w.
func (w *World) Trace(out io.Writer) { w.trace = out }

// Hash is the hash of everything that was delivered so far, in order.
func (w *World) Hash() uint64 { return w.hash.Sum64() }

// Steps is the number of steps taken.
func (w *World) Steps() int { return w.steps }

// NowMs is the virtual time.
func (w *World) NowMs() int64 { return w.nowUs / 1000 }

// Random returns a seeded number below n.
func (w *World) Random(n int) int { return w.rng.IntN(n) }

// After calls f after a virtual delay.
func (w *World) After(delayMs int64, f func()) { w.at(w.nowUs+delayMs*1000, f) }

// Step lets one mailbox take one turn, or time pass to the next event. It
// returns false when nothing is left to happen.
func (w *World) Step() bool {
	if len(w.events) > 0 && w.events[0].atUs <= w.nowUs {
		e := heap.Pop(&w.events).(event)
		w.steps++
		e.f()
		return true
	}
	if len(w.ready) == 0 {
		if len(w.events) == 0 {
			return false
		}
		w.nowUs = w.events[0].atUs
		return true
	}
	i := w.rng.IntN(len(w.ready))
	f := w.ready[i]
	last := len(w.ready) - 1
	w.ready[i] = w.ready[last]
	w.ready[last] = nil
	w.ready = w.ready[:last]
	w.nowUs += int64(w.rng.IntN(100)) // a turn takes time
	w.steps++
	f()
	return true
}

// Run steps until done, until nothing is left, or until maxSteps are taken; it
// reports whether done was reached.
func (w *World) Run(maxSteps int, done func() bool) bool {
	for range maxSteps {
		if done() {
			return true
		}
		if !w.Step() {
			return done()
		}
	}
	return done()
}

func (w *World) chance(p float64) bool { return p > 0 && w.rng.Float64() < p }

func (w *World) inject(kind string, p float64) bool {
	if !w.chance(p) {
		return false
	}
	w.Faults[kind]++
	return true
}

func (w *World) at(us int64, f func()) {
	w.eventSeq++
	heap.Push(&w.events, event{us, w.eventSeq, f})
}

// observe feeds the trace.
func (w *World) observe(to protocol.Address, m any) {
	p, ok := m.(proto.Message)
	if !ok {
		return
	}
	line := fmt.Sprintf("%d %s %s\n", w.nowUs-epochUs, to, describe.Text(p))
	_, _ = io.WriteString(w.hash, line) // a hash never fails
	if w.trace != nil {
		_, _ = io.WriteString(w.trace, line)
	}
}

// event is something that happens at a virtual time; equal times keep the order
// in which they were scheduled.
type event struct {
	atUs int64
	seq  uint64
	f    func()
}

type eventQueue []event

func (q eventQueue) Len() int { return len(q) }
func (q eventQueue) Less(i, j int) bool {
	return q[i].atUs < q[j].atUs || q[i].atUs == q[j].atUs && q[i].seq < q[j].seq
}
func (q eventQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *eventQueue) Push(x any)   { *q = append(*q, x.(event)) }
func (q *eventQueue) Pop() any {
	old := *q
	e := old[len(old)-1]
	old[len(old)-1] = event{}
	*q = old[:len(old)-1]
	return e
}

// dispatcher gives every turn of every mailbox to the world.
type dispatcher struct{ node *Node }

// Throughput of one: after each message the world chooses anew.
func (d dispatcher) Throughput() int { return 1 }

// Schedule makes a mailbox runnable.
func (d dispatcher) Schedule(f func()) {
	w, life := d.node.world, d.node.life
	run := func() {
		if d.node.life == life && d.node.alive {
			f()
		}
	}
	if w.inject("slow task", w.faults.SlowTask) {
		w.at(w.nowUs+int64(w.rng.IntN(20_000)), func() { w.ready = append(w.ready, run) })
		return
	}
	w.ready = append(w.ready, run)
}

// clock is a node's virtual clock.
type clock struct{ node *Node }

func (c clock) NowMs() int64       { return c.node.world.NowMs() }
func (c clock) MonotonicMs() int64 { return (c.node.world.nowUs - epochUs) / 1000 }
func (c clock) AfterMs(delayMs int64, f func()) (stop func()) {
	w, life, stopped := c.node.world, c.node.life, false
	w.at(w.nowUs+max(delayMs, 0)*1000, func() {
		if !stopped && c.node.alive && c.node.life == life {
			f()
		}
	})
	return func() { stopped = true }
}

// executor runs work as an event: begun at once or later, done later still. A
// crash in between loses it.
type executor struct{ node *Node }

func (e executor) Run(name string, work func(context.Context) error, done func(error)) {
	w, life := e.node.world, e.node.life
	here := func() bool { return e.node.alive && e.node.life == life }
	begin := w.nowUs + int64(w.rng.IntN(300))
	end := begin + int64(w.rng.IntN(2_000))
	if w.inject("slow work", w.faults.SlowWork) {
		end += int64(w.rng.IntN(500_000))
	}
	w.at(begin, func() {
		if !here() {
			return
		}
		err := system.Guarded(context.Background(), name, work)
		w.at(end, func() {
			if here() {
				done(err)
			}
		})
	})
}

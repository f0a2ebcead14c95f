package testkit

import (
	"container/heap"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"cutwater/actors/system"
	"cutwater/messages"
	"cutwater/messages/describe"
	"cutwater/protocol"
	"cutwater/storage/vfs"
)

// World is a seeded simulation: the production actors of several nodes on one
// goroutine, under a virtual clock, network, executor and file system. The seed
// decides which mailbox goes next, how long everything takes and which faults
// happen; the same seed gives the same run, to the bit.
//
// A World is not safe for concurrent use; several may run side by side.
type World struct {
	rng      *rand.Rand
	nowUs    int64
	turnUs   int // bounds how long a turn takes
	steps    int
	ready    []func()
	events   eventQueue
	eventSeq uint64
	nodes    []*Node
	actors   *actor.ActorSystem
	prefix   string
	encode   bool // messages between nodes are encoded and decoded
	links    map[[2]string]int64
	severed  map[[2]*Node]bool // from, to
	plane    *controlPlane     // of a cluster
	planted  planted

	disk   *vfs.MemFS // one file system that every node sees
	full   bool       // it has no room left
	slowUs int64      // what the disk has added to the work or turn in hand
	dying  []*Node    // died in the middle of the step in hand
	outage bool       // with them the power fails everywhere

	hash interface {
		io.Writer
		Sum64() uint64
	}
	trace io.Writer
	tail  tail
	watch []func(to protocol.Address, m proto.Message)
	check []func()
	// loseCoordinator is LoseCoordinator's part that the simulation of a job has.
	loseCoordinator func()
	err             error

	// Faults counts what was injected, by kind.
	Faults map[string]int
	faults Faults
}

// defaultTurnUs bounds the virtual time of a turn.
const defaultTurnUs = 100

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
		rng:     rand.New(rand.NewPCG(seed, 0x43757477)),
		turnUs:  defaultTurnUs,
		nowUs:   epochUs,
		actors:  actors,
		prefix:  fmt.Sprintf("w%d:", counter.next()),
		encode:  seed%2 == 1,
		links:   map[[2]string]int64{},
		severed: map[[2]*Node]bool{},
		disk:    vfs.Mem(),
		hash:    fnv.New64a(),
		Faults:  map[string]int{},
		faults:  faults,
	}
}

// Trace prints one line per delivered message, fault and event to out.
func (w *World) Trace(out io.Writer) { w.trace = out }

// Tail is the end of the trace, for the report of a run that failed.
func (w *World) Tail() []string { return w.tail.lines() }

// Hash is the hash of all that was delivered and of all faults so far, in order.
func (w *World) Hash() uint64 { return w.hash.Sum64() }

// Steps is the number of steps taken.
func (w *World) Steps() int { return w.steps }

// NowMs is the virtual time.
func (w *World) NowMs() int64 { return w.nowUs / 1000 }

// ElapsedMs is the virtual time since the beginning.
func (w *World) ElapsedMs() int64 { return (w.nowUs - epochUs) / 1000 }

// Random returns a seeded number below n.
func (w *World) Random(n int) int { return w.rng.IntN(n) }

// Disk is the file system that every node sees, without the faults that hit the
// nodes.
func (w *World) Disk() *vfs.MemFS { return w.disk }

// After calls f after a virtual delay.
func (w *World) After(delayMs int64, f func()) { w.at(w.nowUs+delayMs*1000, f) }

// Watch calls f for each message before its actor handles it.
func (w *World) Watch(f func(to protocol.Address, m proto.Message)) { w.watch = append(w.watch, f) }

// Check calls f after each step; it reports what is wrong with Fail.
func (w *World) Check(f func()) { w.check = append(w.check, f) }

// Fail ends the run with an error; the first one counts.
func (w *World) Fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// Err is why the run was ended, or nil.
func (w *World) Err() error { return w.err }

// Step lets one mailbox take one turn, or time pass to the next event. It
// returns false when nothing is left to happen.
func (w *World) Step() bool {
	switch {
	case len(w.events) > 0 && w.events[0].atUs <= w.nowUs:
		heap.Pop(&w.events).(event).f()
		w.takeSlow() // what waited for the disk has taken its share
	case len(w.ready) > 0:
		i := w.rng.IntN(len(w.ready))
		f := w.ready[i]
		last := len(w.ready) - 1
		w.ready[i] = w.ready[last]
		w.ready[last] = nil
		w.ready = w.ready[:last]
		w.nowUs += int64(w.rng.IntN(w.turnUs)) // a turn takes time
		f()
		w.nowUs += w.takeSlow()
	case len(w.events) > 0:
		w.nowUs = w.events[0].atUs
		return true
	default:
		return false
	}
	w.steps++
	w.bury()
	for _, f := range w.check {
		f()
	}
	return true
}

// Run steps until done, until nothing is left, until something is wrong (Err), or
// until maxSteps are taken; it reports whether done was reached.
func (w *World) Run(maxSteps int, done func() bool) bool {
	for range maxSteps {
		if done() {
			return true
		}
		if !w.Step() {
			return done()
		}
		if w.err != nil {
			return false
		}
	}
	return done()
}

func (w *World) at(us int64, f func()) {
	w.eventSeq++
	heap.Push(&w.events, event{us, w.eventSeq, f})
}

// observe sees every message before its actor does.
func (w *World) observe(to protocol.Address, m any) {
	p, ok := m.(proto.Message)
	if !ok {
		return
	}
	w.note("%s <- %s", to, describe.Text(withoutStack(p)))
	for _, f := range w.watch {
		f(to, p)
	}
}

// withoutStack takes the stack out of a failure: it has addresses of this process,
// which no seed repeats.
func withoutStack(m proto.Message) proto.Message {
	if t, ok := m.(*messages.TaskStateChanged); ok && t.GetFailure().GetStack() != "" {
		t = proto.CloneOf(t)
		t.Failure.Stack = ""
		return t
	}
	return m
}

// note adds a line to the trace and to the hash.
func (w *World) note(format string, args ...any) {
	line := w.line(format, args...)
	_, _ = io.WriteString(w.hash, line) // a hash never fails
}

// remark adds a line to the trace alone: it follows from what is in the hash.
func (w *World) remark(format string, args ...any) { w.line(format, args...) }

func (w *World) line(format string, args ...any) string {
	line := fmt.Sprintf("%d.%03d ms ", (w.nowUs-epochUs)/1000, (w.nowUs-epochUs)%1000) + fmt.Sprintf(format, args...) + "\n"
	w.tail.add(line)
	if w.trace != nil {
		_, _ = io.WriteString(w.trace, line)
	}
	return line
}

// tail keeps the newest lines.
type tail struct {
	ring [40]string
	n    int
}

func (t *tail) add(line string) {
	t.ring[t.n%len(t.ring)] = line
	t.n++
}

func (t *tail) lines() []string {
	var lines []string
	for i := max(0, t.n-len(t.ring)); i < t.n; i++ {
		lines = append(lines, t.ring[i%len(t.ring)])
	}
	return lines
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

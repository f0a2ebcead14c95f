package dispatch

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"cutwater/internal/script"
	"cutwater/messages"
	"cutwater/messages/describe"
	"cutwater/protocol"
)

// TestStories runs every story in testdata against a Dispatcher, a metadata store and
// coordinators that say what the story lets them.
func TestStories(t *testing.T) {
	script.RunDir(t, "testdata", func(*testing.T) script.Handler { return newWorld().run })
}

// world is a Dispatcher with everything around it. It outlives the Dispatcher, so
// that a story can begin another leadership.
type world struct {
	d        *Dispatcher
	nowMs    int64
	dueMs    int64 // of the timer
	timer    protocol.Timer
	nodes    []Node
	records  []*messages.JobRecord // in the metadata store, by id
	requests []*messages.SlotRequest
	reads    []uint64 // outstanding
	loud     bool     // readings and ticks are printed too
	out      strings.Builder
}

func newWorld() *world { return &world{nowMs: 1000} }

func (w *world) run(d *script.Directive) (string, error) {
	w.out.Reset()
	err := w.directive(d)
	return folded(w.out.String()), err
}

// folded tells lines that differ in their time alone once, with the last time.
func folded(out string) string {
	var lines []string
	said, times, last := "", 0, ""
	flush := func() {
		if times > 1 {
			lines = append(lines, fmt.Sprintf("... %d times, last at %s", times, last))
		}
	}
	for _, line := range strings.Split(strings.TrimSuffix(out, "\n"), "\n") {
		at, what, _ := strings.Cut(line, " ")
		if what == said && what != "" {
			times, last = times+1, at
			continue
		}
		flush()
		said, times = what, 1
		lines = append(lines, line)
	}
	flush()
	return strings.Join(lines, "\n")
}

func (w *world) directive(d *script.Directive) error {
	switch d.Verb {
	case "nodes": // name:slots[:leaving] ...
		w.nodes = nil
		for _, word := range d.Words() {
			parts := strings.Split(word, ":")
			n := Node{Name: parts[0], Leaving: len(parts) > 2}
			fmt.Sscan(parts[1], &n.Slots)
			w.nodes = append(w.nodes, n)
		}
		if w.d != nil {
			w.carryOut(w.d.SetNodes(w.nowMs, w.nodes))
			w.settle()
		}
	case "start": // a leadership begins
		w.d, w.reads = New(), nil
		w.carryOut(w.d.Start(w.nowMs, w.nodes))
		w.settle()
	case "loud": // from now on everything is printed, and readings wait for `read`
		w.loud = true
	case "job": // puts a job on record: id [status=RUNNING] [epoch=1] [on=n1]
		r := &messages.JobRecord{Job: d.Words()[0], Epoch: uint64(d.Int("epoch", 0)), Status: messages.JobStatus(messages.JobStatus_value[d.Arg("status", "CREATED")])}
		if on := d.Arg("on", ""); on != "" {
			r.Coordinator = on + "|coordinator/" + r.Job
		}
		w.records = slices.DeleteFunc(w.records, func(o *messages.JobRecord) bool { return o.Job == r.Job })
		w.records = append(w.records, r)
		slices.SortFunc(w.records, func(a, b *messages.JobRecord) int { return strings.Compare(a.Job, b.Job) })
	case "changed": // a job's record has changed
		w.step(&messages.JobsChanged{})
		w.settle()
	case "read": // the metadata store answers the oldest reading: [fail=why]
		w.answer(d.Arg("fail", ""))
	case "request": // job epoch=1 on=n1 wanted=4 [held=n1:2+n2:2]
		r := &messages.SlotRequest{Job: d.Words()[0], Epoch: uint64(d.Int("epoch", 1)), Wanted: uint32(d.Int("wanted", 0))}
		r.Coordinator = d.Arg("on", "n1") + "|coordinator/" + r.Job
		for _, held := range strings.Split(d.Arg("held", ""), "+") {
			if node, slots, ok := strings.Cut(held, ":"); ok {
				h := &messages.NodeSlots{Node: node}
				fmt.Sscan(slots, &h.Slots)
				r.Held = append(r.Held, h)
			}
		}
		w.requests = slices.DeleteFunc(w.requests, func(o *messages.SlotRequest) bool { return o.Job == r.Job })
		w.requests = append(w.requests, r)
		w.step(r)
		w.settle()
	case "quiet": // a job's coordinator is heard no more
		w.requests = slices.DeleteFunc(w.requests, func(o *messages.SlotRequest) bool { return o.Job == d.Words()[0] })
	case "refuse": // job epoch=1 node=n1 why=...
		w.step(&messages.CoordinatorRefused{Job: d.Words()[0], Epoch: uint64(d.Int("epoch", 0)), Node: d.Arg("node", "n1"), Reason: d.Arg("why", "")})
	case "lost": // node why=...
		w.step(&messages.NodeLost{Node: d.Words()[0], Reason: d.Arg("why", "")})
		w.settle()
	case "advance": // time passes; coordinators that have asked for slots ask again every second
		for end := w.nowMs + d.Int("ms", 0); w.nowMs < end; {
			next := min(w.dueMs, w.nowMs-w.nowMs%1000+1000, end)
			w.nowMs = next
			if next == w.dueMs {
				w.step(&messages.TimerFired{Key: w.timer.Key, Generation: w.timer.Generation})
				w.settle()
			}
			if next%1000 == 0 {
				for _, r := range w.requests {
					w.again(r)
				}
			}
		}
	case "sleep": // the machine sleeps: the clock jumps, the timer fires when it wakes
		w.nowMs += d.Int("ms", 0)
		w.dueMs = w.nowMs
	case "stray": // messages that mean nothing to a dispatcher
		w.step(&messages.TimerFired{Key: tickTimer})
		w.step(&messages.WorkDone{Op: 4711})
		w.step(&messages.Deploy{})
	case "status":
		fmt.Fprintln(&w.out, w.d)
	default:
		return fmt.Errorf("unknown directive %s", d.Verb)
	}
	return nil
}

func (w *world) step(m proto.Message) { w.carryOut(w.d.Step(w.nowMs, m)) }

// again repeats a request; what its offer says is printed if it is news.
func (w *world) again(r *messages.SlotRequest) {
	before := w.out.Len()
	w.step(r)
	all := w.out.String()
	if said := all[before:]; strings.Count(said, "\n") == 1 && strings.Contains(said, "SlotOffer") {
		w.out.Reset()
		w.out.WriteString(all[:before])
	}
}

// settle lets the metadata store answer all readings, unless the story does.
func (w *world) settle() {
	for !w.loud && len(w.reads) > 0 {
		w.answer("")
	}
}

// answer lets it answer the oldest reading.
func (w *world) answer(failure string) {
	done := &messages.WorkDone{Op: w.reads[0], Failure: failure}
	if failure == "" {
		read := &messages.JobsRead{}
		for _, r := range w.records {
			read.Jobs = append(read.Jobs, proto.CloneOf(r))
		}
		done.Result = &messages.WorkDone_JobsRead{JobsRead: read}
	}
	w.reads = w.reads[1:]
	w.step(done)
}

func (w *world) carryOut(e *protocol.Effects) {
	at := fmt.Sprintf("%d ", w.nowMs)
	for _, k := range e.Work {
		w.reads = append(w.reads, k.Op)
		if w.loud {
			fmt.Fprintf(&w.out, "%swork %d %s\n", at, k.Op, describe.Text(k.Task))
		}
	}
	for _, s := range e.Send {
		fmt.Fprintf(&w.out, "%s-> %s %s\n", at, s.To, describe.Text(s.Message))
	}
	for _, t := range e.Timers {
		w.timer, w.dueMs = t, w.nowMs+t.DelayMs
		if w.loud {
			fmt.Fprintf(&w.out, "%stimer %s in %d\n", at, t.Key, t.DelayMs)
		}
	}
	for _, ev := range e.Events {
		fmt.Fprintf(&w.out, "%s* %s\n", at, ev)
	}
	if e.Fail != nil {
		fmt.Fprintf(&w.out, "%sFAIL %v\n", at, e.Fail)
	}
}

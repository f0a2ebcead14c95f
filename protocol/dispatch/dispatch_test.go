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

// TestStories runs every story in testdata against a Dispatcher, a metadata store, and
// agents and coordinators that say what the story lets them.
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
	term     uint64   // of the leadership
	inquired []protocol.Address
	deaf     map[string]bool // nodes that do not answer inquiries
	mute     map[string]bool // jobs whose coordinators live and say nothing
	late     map[string]bool // jobs whose offers are on their way
	offers   map[string]uint64
	news     []*messages.SlotRequest // of coordinators that a new offer has reached
	loud     bool                    // readings, inquiries and ticks are printed too
	out      strings.Builder
}

func newWorld() *world {
	return &world{nowMs: 1000, deaf: map[string]bool{}, mute: map[string]bool{}, late: map[string]bool{}, offers: map[string]uint64{}}
}

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
		w.term++
		w.d, w.reads, w.inquired, w.news = New("d|dispatcher", w.term), nil, nil, nil
		clear(w.offers)
		w.carryOut(w.d.Start(w.nowMs, w.nodes))
		w.settle()
	case "loud": // from now on everything is printed, and readings wait for `read`
		w.loud = true
	case "deaf": // nodes that do not answer inquiries from now on
		clear(w.deaf)
		for _, node := range d.Words() {
			w.deaf[node] = true
		}
	case "job": // puts a job on record: id [status=RUNNING] [epoch=1] [on=n1] [runs=n1:2+n2:2]
		r := &messages.JobRecord{Job: d.Words()[0], Epoch: uint64(d.Int("epoch", 0)), Status: messages.JobStatus(messages.JobStatus_value[d.Arg("status", "CREATED")])}
		if on := d.Arg("on", ""); on != "" {
			r.Coordinator = on + "|coordinator/" + r.Job
		}
		if runs := slotsArg(d, "runs"); runs != nil {
			r.Deployment = &messages.Deployment{Attempt: 1, Slots: runs}
		}
		w.records = slices.DeleteFunc(w.records, func(o *messages.JobRecord) bool { return o.Job == r.Job })
		w.records = append(w.records, r)
		slices.SortFunc(w.records, func(a, b *messages.JobRecord) int { return strings.Compare(a.Job, b.Job) })
	case "changed": // a job's record has changed
		w.step(&messages.JobsChanged{})
		w.settle()
	case "read": // the metadata store answers the oldest reading: [fail=why]
		w.answer(d.Arg("fail", ""))
	case "request": // job epoch=1 on=n1 wanted=4 [held=n1:2+n2:2] [term=N, not the dispatcher's] [offer=N, of one that is late]
		r := &messages.SlotRequest{Job: d.Words()[0], Epoch: uint64(d.Int("epoch", 1)), Wanted: uint32(d.Int("wanted", 0)),
			Held: slotsArg(d, "held"), Term: uint64(d.Int("term", int64(w.term)))}
		switch {
		case w.late[r.Job]:
			r.Offer = uint64(d.Int("offer", 0))
		case r.Term == w.term:
			r.Offer = w.offers[r.Job]
		}
		r.Coordinator = d.Arg("on", "n1") + "|coordinator/" + r.Job
		delete(w.mute, r.Job)
		w.requests = slices.DeleteFunc(w.requests, func(o *messages.SlotRequest) bool { return o.Job == r.Job })
		w.requests = append(w.requests, r)
		w.step(r)
		w.settle()
	case "quiet": // a job's coordinator is gone, without anybody's noticing
		w.requests = slices.DeleteFunc(w.requests, func(o *messages.SlotRequest) bool { return o.Job == d.Words()[0] })
	case "late": // jobs whose coordinators do not have new offers from now on
		clear(w.late)
		for _, job := range d.Words() {
			w.late[job] = true
		}
	case "mute": // a job's coordinator lives, and is heard no more
		w.mute[d.Words()[0]] = true
	case "answer": // an agent answers an inquiry: node term=1 coordinators=a:1+b:2
		a := &messages.SlotInquiryAnswer{Node: d.Words()[0], Term: uint64(d.Int("term", int64(w.term)))}
		for _, c := range slotsArg(d, "coordinators") {
			a.Coordinators = append(a.Coordinators, &messages.JobEpoch{Job: c.Node, Epoch: uint64(c.Slots)})
		}
		w.step(a)
		w.settle()
	case "refuse": // job epoch=1 node=n1 why=...
		w.step(&messages.CoordinatorRefused{Job: d.Words()[0], Epoch: uint64(d.Int("epoch", 0)), Node: d.Arg("node", "n1"), Reason: d.Arg("why", "")})
	case "orphans": // tasks of a coordinator that is not heard: job epoch=1 node=n1
		w.step(&messages.Heartbeat{Node: d.Arg("node", "n1"), Fence: &messages.Fence{Job: d.Words()[0], Epoch: uint64(d.Int("epoch", 1)), Attempt: 7},
			Tasks: []*messages.TaskId{{Vertex: "v"}, {Vertex: "w"}}, Attempts: []uint32{7, 6}})
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
					if !w.mute[r.Job] {
						w.again(r)
						w.settle()
					}
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

// settle lets everybody answer: the metadata store readings, unless the story does, and
// agents and coordinators inquiries. Coordinators confirm offers.
func (w *world) settle() {
	for {
		switch {
		case !w.loud && len(w.reads) > 0:
			w.answer("")
		case len(w.inquired) > 0:
			to := w.inquired[0]
			w.inquired = w.inquired[1:]
			w.inquiry(to)
		case len(w.news) > 0:
			r := w.news[0]
			w.news = w.news[1:]
			w.again(r)
		default:
			return
		}
	}
}

// inquiry is answered as an agent does, whose coordinators then speak, or a coordinator.
func (w *world) inquiry(to protocol.Address) {
	node, name, _ := strings.Cut(string(to), "|")
	if w.deaf[node] {
		return
	}
	answer := &messages.SlotInquiryAnswer{Node: node, Term: w.term}
	var asked []*messages.SlotRequest
	for _, r := range w.requests {
		if nodeOf(r.Coordinator) == node && (name == "agent" || name == "coordinator/"+r.Job) {
			answer.Coordinators = append(answer.Coordinators, &messages.JobEpoch{Job: r.Job, Epoch: r.Epoch})
			asked = append(asked, r)
		}
	}
	if name == "agent" {
		w.step(answer)
	}
	for _, r := range asked {
		if !w.mute[r.Job] {
			r.Term, r.Offer = w.term, w.offers[r.Job]
			w.step(r)
		}
	}
}

// offered lets the coordinator have an offer, unless it lives no more or the story says
// otherwise.
func (w *world) offered(o *messages.SlotOffer) {
	w.offers[o.Job] = o.Number
	for _, r := range w.requests {
		if r.Job == o.Job && r.Epoch == o.Epoch && r.Term == o.Term && r.Offer != o.Number && !w.late[r.Job] && !w.mute[r.Job] {
			r.Offer = o.Number
			w.news = append(w.news, r)
		}
	}
}

// slotsArg is an argument like n1:2+n2:2.
func slotsArg(d *script.Directive, name string) (slots []*messages.NodeSlots) {
	for _, part := range strings.Split(d.Arg(name, ""), "+") {
		if node, n, ok := strings.Cut(part, ":"); ok {
			s := &messages.NodeSlots{Node: node}
			fmt.Sscan(n, &s.Slots)
			slots = append(slots, s)
		}
	}
	return slots
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
		if _, ok := s.Message.(*messages.SlotInquiry); ok {
			if w.inquired = append(w.inquired, s.To); !w.loud {
				continue
			}
		}
		if o, ok := s.Message.(*messages.SlotOffer); ok {
			w.offered(o)
		}
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

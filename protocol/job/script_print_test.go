package job

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/messages/describe"
	"cutwater/protocol"
)

func (w *world) carryOut(e *protocol.Effects) {
	w.history.Observe(w.master, e.Events)
	for _, k := range e.Work {
		w.work = append(w.work, k)
		fmt.Fprintf(&w.out, "work %s\n", brief(k.Task))
	}
	for _, s := range e.Send {
		if d, ok := s.Message.(*messages.Deploy); ok {
			w.keep(d)
			w.nodeOf[taskName(d.Task)], _, _ = strings.Cut(string(s.To), "|")
		}
		fmt.Fprintf(&w.out, "-> %s %s\n", shortAddress(s.To), brief(s.Message))
	}
	for _, t := range e.Timers {
		w.timers = slices.DeleteFunc(w.timers, func(a armed) bool { return a.timer.Key == t.Key })
		if t.Cancel {
			fmt.Fprintf(&w.out, "timer %s off\n", t.Key)
			continue
		}
		w.timers = append(w.timers, armed{timer: t, atMs: w.nowMs + t.DelayMs})
		fmt.Fprintf(&w.out, "timer %s in %d\n", t.Key, t.DelayMs)
	}
	for _, ev := range e.Events {
		if _, adopted := ev.(Adopted); adopted {
			for _, name := range w.order { // they know
				w.deployed[name] = proto.CloneOf(w.deployed[name])
				w.deployed[name].Fence.Epoch = w.master.epoch
			}
		}
		fmt.Fprintf(&w.out, "* %s\n", ev)
	}
	if e.Fail != nil {
		fmt.Fprintf(&w.out, "FAIL %v\n", e.Fail)
	}
	for _, s := range slices.Clone(e.Send) {
		if a, ok := s.Message.(*messages.AdoptTasks); ok && !w.remain { // whoever is there has nothing
			node, _, _ := strings.Cut(string(s.To), "|")
			w.step(&messages.AdoptableTasks{Fence: a.Fence, Node: node})
		}
	}
}

// keep remembers a deployed task; those of the attempt before are forgotten.
func (w *world) keep(d *messages.Deploy) {
	name := taskName(d.Task)
	if old := w.deployed[name]; d.Regional {
		if old.Fence.Attempt != d.Fence.Attempt {
			w.forgotten = append(w.forgotten, old)
		}
		w.deployed[name] = d
		return
	}
	if len(w.order) > 0 && w.deployed[w.order[0]].Fence.Attempt != d.Fence.Attempt ||
		len(w.order) > 0 && w.deployed[w.order[0]].Fence.Epoch != d.Fence.Epoch {
		w.forgotten = nil
		for _, n := range w.order {
			w.forgotten = append(w.forgotten, w.deployed[n])
		}
		w.order, w.deployed = nil, make(map[string]*messages.Deploy)
	}
	if w.deployed[name] == nil {
		w.order = append(w.order, name)
	}
	w.deployed[name] = d
}

// shortAddress leaves the job out.
func shortAddress(a protocol.Address) string {
	return strings.Replace(string(a), "/"+testJob, "", 1)
}

// brief prints a message without what every line would repeat.
func brief(m proto.Message) string {
	switch t := m.(type) {
	case *messages.Deploy:
		return briefDeploy(t)
	case *messages.Propose:
		return "Propose " + withoutJob(strings.TrimPrefix(describe.Text(t.Command), "MetadataCommand"))
	}
	return withoutJob(describe.Text(m))
}

func withoutJob(text string) string {
	return strings.NewReplacer("/"+testJob, "", "job:"+testJob+" ", "", "job:"+testJob, "").Replace(text)
}

func briefDeploy(d *messages.Deploy) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Deploy %s epoch=%d attempt=%d incarnation=%d operators=%v", taskName(d.Task), d.Fence.Epoch, d.Fence.Attempt, d.Incarnation, d.Vertex.Operators)
	for _, in := range d.Inputs {
		fmt.Fprintf(&b, " in%d<-%s#%d", in.Input, shortAddress(protocol.Address(in.Sender)), in.SenderOutput)
	}
	for _, o := range d.Outputs {
		fmt.Fprintf(&b, " edge%d->%s#%d", o.Edge, shortAddress(protocol.Address(o.Receiver)), o.ReceiverChannel)
	}
	if d.Regional {
		b.WriteString(" regional")
	}
	if d.Finished {
		b.WriteString(" finished")
	}
	if d.Restore != nil {
		b.WriteString(" " + describe.Text(d.Restore))
	}
	return b.String()
}

package testkit_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"cutwater/actors/system"
	"cutwater/messages"
	"cutwater/node"
	"cutwater/testkit"
)

// ear notes the keys of the timers that it hears of.
type ear struct{ heard *[]string }

func (*ear) Started(*system.Self) {}

func (e *ear) Receive(m proto.Message) {
	*e.heard = append(*e.heard, m.(*messages.TimerFired).Key)
}

func (*ear) Stopped() {}

// A world may be driven by hand: what is sent to a node arrives, unless the node is
// cut off or has crashed; cut off, it goes on by itself; started anew, it hears again,
// but never what was sent before. The trace shows it, and the faults are counted.
func TestWorldByHand(t *testing.T) {
	var heard []string
	var trace strings.Builder
	w := testkit.NewWorld(1, testkit.Faults{})
	defer w.Close()
	w.Trace(&trace)
	boot := func(n *testkit.Node) (*node.Runtime, error) {
		_, err := n.System().Spawn("ear", &ear{&heard}, system.NewMailbox(0, nil))
		return nil, err
	}
	for range 2 {
		if _, err := w.AddNode(boot); err != nil {
			t.Fatal(err)
		}
	}
	from, to := w.Nodes()[0], w.Nodes()[1]
	say := func(key string) {
		from.System().Send(from.System().Address("ear"), to.System().Address("ear"), &messages.TimerFired{Key: key})
		w.Run(1000, func() bool { return false })
	}
	say("hello")
	to.Partition(true)
	say("cut off")
	to.System().Deliver(to.System().Address("ear"), &messages.TimerFired{Key: "from itself"})
	w.Run(1000, func() bool { return false })
	to.Partition(false)
	say("joined again")
	to.Crash()
	say("crashed")
	if to.Alive() {
		t.Error("a node that crashed is alive")
	}
	if err := to.Restart(); err != nil {
		t.Fatal(err)
	}
	say("started again")
	if want := []string{"hello", "from itself", "joined again", "started again"}; !slices.Equal(heard, want) {
		t.Errorf("heard %q, want %q", heard, want)
	}
	if w.Faults[testkit.Partitioned] != 1 || w.Faults[testkit.NodeCrash] != 1 || w.Err() != nil {
		t.Errorf("faults %v, error %v", w.Faults, w.Err())
	}
	for _, want := range []string{"BOOT n2", "DOWN n2", "hello"} {
		if !strings.Contains(trace.String(), want) {
			t.Errorf("the trace has no %q:\n%s", want, trace.String())
		}
	}
	for kind := range w.Faults {
		if !slices.Contains(testkit.FaultKinds(), kind) {
			t.Errorf("%q is counted and not listed", kind)
		}
	}
}

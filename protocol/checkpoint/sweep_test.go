package checkpoint

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/messages/describe"
	"cutwater/protocol"
)

// A sweep spares every retained and pending checkpoint, in order even if a savepoint is
// overtaken, and every file of the registry, also one that nobody uses any more and a
// pending checkpoint may name.
func TestSweepBefore(t *testing.T) {
	c := New(Config{Job: "j", Epoch: 3, Incarnation: 2, Ops: &protocol.Ops{}, Settings: &messages.CheckpointConfig{MaxConcurrent: 1, NumRetained: 1}})
	c.store.add(entry(6, "cp"))
	c.store.add(entry(8, "cp"))
	c.pending = []*pendingCheckpoint{{id: 7}, {id: 9}}
	c.newest = 10
	const shared = messages.SegmentScope_SHARED
	c.registry.register(sharedFiles(6, keyed(segment("b", shared, 6), segment("a", shared, 6))))
	unused := sharedFiles(5, keyed(segment("c", shared, 5)))
	c.registry.register(unused)
	c.registry.unregister(unused, 9)
	file := func(path string) *messages.StateHandle { return segment(path, shared, 0).Handle }
	want := &messages.SweepCheckpoints{
		Fence: &messages.Fence{Job: "j", Epoch: 3, Attempt: 3000002}, Incarnation: 2, Newest: 10,
		Keep: []uint64{6, 7, 8, 9}, Shared: []*messages.StateHandle{file("a"), file("b"), file("c")},
	}
	if got := c.SweepBefore(3000002); !proto.Equal(got, want) {
		t.Errorf("sweep is %s\nwant %s", describe.Text(got), describe.Text(want))
	}
}

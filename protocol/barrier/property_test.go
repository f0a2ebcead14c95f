package barrier_test

import (
	"testing"

	"pgregory.net/rapid"

	"cutwater/messages"
	"cutwater/protocol/barrier"
)

// message is one entry of a channel: data, the barrier or the cancel of a
// checkpoint, or the end.
type message struct {
	kind       byte // 'D', 'B', 'C', 'E'
	checkpoint uint64
}

// Channels with random data, barriers, cancels and gaps, read in a random order
// (scenario 162): an aligned gate never deadlocks, never triggers out of order, and
// each trigger is a cut: every channel stands right behind the checkpoint's barrier
// or has ended.
func TestAlignedNeverDeadlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRandomRun(t, barrier.NewAligned)
		r.run(func(checkpoint uint64) {
			for c, ch := range r.channels {
				if ch.passed != checkpoint && !ch.ended {
					t.Fatalf("checkpoint %d is triggered, and channel %d stands behind barrier %d", checkpoint, c, ch.passed)
				}
				if ch.dataBehind {
					t.Fatalf("checkpoint %d is triggered, and channel %d has delivered data behind the barrier", checkpoint, c)
				}
			}
		})
	})
}

// The same channels at a gate that never blocks (scenario 162): it triggers in
// order, and only when every channel has passed the barrier or has ended.
func TestTrackerTriggersInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRandomRun(t, barrier.NewAtLeastOnce)
		r.run(func(checkpoint uint64) {
			for c, ch := range r.channels {
				if ch.passed < checkpoint && !ch.ended {
					t.Fatalf("checkpoint %d is triggered, and channel %d stands behind barrier %d", checkpoint, c, ch.passed)
				}
			}
		})
		if len(r.blocked) > 0 {
			t.Fatal("the tracker blocked a channel")
		}
	})
}

type randomChannel struct {
	queue []message
	// passed is the checkpoint of the last barrier that was delivered; dataBehind
	// is whether data was delivered after it.
	passed     uint64
	dataBehind bool
	ended      bool
}

type randomRun struct {
	t        *rapid.T
	gate     *barrier.Gate
	channels []*randomChannel
	blocked  map[uint32]bool
	settled  map[uint64]bool
	// awaited are the checkpoints whose barriers stand on every channel, and that
	// nothing can abort.
	awaited []uint64
}

func newRandomRun(t *rapid.T, create func(int, bool) *barrier.Gate) *randomRun {
	channels := rapid.IntRange(1, 5).Draw(t, "channels")
	checkpoints := rapid.IntRange(0, 8).Draw(t, "checkpoints")
	// In a clean run every barrier comes on every channel.
	clean := rapid.Bool().Draw(t, "clean")
	kinds := []byte{'B'}
	if !clean {
		kinds = []byte{'B', 'B', 'B', 'C', 0}
	}
	r := &randomRun{
		t:       t,
		gate:    create(channels, clean || rapid.Bool().Draw(t, "afterTasksFinish")),
		blocked: map[uint32]bool{},
		settled: map[uint64]bool{},
	}
	for range channels {
		ch := &randomChannel{}
		for id := range uint64(checkpoints) {
			for range rapid.IntRange(0, 2).Draw(t, "data") {
				ch.queue = append(ch.queue, message{kind: 'D'})
			}
			if kind := rapid.SampledFrom(kinds).Draw(t, "kind"); kind != 0 {
				ch.queue = append(ch.queue, message{kind, id + 1})
			}
		}
		ch.queue = append(ch.queue, message{kind: 'E'})
		r.channels = append(r.channels, ch)
	}
	if clean {
		for id := range uint64(checkpoints) {
			r.awaited = append(r.awaited, id+1)
		}
	}
	return r
}

func (r *randomRun) run(onTrigger func(checkpoint uint64)) {
	var triggered uint64
	for {
		var ready []uint32
		waiting := 0
		for c, ch := range r.channels {
			if len(ch.queue) > 0 {
				waiting++
				if !r.blocked[uint32(c)] {
					ready = append(ready, uint32(c))
				}
			}
		}
		if waiting == 0 {
			break
		}
		if len(ready) == 0 {
			r.t.Fatalf("deadlock: %v", r.gate)
		}
		a := r.deliver(rapid.SampledFrom(ready).Draw(r.t, "channel"))
		if a == nil {
			continue
		}
		for _, abort := range a.Aborts {
			r.settle(abort.Checkpoint)
		}
		if a.Trigger != nil {
			id := a.Trigger.Checkpoint
			if id <= triggered {
				r.t.Fatalf("checkpoint %d is triggered after %d", id, triggered)
			}
			triggered = id
			r.settle(id)
			onTrigger(id)
		}
		for _, c := range a.Block {
			r.blocked[c] = true
		}
		for _, c := range a.Unblock {
			delete(r.blocked, c)
		}
	}
	if pending := r.gate.Pending(); len(pending) > 0 {
		r.t.Fatalf("pending after the end of all channels: %v", pending)
	}
	for _, id := range r.awaited {
		if !r.settled[id] {
			r.t.Fatalf("checkpoint %d has every barrier and was not triggered", id)
		}
	}
}

// settle checks that a checkpoint is triggered or aborted once.
func (r *randomRun) settle(checkpoint uint64) {
	if r.settled[checkpoint] {
		r.t.Fatalf("checkpoint %d is settled twice", checkpoint)
	}
	r.settled[checkpoint] = true
}

func (r *randomRun) deliver(channel uint32) *barrier.Actions {
	ch := r.channels[channel]
	m := ch.queue[0]
	ch.queue = ch.queue[1:]
	switch m.kind {
	case 'B':
		ch.passed, ch.dataBehind = m.checkpoint, false
		return r.gate.Barrier(0, channel, &messages.Barrier{Checkpoint: m.checkpoint})
	case 'C':
		return r.gate.Cancel(0, channel, m.checkpoint)
	case 'E':
		ch.ended, ch.dataBehind = true, false
		delete(r.blocked, channel)
		return r.gate.EndOfPartition(0, channel)
	}
	ch.dataBehind = !ch.ended && ch.passed != 0
	return nil
}

// A checkpoint costs no allocation once the gate is warm, however many channels
// there are, and the options of the first barrier come out with the trigger.
func TestNoAllocation(t *testing.T) {
	for name, create := range map[string]func(int, bool) *barrier.Gate{
		"aligned": barrier.NewAligned, "at-least-once": barrier.NewAtLeastOnce,
	} {
		t.Run(name, func(t *testing.T) {
			const channels = 100
			gate := create(channels, true)
			options := &messages.CheckpointOptions{Type: messages.CheckpointType_CHECKPOINT}
			b := &messages.Barrier{}
			checkpoint := func() {
				b.Checkpoint++
				for c := range uint32(channels) {
					b.Options = options
					a := gate.Barrier(0, c, b)
					if (a.Trigger != nil) != (c == channels-1) {
						t.Fatalf("channel %d: trigger %v", c, a.Trigger)
					}
					if a.Trigger != nil && a.Trigger.Options != options {
						t.Fatal("the options are lost")
					}
				}
			}
			checkpoint()
			if n := testing.AllocsPerRun(100, checkpoint); n != 0 {
				t.Errorf("%v allocations per checkpoint", n)
			}
		})
	}
}

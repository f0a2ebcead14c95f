package testkit_test

import (
	"fmt"
	"time"

	"cutwater/state"
	"cutwater/stream"
	"cutwater/testkit"
)

// order is an order that should be paid within a minute.
type order struct {
	ID   string
	Paid bool
}

func orderID(o order) string { return o.ID }

// unpaid emits the id of an order that is not paid within a minute of event time.
type unpaid struct{ due *state.Value[int64] }

func newUnpaid() *unpaid { return &unpaid{} }

func (u *unpaid) Open(s *stream.States) { u.due = stream.ValueState[int64](s, "due") }

func (u *unpaid) Process(c *stream.Context[string, string], o order) error {
	if due, ok := u.due.Get(); ok {
		c.DeleteEventTimer(due)
		u.due.Clear()
	}
	if o.Paid {
		return nil
	}
	due := c.TimestampMs() + time.Minute.Milliseconds()
	u.due.Set(due)
	c.SetEventTimer(due)
	return nil
}

func (u *unpaid) OnTimer(c *stream.Context[string, string], _ stream.Timer) error {
	u.due.Clear()
	c.Emit(c.Key())
	return nil
}

// One operator under manual time. In a test, the first argument is its t, and
// Close is not needed.
func ExampleHarness() {
	h := testkit.NewHarness(testkit.Panics, func(in stream.Stream[order]) stream.Stream[string] {
		return stream.Process(stream.KeyBy(in, orderID), "unpaid", newUnpaid)
	})
	defer h.Close()
	h.Record(order{ID: "a"}, 1_000)
	h.Record(order{ID: "b"}, 2_000)
	h.Record(order{ID: "a", Paid: true}, 30_000)
	h.Watermark(61_999)
	fmt.Println("before the minute is over:", h.Output())
	h.Watermark(62_000)
	fmt.Println("after it:", h.Output())
	h.NoState() // the paid order and the reported one are forgotten
	// Output:
	// before the minute is over: []
	// after it: [{62000 b}]
}

// A snapshot goes on in a new harness, here on the other backend: whatever the
// operator needs must be in its state.
func ExampleRestoredFrom() {
	declare := func(in stream.Stream[order]) stream.Stream[string] {
		return stream.Process(stream.KeyBy(in, orderID), "unpaid", newUnpaid)
	}
	before := testkit.NewHarness(testkit.Panics, declare)
	defer before.Close()
	before.Record(order{ID: "a"}, 1_000)
	snapshot := before.Snapshot()

	after := testkit.NewHarness(testkit.Panics, declare, testkit.RestoredFrom(snapshot), testkit.OnBolt())
	defer after.Close()
	after.Watermark(61_000)
	fmt.Println(after.Values())
	// Output: [a]
}

// A topology of your own in the simulation: under each seed it must commit what it
// commits without faults. In a test, the first argument is its t.
func ExampleExactlyOnce() {
	orders := []order{{ID: "a"}, {ID: "b"}, {ID: "a", Paid: true}, {ID: "c"}}
	committed := testkit.ExactlyOnce(testkit.Panics, func(t *stream.Topology) stream.Stream[string] {
		in := stream.From(t, "orders", testkit.Records(orders), stream.EventTime(func(order) int64 { return 1_000 }, 0))
		return stream.Process(stream.KeyBy(in, orderID), "unpaid", newUnpaid)
	}, testkit.Seeds(1, 5))
	fmt.Println(committed)
	// Output: [b c]
}

// A running job: send, wait for what must come, look. Nothing sleeps.
func ExampleTap() {
	j := testkit.NewJob(testkit.Panics, "orders")
	defer j.Close()
	feed := testkit.NewFeed[order]()
	in := stream.From(j.Topology, "orders", feed.Source(), stream.EventTime(func(o order) int64 { return int64(o.ID[0]) * 10_000 }, 0))
	probe, late := testkit.Tap(j, stream.Process(stream.KeyBy(in, orderID), "unpaid", newUnpaid), "late")
	_ = late // the job would go on from here

	j.Start()
	feed.Send(order{ID: "A"})
	feed.Send(order{ID: "z"}) // much later: event time passes the minute
	fmt.Println(probe.WaitRecords(1))
	fmt.Println("in a checkpoint:", probe.WaitCheckpoint() > 0)
	feed.End()
	j.Wait()
	fmt.Println(probe.Values())
	// Output:
	// [{710000 A}]
	// in a checkpoint: true
	// [A z]
}

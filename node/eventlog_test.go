package node

import (
	"context"
	"testing"

	"cutwater/protocol/job"
)

// The log keeps the newest events and their numbers; who follows gets each of the
// others once, in order, until the log is closed.
func TestEventLog(t *testing.T) {
	m := &Member{events: newEventLog()}
	for range 3*maxEvents + 7 {
		m.events.add(LoggedEvent{Event: job.Stale{What: "it"}})
	}
	const last = 3*maxEvents + 7
	want, n := uint64(last-maxEvents+1), 0
	for e := range m.Events(t.Context(), 0, false) {
		if e.Number != want || e.Kind() != "Stale" {
			t.Fatalf("event %d of kind %s, want %d", e.Number, e.Kind(), want)
		}
		want++
		n++
	}
	if n != maxEvents {
		t.Errorf("%d events are kept, want %d", n, maxEvents)
	}
	for e := range m.Events(t.Context(), last+5, false) {
		t.Errorf("event %d is of the future", e.Number)
	}

	got, asked := make(chan uint64), make(chan struct{})
	go func() {
		defer close(got)
		close(asked)
		for e := range m.Events(context.Background(), last, true) {
			got <- e.Number
		}
	}()
	<-asked
	for i := uint64(last); i < last+3; i++ {
		if n := <-got; n != i {
			t.Errorf("followed event %d, want %d", n, i)
		}
		m.events.add(LoggedEvent{Event: job.Stale{}})
	}
	if n := <-got; n != last+3 {
		t.Errorf("followed event %d, want %d", n, last+3)
	}
	m.events.close()
	if n, open := <-got; open {
		t.Errorf("event %d came after the end", n)
	}
}

package node

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
	"time"

	"cutwater/protocol"
)

// maxEvents bounds the events that a member keeps; the oldest are forgotten.
const maxEvents = 4096

// LoggedEvent is something that happened on a node.
type LoggedEvent struct {
	// Number grows with each event of the node, from 1, without gaps.
	Number uint64
	At     time.Time
	// Node is the name of the node's start, Job the id of the job that it is about, or
	// empty.
	Node, Job string
	Event     protocol.Event
}

// Kind is the type of the event in one word, such as "StatusChanged".
func (e LoggedEvent) Kind() string {
	name := fmt.Sprintf("%T", e.Event)
	return name[strings.LastIndexByte(name, '.')+1:]
}

// eventLog keeps the newest events, and wakes those who wait for more.
type eventLog struct {
	mu     sync.Mutex
	kept   []LoggedEvent
	last   uint64
	newer  chan struct{} // closed when there is one more
	closed bool
}

func newEventLog() *eventLog { return &eventLog{newer: make(chan struct{})} }

// add numbers and keeps an event.
func (l *eventLog) add(e LoggedEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.last++
	e.Number = l.last
	if len(l.kept) == 2*maxEvents {
		l.kept = append(l.kept[:0], l.kept[maxEvents:]...)
	}
	l.kept = append(l.kept, e)
	close(l.newer)
	l.newer = make(chan struct{})
}

// close ends all waiting.
func (l *eventLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		close(l.newer)
	}
}

// since returns the events from that number on which are kept, and what is closed
// when there are more; nil when there never will be.
func (l *eventLog) since(from uint64) ([]LoggedEvent, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.last - uint64(min(len(l.kept), maxEvents)) + 1 // the oldest that is shown
	from = min(max(from, first), l.last+1)
	events := l.kept[len(l.kept)-int(l.last+1-from):]
	if l.closed {
		return append([]LoggedEvent(nil), events...), nil
	}
	return append([]LoggedEvent(nil), events...), l.newer
}

// Events yields what happened on this node from that number on, oldest first; 0 is
// all that is kept. With follow it waits for more until ctx is done or the node is
// closed.
func (m *Member) Events(ctx context.Context, from uint64, follow bool) iter.Seq[LoggedEvent] {
	return func(yield func(LoggedEvent) bool) {
		for {
			events, newer := m.events.since(from)
			for _, e := range events {
				if !yield(e) {
					return
				}
				from = e.Number + 1
			}
			if !follow || newer == nil {
				return
			}
			select {
			case <-newer:
			case <-ctx.Done():
				return
			}
		}
	}
}

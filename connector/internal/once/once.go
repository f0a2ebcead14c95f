// Package once remembers what was committed, for sinks whose target cannot say so
// itself. It lives as long as the process: after a crash a commit whose answer was
// lost is done again.
package once

import (
	"sync"

	"cutwater/messages"
)

// Log is the memory of one process. The zero value is empty.
type Log struct {
	mu   sync.Mutex
	last map[writer]position
}

// writer is who prepared; its committables come in order.
type writer struct {
	job         string
	incarnation uint64
	uid         string
	subtask     uint32
}

type position struct {
	checkpoint uint64
	ordinal    uint32
}

// Do runs commit unless it has succeeded for this committable, or a later one of
// the same writer, before. Commits of all writers run one at a time.
func (l *Log) Do(c *messages.Committable, commit func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := writer{c.GetJob(), c.GetIncarnation(), c.GetUid(), c.GetSubtask()}
	p := position{c.GetCheckpoint(), c.GetOrdinal()}
	last, known := l.last[w]
	if known && (p.checkpoint < last.checkpoint || p.checkpoint == last.checkpoint && p.ordinal <= last.ordinal) {
		return nil
	}
	if err := commit(); err != nil {
		return err
	}
	if l.last == nil {
		l.last = map[writer]position{}
	}
	l.last[w] = p
	return nil
}

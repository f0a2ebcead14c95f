package node

import (
	"context"
	"sync"

	"google.golang.org/protobuf/proto"

	"cutwater/actors/system"
	"cutwater/messages"
	"cutwater/protocol"
)

// asker asks coordinators, wherever they are, how their jobs stand. It is an actor
// because the answers are messages.
type asker struct {
	self *system.Self

	mu      sync.Mutex
	last    uint64
	waiting map[uint64]chan *messages.JobView
}

func spawnAsker(s *system.System) (*asker, error) {
	a := &asker{waiting: map[uint64]chan *messages.JobView{}}
	self, err := s.Spawn("asker", a, system.NewMailbox(0, nil))
	a.self = self
	return a, err
}

// Started implements system.Handler.
func (a *asker) Started(*system.Self) {}

// Stopped implements system.Handler.
func (a *asker) Stopped() {}

// Receive implements system.Handler: an answer goes to whoever waits for it still.
func (a *asker) Receive(m proto.Message) {
	view, ok := m.(*messages.JobView)
	if !ok {
		return
	}
	a.mu.Lock()
	answer := a.waiting[view.Query]
	delete(a.waiting, view.Query)
	a.mu.Unlock()
	if answer != nil {
		answer <- view
	}
}

// ask sends the query and waits for the answer. The query or the answer may be lost.
func (a *asker) ask(ctx context.Context, coordinator protocol.Address, q *messages.JobQuery) (*messages.JobView, error) {
	answer := make(chan *messages.JobView, 1)
	a.mu.Lock()
	a.last++
	q.Id, q.Asker = a.last, string(a.self.Address)
	a.waiting[q.Id] = answer
	a.mu.Unlock()
	a.self.Send(coordinator, q)
	select {
	case view := <-answer:
		return view, nil
	case <-ctx.Done():
		a.mu.Lock()
		delete(a.waiting, q.Id)
		a.mu.Unlock()
		return nil, ctx.Err()
	}
}

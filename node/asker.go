package node

import (
	"context"
	"sync"

	"google.golang.org/protobuf/proto"

	"cutwater/actors/system"
	"cutwater/messages"
	"cutwater/protocol"
)

// maxLastViews bounds the views of ended jobs that a node keeps; the oldest are
// forgotten.
const maxLastViews = 128

// asker asks coordinators, wherever they are, how their jobs stand, and answers for
// those of its own node that have ended. It is an actor because questions and answers
// are messages.
type asker struct {
	self *system.Self

	mu      sync.Mutex
	last    uint64
	waiting map[uint64]chan *messages.JobView
	ended   map[string]*messages.JobView // by job
	order   []string                     // of ended, the oldest first
}

// askerAddress is where the asker of a node is reached.
func askerAddress(node string) protocol.Address { return protocol.Address(node + "|asker") }

func spawnAsker(s *system.System) (*asker, error) {
	a := &asker{waiting: map[uint64]chan *messages.JobView{}, ended: map[string]*messages.JobView{}}
	self, err := s.Spawn("asker", a, system.NewMailbox(0, nil))
	a.self = self
	return a, err
}

// Started implements system.Handler.
func (a *asker) Started(*system.Self) {}

// Stopped implements system.Handler.
func (a *asker) Stopped() {}

// Receive implements system.Handler.
func (a *asker) Receive(m proto.Message) {
	switch m := m.(type) {
	case *messages.JobView:
		a.answered(m)
	case *messages.JobQuery:
		a.mu.Lock()
		view := proto.CloneOf(a.ended[m.Job])
		a.mu.Unlock()
		if view != nil {
			view.Query = m.Id
			a.self.Send(protocol.Address(m.Asker), view)
		}
	}
}

// answered gives an answer to whoever waits for it still.
func (a *asker) answered(view *messages.JobView) {
	a.mu.Lock()
	answer := a.waiting[view.Query]
	delete(a.waiting, view.Query)
	a.mu.Unlock()
	if answer != nil {
		answer <- view
	}
}

// keep remembers how a job stood when its coordinator here ended.
func (a *asker) keep(view *messages.JobView) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended[view.Job] == nil {
		if len(a.order) == maxLastViews {
			delete(a.ended, a.order[0])
			a.order = a.order[1:]
		}
		a.order = append(a.order, view.Job)
	}
	a.ended[view.Job] = view
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

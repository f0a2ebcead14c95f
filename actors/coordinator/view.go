package coordinator

import (
	"cutwater/messages"
	"cutwater/protocol"
)

// view answers a JobQuery. It is a copy in memory: people who look do not hold the
// job up.
func (c *Coordinator) view(q *messages.JobQuery) {
	c.self.Send(protocol.Address(q.Asker), c.master.View(c.self.System.Clock().NowMs(), q, c.history))
}

// lastView hands out what nobody can ask for any more.
func (c *Coordinator) lastView() {
	if c.config.LastView != nil {
		c.config.LastView(c.master.View(c.self.System.Clock().NowMs(), &messages.JobQuery{}, c.history))
	}
}

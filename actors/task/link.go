package task

import (
	"fmt"

	"cutwater/actors/system"
	"cutwater/messages"
)

// linkLost fails the task if a channel leads to that node: what was on its way may be
// lost, and the numbers of the messages would tell with the next one only. An input over
// which everything has come is not concerned; outputs end with the task.
func (t *Task) linkLost(m *messages.LinkLost) error {
	for i := range t.in.channels {
		if c := &t.in.channels[i]; !c.ended && system.NodeOf(c.route.To()) == m.Node {
			return fmt.Errorf("records from %s may be lost: %s", c.route.To(), m.Reason)
		}
	}
	for i := range t.out.channels {
		if c := &t.out.channels[i]; system.NodeOf(c.route.To()) == m.Node {
			return fmt.Errorf("records to %s may be lost: %s", c.route.To(), m.Reason)
		}
	}
	return nil
}

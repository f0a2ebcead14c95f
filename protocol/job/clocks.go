package job

import (
	"fmt"

	"cutwater/messages"
)

// Nothing is decided by comparing the clocks of two machines. People compare them all
// the same, in logs and in times of checkpoints, so they are told where clocks differ.

// skewMs is the difference that is worth a word: more than a heartbeat is under way.
const skewMs = 2000

// ClockSkewed: the wall clock of a node differs from that of the coordinator's node.
type ClockSkewed struct {
	Node string
	// AheadMs is what the node's clock is ahead; behind, if negative.
	AheadMs int64
}

// String is the event as one line.
func (e ClockSkewed) String() string {
	way, ms := "ahead of", e.AheadMs
	if ms < 0 {
		way, ms = "behind", -ms
	}
	return fmt.Sprintf("the clock of node %s is %d ms %s this node's; nothing but what people read depends on it; set it", e.Node, ms, way)
}

// compareClocks tells of a node whose clock is off, once, and again when that changes
// by as much.
func (m *Master) compareClocks(h *messages.Heartbeat) {
	ahead := h.NowMs - m.nowMs
	if h.NowMs == 0 || max(ahead-m.skewed[h.Node], m.skewed[h.Node]-ahead) < skewMs {
		return
	}
	if m.skewed == nil {
		m.skewed = make(map[string]int64)
	}
	m.skewed[h.Node] = ahead
	if ahead >= skewMs || ahead <= -skewMs {
		m.event(ClockSkewed{Node: h.Node, AheadMs: ahead})
	}
}

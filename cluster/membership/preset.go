package membership

import (
	"fmt"
	"time"

	"github.com/hashicorp/memberlist"
)

// Preset is a set of time-outs of gossip. Gossip probes one other node every probe
// interval; one that is silent is suspected, and is failed after about
// suspicion × log10(n+1) × probe interval, up to six times that if few confirm it.
// Faster is not better: a node that is busy for longer than the time-out fails too,
// and its tasks are watched by heartbeats anyway.
type Preset string

// The presets, with the interval and time-out of a probe, and what kill -9 takes to
// be told among three nodes.
const (
	// Local: one machine. 1 s, 200 ms; about 4.5 s.
	Local Preset = "local"
	// LAN: one data centre. 1 s, 500 ms; about 5.5 s.
	LAN Preset = "lan"
	// WAN: several places. 5 s, 3 s; about 30 s.
	WAN Preset = "wan"
	// Short: tests on an idle machine. 300 ms, 200 ms; about 1.5 s. It forgets the
	// dead after 1 s, where the others take half a minute or more.
	Short Preset = "short"
)

// reclaimTime is how long a start must be dead before another address may use its
// name. It matters only where a data folder was restored from a copy, since each
// start has a name of its own.
const reclaimTime = 30 * time.Second

// Gossip reaches most nodes at once and a few not at all. retransmits is enough for
// twenty nodes that join together to know each other mostly, and the exchange of the
// whole list, every pushPull, makes up for what is missing: memberlist's own 15, 30
// and 60 s are for thousands of nodes.
const retransmits = 4

var pushPull = map[Preset]time.Duration{Local: 5 * time.Second, LAN: 10 * time.Second, WAN: 30 * time.Second, Short: time.Second}

// settings returns a new configuration of gossip.
func (p Preset) settings() (*memberlist.Config, error) {
	var c *memberlist.Config
	switch p {
	case Local:
		c = memberlist.DefaultLocalConfig()
	case LAN:
		c = memberlist.DefaultLANConfig()
	case WAN:
		c = memberlist.DefaultWANConfig()
	case Short:
		c = memberlist.DefaultLocalConfig()
		c.ProbeInterval = 300 * time.Millisecond
		c.SuspicionMult = 2
		c.SuspicionMaxTimeoutMult = 3
		c.GossipInterval = 50 * time.Millisecond
		c.GossipToTheDeadTime = time.Second
	default:
		return nil, fmt.Errorf("membership: the preset %q is none of local, lan, wan, short", p)
	}
	c.RetransmitMult = retransmits
	c.PushPullInterval = pushPull[p]
	c.DeadNodeReclaimTime = reclaimTime
	return c, nil
}

package command

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cutwater/api"
	"cutwater/cluster/discovery"
	"cutwater/node"
)

// nodeJSON is an element of the array that nodes -o json prints.
type nodeJSON struct {
	Node string `json:"node"`
	// HTTP, Gossip, Control and Data are addresses, empty where they are not known.
	HTTP    string `json:"http"`
	Gossip  string `json:"gossip"`
	Control string `json:"control"`
	Data    string `json:"data"`
	Zone    string `json:"zone"`
	Version string `json:"version"`
	Voter   bool   `json:"voter"`
	Leader  bool   `json:"leader"`
	Alive   bool   `json:"alive"`
	Leaving bool   `json:"leaving"`
	Slots   int    `json:"slots"`
	// SlotsUsed are those in which tasks run.
	SlotsUsed int `json:"slots_used"`
	// Jobs are the ids of those that the node coordinates.
	Jobs []string `json:"jobs"`
	// Started is null where it is not known.
	Started stamp `json:"started"`
}

func newNodes() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "nodes",
		Short: "List the nodes of the cluster",
		Long: `List the nodes of the cluster, ordered by id: those that seem to be alive, and the
voters that do not.

A voter has a vote in the log of the cluster's metadata, of which one leads: "leader",
"voter" or "-". JOBS counts the jobs that the node coordinates.`,
		Args: cobra.NoArgs,
	}
	f := newNodeFlags(cmd)
	output := formatFlag(cmd, "the list of nodes")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		t, err := f.connect()
		if err != nil {
			return err
		}
		nodes, err := t.Nodes(cmd.Context())
		if err != nil {
			return t.fail(err)
		}
		if *output == jsonText {
			return printJSON(cmd, nodesOf(nodes))
		}
		if err := nodesTable(cmd, nodes, time.Now()); err != nil {
			return err
		}
		for _, n := range nodes {
			for _, s := range n.Sources {
				if s.Error != "" && s.Name != (discovery.Remembered{}).Name() { // the dead are in the table
					fmt.Fprintf(cmd.ErrOrStderr(), "node %s: %s\n", shortID(n.ID), node.SourceChanged{Source: s.Name, Error: s.Error})
				}
			}
		}
		return nil
	}
	return cmd
}

func nodesOf(nodes []api.Node) []nodeJSON {
	out := make([]nodeJSON, len(nodes))
	for i, n := range nodes {
		out[i] = nodeJSON{Node: n.ID, HTTP: n.HTTP, Gossip: n.Gossip, Control: n.Control, Data: n.Data, Zone: n.Zone, Version: n.Version,
			Voter: n.Voter, Leader: n.Leader, Alive: n.Alive, Leaving: n.Leaving, Slots: n.SlotsTotal, SlotsUsed: n.SlotsTotal - n.SlotsFree,
			Jobs: append([]string{}, n.Jobs...), Started: stamp(n.StartedMs)}
	}
	return out
}

func nodesTable(cmd *cobra.Command, nodes []api.Node, now time.Time) error {
	rows := make([][]string, len(nodes))
	for i, n := range nodes {
		rows[i] = []string{shortID(n.ID), n.HTTP, stateOf(n), roleOf(n), fmt.Sprintf("%d/%d", n.SlotsTotal-n.SlotsFree, n.SlotsTotal),
			strconv.Itoa(len(n.Jobs)), n.Zone, n.Version, strings.TrimSuffix(stamp(n.StartedMs).ago(now), " ago")}
	}
	return table(cmd, []string{"ID", "ADDRESS", "STATE", "ROLE", "SLOTS", "JOBS", "ZONE", "VERSION", "UPTIME"}, rows)
}

func stateOf(n api.Node) string {
	switch {
	case !n.Alive:
		return "dead"
	case n.Leaving:
		return "leaving"
	}
	return "alive"
}

func roleOf(n api.Node) string {
	switch {
	case n.Leader:
		return "leader"
	case n.Voter:
		return "voter"
	}
	return ""
}

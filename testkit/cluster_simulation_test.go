package testkit

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"cutwater/messages"
)

// clusterScenarios are the shapes that the simulation of a cluster runs, by name. Three
// nodes offer three slots or six, and two jobs want four.
func clusterScenarios() map[string]*Scenario {
	all := scenarios()
	for name, s := range all {
		if name == "more readers" {
			delete(all, name) // it needs four slots by itself
			continue
		}
		s.Cluster, s.Nodes, s.Slots = true, 3, 1
		// Long enough to be met by what takes a dispatcher seconds to notice.
		s.Topology = strings.Replace(s.Topology, "format: csv, split-size", "format: csv, rate: 300, split-size", 1)
		if name == "shuffle" || name == "increments" || s.Apart {
			s.Slots = 2
		}
	}
	return all
}

// runClusterSeed runs a scenario with the random faults of a seed; each third seed has
// disasters alone, so that the dispatchers' own mistakes are not drowned. In half of
// them nodes keep copies of state.
func runClusterSeed(s *Scenario, seed uint64) (*Run, error) {
	s.LocalRecovery = seed/2%2 == 0
	faults := RandomFaults(seed)
	if seed%3 == 0 {
		faults = Faults{UntilMs: faults.UntilMs}
	}
	r, err := s.Run(seed, faults, ClusterDisasters)
	if err == nil && r.Status != messages.JobStatus_FINISHED {
		err = fmt.Errorf("seed %d: the job ended %v: %s", seed, r.Status, r.Failure)
	}
	return r, err
}

// A job that is registered in a cluster is exact, and every invariant holds after
// every step, whoever coordinates it, leads, is lost or is cut off from whom; the same
// seed gives the same run.
func TestClusterExactlyOnceUnderFaults(t *testing.T) {
	(&simulationTest{scenarios: clusterScenarios, run: runClusterSeed, kinds: ClusterFaultKinds(), enough: 1000,
		noticed: []string{slotsMissing, coordinatorOrdered, overtaken, restoredLocally, copyGivenUp}}).test(t)
}

// Without faults a cluster runs both jobs to their end, without a restart, and one
// coordinator each: with slots for both, and for one after the other.
func TestClusterWithoutFaults(t *testing.T) {
	for name, s := range clusterScenarios() {
		t.Run(name, func(t *testing.T) {
			if testing.Verbose() && *seedFlag != 0 {
				s.Trace = os.Stdout
			}
			r, err := s.Run(max(*seedFlag, 1), Faults{}, nil)
			if err != nil || r.Status != messages.JobStatus_FINISHED || r.Restarts > 0 || r.Noticed[coordinatorOrdered] != 2 {
				t.Fatalf("%v, status %v, %d restarts, %d coordinators ordered\n%s", err, r.Status, r.Restarts, r.Noticed[coordinatorOrdered], ending(r))
			}
			t.Logf("%d steps, %d ms\n%s", r.Steps, r.ElapsedMs, table(r.Noticed))
		})
	}
}

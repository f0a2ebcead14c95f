package testkit

import (
	"strings"
	"testing"

	"cutwater/messages"
)

// A record that no restart mends ends the job as FAILED with its place, whatever else
// goes wrong meanwhile, and nothing is committed that a run without it would not have
// committed. The restart strategy is the default one, which never gives up.
func TestBadRecordEndsTheJob(t *testing.T) {
	lines := strings.SplitAfter(readings(600), "\n")
	bad := strings.Join(lines[:500], "") + "2024-01-01T00:08:19Z,k1,many\n" + strings.Join(lines[500:], "")
	for _, name := range []string{"chain", "shuffle"} {
		skipping := scenarios()[name]
		skipping.Topology = strings.Replace(skipping.Topology, "format: csv, split-size", "format: csv, malformed: skip, split-size", 1)
		skipping.Files["/job/in.csv"] = bad
		want, err := skipping.Run(0, Faults{}, nil)
		if err != nil || want.Status != messages.JobStatus_FINISHED {
			t.Fatal(name, want.Status, err)
		}
		restarts := 0
		for seed := uint64(1); seed <= 12; seed++ {
			s := scenarios()[name]
			s.Files["/job/in.csv"] = bad
			r, err := s.Run(seed, RandomFaults(seed), Disasters)
			if err != nil {
				t.Fatalf("scenario %q: %v", name, err)
			}
			if r.Status != messages.JobStatus_FAILED || !strings.Contains(r.Failure, `/job/in.csv:501 (byte`) || !strings.Contains(r.Failure, "no restart was tried") {
				t.Errorf("scenario %q, seed %d: %s: %s", name, seed, r.Status, r.Failure)
			}
			if diff := Diff(r.Rows, want.Rows); strings.Contains(diff, "surplus") {
				t.Errorf("scenario %q, seed %d: %s", name, seed, diff)
			}
			restarts += r.Restarts
		}
		if restarts == 0 {
			t.Errorf("scenario %q: no run had another failure before", name)
		}
	}
}

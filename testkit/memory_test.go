package testkit

import (
	"testing"

	"cutwater/messages"
)

// G01 (FLINK-16641, 12852, 18595): who waited for credit could not say that it had
// something to send, and all waited. Here, with no memory for channels beyond the one
// batch that each has, jobs finish, and are exact under faults.
func TestBugLog_G01_NoChannelMemory(t *testing.T) {
	seeds := 8
	if testing.Short() {
		seeds = 3
	}
	all := scenarios()
	for i, name := range names(all) {
		s := all[name]
		want, err := s.Run(0, Faults{}, nil)
		if err != nil {
			t.Fatal(name, err)
		}
		s.ChannelMemoryBytes = 1
		for seed := uint64(1 + i*seeds); seed <= uint64((i+1)*seeds); seed++ {
			for _, faults := range []Faults{{}, {LoseCredit: 0.05, SlowTask: 0.05, DropControl: 0.01}} {
				r, err := s.Run(seed, faults, nil)
				if err != nil || r.Status != messages.JobStatus_FINISHED {
					t.Fatalf("scenario %q, seed %d: %v, the job ended %v: %s", name, seed, err, r.Status, r.Failure)
				}
				if diff := Diff(r.Rows, want.Rows); diff != "" {
					t.Fatalf("scenario %q, seed %d: the committed rows differ:\n%s", name, seed, diff)
				}
			}
		}
	}
}

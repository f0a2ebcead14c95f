// Package metadatatest is what every metadata store must pass.
package metadatatest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"cutwater/cluster/metadata"
	"cutwater/messages"
)

// Job is the id that the suite uses.
const Job = "000000000000000000000000000000aa"

// Commands that tests need most.

// Register puts the job on record.
func Register(job string) *messages.MetadataCommand {
	return &messages.MetadataCommand{Command: &messages.MetadataCommand_RegisterJob{RegisterJob: &messages.RegisterJob{
		Job: job, Name: "test", Graph: &messages.JobGraph{Name: "test"}, AtMs: 1}}}
}

// StartEpoch makes the asker its coordinator.
func StartEpoch(job string) *messages.MetadataCommand {
	return &messages.MetadataCommand{Command: &messages.MetadataCommand_StartEpoch{StartEpoch: &messages.StartEpoch{Job: job}}}
}

// Allocate takes a checkpoint id.
func Allocate(job string, epoch uint64) *messages.MetadataCommand {
	return &messages.MetadataCommand{Command: &messages.MetadataCommand_AllocateCheckpointId{
		AllocateCheckpointId: &messages.AllocateCheckpointId{Job: job, Epoch: epoch}}}
}

// Complete records a completion.
func Complete(job string, epoch, checkpoint uint64) *messages.MetadataCommand {
	return &messages.MetadataCommand{Command: &messages.MetadataCommand_RecordCompletion{RecordCompletion: &messages.RecordCompletion{
		Job: job, Epoch: epoch, Checkpoint: &messages.CompletedCheckpoint{Checkpoint: checkpoint, Epoch: epoch, MetadataHash: checkpoint}}}}
}

// Run tests a store. Open returns an empty one; the suite closes it. Reopen, if
// not nil, returns the store again after it was closed, with what was in it.
func Run(t *testing.T, open func(t *testing.T) metadata.Store, reopen func(t *testing.T) metadata.Store) {
	// A job lives: it is registered, gets coordinators, ids and a completion, and
	// reading shows each change at once.
	t.Run("life", func(t *testing.T) {
		s := open(t)
		defer closeStore(t, s)
		if r := job(t, s, Job); r.Job != "" {
			t.Fatalf("an empty store knows %v", r)
		}
		want(t, s, Allocate(Job, 1), messages.MetadataOutcome_UNKNOWN_JOB)
		want(t, s, Register(Job), messages.MetadataOutcome_APPLIED)
		want(t, s, Register("nonsense"), messages.MetadataOutcome_REFUSED)
		want(t, s, StartEpoch(Job), messages.MetadataOutcome_APPLIED)
		if r := want(t, s, Allocate(Job, 1), messages.MetadataOutcome_APPLIED); r.Checkpoint != 1 {
			t.Fatalf("the first id is %d", r.Checkpoint)
		}
		want(t, s, Complete(Job, 1, 1), messages.MetadataOutcome_APPLIED)
		want(t, s, Complete(Job, 1, 1), messages.MetadataOutcome_ALREADY_RECORDED)
		if r := want(t, s, StartEpoch(Job), messages.MetadataOutcome_APPLIED); r.Epoch != 2 {
			t.Fatalf("the second epoch is %d", r.Epoch)
		}
		want(t, s, Allocate(Job, 1), messages.MetadataOutcome_STALE_EPOCH)
		r := job(t, s, Job)
		if r.Epoch != 2 || r.LastCheckpoint != 1 || len(r.Completed) != 1 || r.Completed[0].Checkpoint != 1 {
			t.Fatalf("the record is %v", r)
		}
	})

	// What is read belongs to the reader.
	t.Run("copies", func(t *testing.T) {
		s := open(t)
		defer closeStore(t, s)
		want(t, s, Register(Job), messages.MetadataOutcome_APPLIED)
		job(t, s, Job).Graph.Name = "changed"
		all, err := s.Jobs(context.Background())
		if err != nil || len(all) != 1 {
			t.Fatalf("jobs: %v, %v", all, err)
		}
		all[0].Graph.Name = "changed"
		if name := job(t, s, Job).Graph.Name; name != "test" {
			t.Fatalf("a reader changed the store: %q", name)
		}
	})

	// Commands proposed at the same time are applied one after the other: every
	// id is given out once, and none is lost.
	t.Run("concurrent", func(t *testing.T) {
		s := open(t)
		defer closeStore(t, s)
		want(t, s, Register(Job), messages.MetadataOutcome_APPLIED)
		want(t, s, StartEpoch(Job), messages.MetadataOutcome_APPLIED)
		const proposers, each = 8, 25
		ids := make(chan uint64, proposers*each)
		var wg sync.WaitGroup
		for range proposers {
			wg.Go(func() {
				last := uint64(0)
				for range each {
					r, err := s.Propose(context.Background(), Allocate(Job, 1))
					if err != nil || r.Outcome != messages.MetadataOutcome_APPLIED || r.Checkpoint <= last {
						t.Errorf("allocate after %d: %v, %v", last, r, err)
						return
					}
					last = r.Checkpoint
					ids <- r.Checkpoint
				}
			})
		}
		wg.Wait()
		close(ids)
		seen := map[uint64]bool{}
		for id := range ids {
			if seen[id] || id == 0 || id > proposers*each {
				t.Fatalf("id %d was given out twice, or is out of range", id)
			}
			seen[id] = true
		}
		if len(seen) != proposers*each {
			t.Fatalf("%d ids were given out", len(seen))
		}
	})

	// How jobs stand is read from a revision on.
	t.Run("standing", func(t *testing.T) {
		s := open(t)
		defer closeStore(t, s)
		for _, n := range []int{2, 1} {
			want(t, s, Register(fmt.Sprintf("%032x", n)), messages.MetadataOutcome_APPLIED)
		}
		all, revision, err := s.Standing(context.Background(), 0)
		if err != nil || len(all) != 2 || all[0].Job != fmt.Sprintf("%032x", 1) || all[0].Graph != nil {
			t.Fatalf("the jobs stand as %v, %v", all, err)
		}
		want(t, s, StartEpoch(fmt.Sprintf("%032x", 2)), messages.MetadataOutcome_APPLIED)
		changed, next, err := s.Standing(context.Background(), revision)
		if err != nil || len(changed) != 1 || changed[0].Epoch != 1 || next <= revision {
			t.Fatalf("changed since %d are %v at %d, %v", revision, changed, next, err)
		}
		if changed, _, err = s.Standing(context.Background(), next); err != nil || len(changed) != 0 {
			t.Fatalf("changed since %d are %v, %v", next, changed, err)
		}
	})

	// Jobs are listed in the order of their ids.
	t.Run("list", func(t *testing.T) {
		s := open(t)
		defer closeStore(t, s)
		for _, n := range []int{3, 1, 2} {
			want(t, s, Register(fmt.Sprintf("%032x", n)), messages.MetadataOutcome_APPLIED)
		}
		all, err := s.Jobs(context.Background())
		if err != nil || len(all) != 3 {
			t.Fatalf("jobs: %v, %v", all, err)
		}
		for i, r := range all {
			if r.Job != fmt.Sprintf("%032x", i+1) {
				t.Fatalf("job %d is %s", i, r.Job)
			}
		}
	})

	// A closed store says so, and closing twice is no error.
	t.Run("closed", func(t *testing.T) {
		s := open(t)
		closeStore(t, s)
		closeStore(t, s)
		if _, err := s.Propose(context.Background(), Register(Job)); !errors.Is(err, metadata.ErrClosed) {
			t.Errorf("Propose after Close: %v", err)
		}
		if _, err := s.Job(context.Background(), Job); !errors.Is(err, metadata.ErrClosed) {
			t.Errorf("Job after Close: %v", err)
		}
		if _, err := s.Jobs(context.Background()); !errors.Is(err, metadata.ErrClosed) {
			t.Errorf("Jobs after Close: %v", err)
		}
	})

	if reopen == nil {
		return
	}

	// What was answered is there after a restart, and goes on from there.
	t.Run("reopen", func(t *testing.T) {
		s := open(t)
		want(t, s, Register(Job), messages.MetadataOutcome_APPLIED)
		for n := uint64(1); n <= 40; n++ {
			if r := want(t, s, StartEpoch(Job), messages.MetadataOutcome_APPLIED); r.Epoch != n {
				t.Fatalf("epoch %d after %d restarts", r.Epoch, n-1)
			}
			r := want(t, s, Allocate(Job, n), messages.MetadataOutcome_APPLIED)
			if r.Checkpoint != n {
				t.Fatalf("id %d after %d restarts", r.Checkpoint, n-1)
			}
			want(t, s, Complete(Job, n, n), messages.MetadataOutcome_APPLIED)
			closeStore(t, s)
			s = reopen(t)
			if r := job(t, s, Job); r.Epoch != n || len(r.Completed) != int(n) {
				t.Fatalf("after restart %d the record is %v", n, r)
			}
		}
		closeStore(t, s)
	})
}

func want(t *testing.T, s metadata.Store, c *messages.MetadataCommand, outcome messages.MetadataOutcome) *messages.MetadataResult {
	t.Helper()
	r, err := s.Propose(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	if r.Outcome != outcome {
		t.Fatalf("%v answered %s (%s), not %s", c, r.Outcome, r.Failure, outcome)
	}
	return r
}

func job(t *testing.T, s metadata.Store, id string) *messages.JobRecord {
	t.Helper()
	r, err := s.Job(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func closeStore(t *testing.T, s metadata.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

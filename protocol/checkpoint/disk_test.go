package checkpoint_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"cutwater/messages"
)

// modelDisk is the checkpoint directory of the model: files, and for each checkpoint
// what its `_metadata` says. Nothing that is deleted comes back.
type modelDisk struct {
	writers   map[string]*messages.Fence // of files that are there
	deleted   map[string]bool
	published map[uint64]*messages.CheckpointMetadata
	sweeps    []*modelSweep
}

func newModelDisk() modelDisk {
	return modelDisk{writers: map[string]*messages.Fence{}, deleted: map[string]bool{}, published: map[uint64]*messages.CheckpointMetadata{}}
}

// names returns the files that a checkpoint refers to.
func (d *modelDisk) names(id uint64) (files []string) {
	for _, o := range d.published[id].GetOperators() {
		for _, e := range o.Subtasks {
			for _, g := range e.State.GetKeyed().GetSegments() {
				files = append(files, g.Handle.GetFile().Path)
			}
		}
	}
	return files
}

// write makes the files that are new.
func (d *modelDisk) write(task *modelTask, files []string) {
	for _, f := range files {
		if d.writers[f] == nil && !d.deleted[f] {
			d.writers[f] = task.fence
		}
	}
}

func (d *modelDisk) remove(file string) {
	delete(d.writers, file)
	d.deleted[file] = true
}

// removeCheckpoint deletes a checkpoint's own directory.
func (d *modelDisk) removeCheckpoint(id uint64) {
	delete(d.published, id)
	for f := range d.writers {
		if strings.HasPrefix(f, directory(id)) {
			d.remove(f)
		}
	}
}

func directory(id uint64) string { return fmt.Sprintf("chk-%d/", id) }

// check holds what is on record to what is on the disk.
func (m *model) check() {
	for _, id := range slices.Sorted(maps.Keys(m.stored)) {
		if m.disk.published[id] == nil {
			m.t.Fatalf("checkpoint %d is recorded, but its metadata was deleted", id)
		}
		for _, f := range m.disk.names(id) {
			if m.disk.deleted[f] {
				m.t.Fatalf("checkpoint %d is recorded, but its file %s was deleted", id, f)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(m.proposed)) {
		for _, f := range m.disk.names(id) {
			if m.disk.deleted[f] {
				m.t.Fatalf("checkpoint %d may be recorded with %s, which was deleted", id, f)
			}
		}
	}
}

// discard deletes at once. No later moment can be worse: what nothing names now,
// nothing may name from now on.
func (m *model) discard(d *messages.DiscardState) {
	if m.stored[d.Checkpoint] != nil || m.proposed[d.Checkpoint] {
		m.t.Fatalf("the directory of checkpoint %d is deleted, but it is recorded or may be", d.Checkpoint)
	}
	for _, h := range d.Handles {
		m.disk.remove(h.GetFile().Path)
	}
	if d.Checkpoint != 0 {
		m.disk.removeCheckpoint(d.Checkpoint)
	}
}

// modelSweep is what the store does when it is asked to sweep: it lists the
// checkpoints, reads what they name, and deletes; anything may happen in between. It
// outlives the coordinator that asked.
type modelSweep struct {
	task   *messages.SweepCheckpoints
	listed []uint64
	spared map[string]bool
	dead   []uint64
	steps  int
}

// sweep lets one of the sweeps take its next step, unless it fails.
func (m *model) sweep() {
	if n := len(m.disk.sweeps); n > 0 {
		m.sweepStep(m.r.IntN(n), m.chance(20))
	}
}

func (m *model) sweepStep(i int, fails bool) {
	if fails || m.disk.sweeps[i].step(&m.disk) {
		m.disk.sweeps = slices.Delete(m.disk.sweeps, i, i+1)
	}
	m.check()
}

// step reports whether it was the last.
func (s *modelSweep) step(d *modelDisk) bool {
	s.steps++
	switch s.steps {
	case 1:
		s.list(d)
	case 2:
		s.read(d)
	default:
		s.delete(d)
		return true
	}
	return false
}

func (s *modelSweep) list(d *modelDisk) {
	there := map[uint64]bool{}
	for id := range d.published {
		there[id] = true
	}
	for f := range d.writers {
		if strings.HasPrefix(f, "chk-") {
			there[createdBy(f)] = true
		}
	}
	s.listed = slices.Sorted(maps.Keys(there))
}

func (s *modelSweep) read(d *modelDisk) {
	s.spared = map[string]bool{}
	for _, h := range s.task.Shared {
		s.spared[h.GetFile().Path] = true
	}
	for _, id := range s.listed {
		if id <= s.task.Newest && !slices.Contains(s.task.Keep, id) {
			s.dead = append(s.dead, id)
			continue
		}
		for _, f := range d.names(id) {
			s.spared[f] = true
		}
	}
}

func (s *modelSweep) delete(d *modelDisk) {
	for _, id := range s.dead {
		d.removeCheckpoint(id)
	}
	for f, by := range d.writers {
		earlier := by.Epoch < s.task.Fence.Epoch || by.Epoch == s.task.Fence.Epoch && by.Attempt < s.task.Fence.Attempt
		if strings.HasPrefix(f, "shared/") && earlier && !s.spared[f] {
			d.remove(f)
		}
	}
}

// die is a crash of the coordinator. What was under way is done, each piece if so
// decided; then the next one takes its epoch, and no command of this one is applied.
func (m *model) die(done func() bool) {
	for _, op := range slices.Sorted(maps.Keys(m.work)) {
		if !done() {
			continue
		}
		switch w := m.work[op].(type) {
		case *messages.Propose:
			m.apply(w.Command)
		case *messages.WriteMetadata:
			m.disk.published[w.Metadata.Checkpoint] = w.Metadata
		}
	}
	m.lost = m.requests
	m.check()
	m.start()
}

// restored tells a coordinator of what is on record. It could read the newest; of
// the others a bad moment of the disk may have kept some from it.
func (m *model) restored() {
	known := slices.Sorted(maps.Keys(m.stored))
	for i, id := range known {
		read := m.disk.published[id]
		if i < len(known)-1 && m.unread(id) {
			read = nil
		}
		m.c.Restored(m.stored[id], read)
	}
}

// leavesNothing: the sweep at the end of a job that keeps no checkpoint takes every
// file, whoever left it. Savepoints are their users'.
func (m *model) leavesNothing() {
	last := &modelSweep{task: m.c.SweepBefore(m.attempt() + 1)}
	for !last.step(&m.disk) {
	}
	m.check()
	for _, f := range slices.Sorted(maps.Keys(m.disk.writers)) {
		if !strings.HasPrefix(f, "/sp/") {
			m.t.Fatalf("the job has ended and left %s behind", f)
		}
	}
}

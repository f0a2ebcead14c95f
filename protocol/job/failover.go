package job

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/protocol"
)

// A task that fails takes only its region with it (Flink:
// RestartPipelinedRegionFailoverStrategy). The phases are those of a restart of the
// whole job, and what is said there holds for the failed regions alone: they stop, a
// completion whose outcome is outstanding is waited for, the restart strategy is asked,
// they restore the newest completed checkpoint and are deployed under a new attempt
// number. The other tasks go on processing all the while, without checkpoints.
//
//  1. One more region that fails meanwhile is stopped, too, and all of them begin again
//     together. Those that were deployed before it failed go on.
//  2. The enumerators go on. What a restarted reader got behind the restored checkpoint
//     returns to them ([split.Enumerator.Reset]).
//  3. The master hooks are of the whole job, and are not called.
//  4. The whole job restarts where all its regions have failed, where the failure is
//     not a task's, while it is being stopped with a savepoint, for which tasks may have
//     ended their input already, when what was to restart its regions fails, and where
//     they could complete no checkpoint any more: see torn.

// failTask ends the region of a task that has failed, or the whole attempt.
func (m *Master) failTask(e *execution, err error) {
	if m.phase == stopping && m.failed == nil {
		return // it ends already
	}
	if !m.mayRestartAlone(err) {
		m.fail(err)
		return
	}
	if m.failed == nil {
		m.failed = make([]bool, m.regions.count)
	}
	m.failed[m.regions.of[e.index]] = true
	if !slices.Contains(m.failed, false) {
		m.fail(err)
		return
	}
	m.failure = err
	m.setStatus(messages.JobStatus_RESTARTING, "")
	m.event(RegionFailed{Tasks: m.failedTasks(), Of: len(m.tasks), Cause: err.Error()})
	if m.phase == waiting {
		m.disarm(restartTimer)
	}
	m.phase, m.sinceMs, m.target = stopping, m.elapsedMs, messages.JobStatus_RESTARTING
	m.reads, m.assignment, m.endOfData, m.finalDue = nil, nil, false, false
	m.take(m.coordinator.Failover(m.nowMs))
	for _, other := range m.tasks {
		if m.stops(other) && !other.terminal() {
			m.cancelTask(other)
		}
	}
}

// mayRestartAlone reports whether the region of a task that failed for this reason may
// restart while others go on.
func (m *Master) mayRestartAlone(err error) bool {
	return m.regions.count > 1 && !m.stopAsked && !noRestart(err) && m.phase != suspending && m.live()
}

// falls reports whether the task is of a failed region.
func (m *Master) falls(e *execution) bool { return m.failed != nil && m.failed[m.regions.of[e.index]] }

// stops reports whether the task is to end: it is cancelled until it has.
func (m *Master) stops(e *execution) bool {
	return m.phase == stopping && (m.failed == nil || m.falls(e))
}

// failedTasks counts the tasks of the failed regions.
func (m *Master) failedTasks() (n int) {
	for _, e := range m.tasks {
		if m.falls(e) {
			n++
		}
	}
	return n
}

// restoreRegions prepares the failed regions from a checkpoint, nil for none.
func (m *Master) restoreRegions(loaded *messages.CheckpointLoaded) {
	m.keepUnions(loaded.GetMetadata())
	if err := m.torn(); err != nil {
		m.fail(err)
		return
	}
	plan := m.plan
	if err := m.divide(loaded); err != nil {
		m.refuse(err)
		return
	}
	// The same graph and a checkpoint of this plan give this plan again, and the tasks
	// that run know no other.
	protocol.Assert(proto.Equal(plan, m.plan), "the plan changed while tasks of it run")
	m.plan = plan
	restored := loaded.GetMetadata().GetCheckpoint()
	going := 0
	for _, e := range m.tasks {
		if !e.terminal() {
			going++
		}
	}
	if loaded == nil {
		m.event(StartingEmpty{Tasks: m.failedTasks(), Of: len(m.tasks), Going: going})
	} else {
		m.event(Restoring{Checkpoint: restored, Dropped: m.assignment.Dropped, Holds: uids(loaded.Metadata),
			Tasks: m.failedTasks(), Of: len(m.tasks), Going: going})
	}
	for _, s := range m.sources {
		for _, e := range m.tasks {
			if e.vertex == s.vertex && m.falls(e) {
				s.reset(int(e.task.Subtask), restored)
			}
		}
	}
	m.acquire()
}

// keepUnions says which vertices keep union lists in a checkpoint. Each subtask has a
// share for all.
func (m *Master) keepUnions(metadata *messages.CheckpointMetadata) {
	m.unions = make([]bool, len(m.plan.Vertices))
	for _, o := range metadata.GetOperators() {
		if slices.ContainsFunc(o.Subtasks, func(s *messages.SubtaskEntry) bool { return s.State.GetHasUnionList() }) {
			for i, v := range m.plan.Vertices {
				m.unions[i] = m.unions[i] || slices.Contains(v.Operators, o.Uid)
			}
		}
	}
}

// torn is an error if tasks of a vertex that keeps a union list restart, or have
// restarted, from a checkpoint behind which others have finished. Those take part in no
// checkpoint any more, so that each would be refused for lack of their share, and the
// restarted ones would never finish, which they do only behind one.
func (m *Master) torn() error {
	newest := m.coordinator.Latest().GetCheckpoint()
	for i, keeps := range m.unions {
		if !keeps {
			continue
		}
		finishes, restarts := false, false
		for _, e := range m.tasks {
			switch restarted := e.deploy.Regional && e.deploy.Restore.GetCheckpoint() == newest; {
			case e.vertex != i:
			case m.falls(e), restarted && !e.terminal():
				restarts = true
			case finished(e):
				finishes = true
			}
		}
		if finishes && restarts {
			return fmt.Errorf("%w; all tasks restart, since vertex %s keeps a union list and part of its tasks have finished", m.failure, m.plan.Vertices[i].Id)
		}
	}
	return nil
}

// waiting says what the job waits for, and that it is a part of it that does.
func (m *Master) waiting(nowMs int64) string {
	why := m.waitsFor(nowMs)
	if m.failed != nil && why != "" {
		return fmt.Sprintf("%d of %d tasks restart: %s", m.failedTasks(), len(m.tasks), why)
	}
	return why
}

// occupied is where tasks go on while others restart: those stay, and whoever shares
// their slots comes to them.
func (m *Master) occupied() places {
	if m.failed == nil {
		return nil
	}
	p := make(places)
	for _, e := range m.tasks {
		if !e.terminal() {
			p[e.task.Subtask] = e.node
		}
	}
	return p
}

// place returns where the subtasks of the next attempt are to be.
func (m *Master) place() (places, error) {
	return place(m.plan, m.config.Nodes, m.placed, m.occupied())
}

// enoughSlots reports whether all of them find a place.
func (m *Master) enoughSlots() bool {
	_, err := m.place()
	return err == nil
}

// oldest is the oldest attempt that has tasks.
func (m *Master) oldest() uint32 {
	oldest := m.attempt
	for _, e := range m.tasks {
		oldest = min(oldest, e.attempt())
	}
	return oldest
}

// deployment is what runs, for the record.
func (m *Master) deployment() *messages.Deployment {
	d := &messages.Deployment{Attempt: m.attempt, Slots: m.placed.slots()}
	m.placed.record(d)
	attempts, differ := make([]uint32, m.regions.count), false
	for _, e := range m.tasks {
		attempts[m.regions.of[e.index]] = e.attempt()
		differ = differ || e.attempt() != m.attempt
	}
	if differ {
		d.Attempts = attempts
	}
	if slices.ContainsFunc(m.sources, func(s *source) bool { return s.enumerator.Keeps() }) {
		d.KeptBefore = m.coordinator.Latest().GetCheckpoint() + 1
	}
	return d
}

// attemptOf is the attempt that a deployment on record says the task is of.
func attemptOf(d *messages.Deployment, r regions, task int) uint32 {
	if len(d.Attempts) == r.count && task < len(r.of) {
		return d.Attempts[r.of[task]]
	}
	return d.Attempt
}

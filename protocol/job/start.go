package job

import (
	"fmt"
	"sort"
	"strings"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/protocol/checkpoint"
	"cutwater/protocol/restore"
	"cutwater/protocol/split"
)

// claim takes an epoch. Asking again after an unknown outcome costs an epoch,
// nothing else.
func (m *Master) claim() {
	m.phase = claiming
	m.propose(&messages.MetadataCommand{Command: &messages.MetadataCommand_StartEpoch{
		StartEpoch: &messages.StartEpoch{Job: m.config.Job, Coordinator: string(m.self)},
	}})
}

func (m *Master) propose(c *messages.MetadataCommand) { m.ask(&messages.Propose{Command: c}) }

// epochStarted takes the answer of StartEpoch.
func (m *Master) epochStarted(r *messages.MetadataResult) {
	if m.phase != claiming {
		return
	}
	if r.Outcome != messages.MetadataOutcome_APPLIED {
		m.finish(messages.JobStatus_FAILED, fmt.Errorf("job %s cannot start: %s", m.config.Job, r.Failure))
		return
	}
	m.epoch, m.incarnation = r.Epoch, r.Incarnation
	if m.target != messages.JobStatus_JOB_STATUS_UNSPECIFIED {
		m.record(m.target) // cancelled or suspended in the meantime
		return
	}
	if m.config.GiveUp != nil {
		m.refuse(m.config.GiveUp)
		return
	}
	m.newCoordinator()
	m.readJob()
}

func (m *Master) readJob() {
	m.phase = reading
	m.ask(&messages.ReadJob{Job: m.config.Job})
}

func (m *Master) newCoordinator() {
	var uids []string
	for _, op := range m.config.Graph.Operators {
		if op.Source {
			uids = append(uids, op.Uid)
		}
	}
	sort.Strings(uids)
	m.coordinator = checkpoint.New(checkpoint.Config{
		Job:          m.config.Job,
		Epoch:        m.epoch,
		Incarnation:  m.incarnation,
		Settings:     m.config.Settings.Checkpointing,
		Coordinators: uids,
		Hooks:        m.config.Hooks,
		Ops:          &m.ops,
	})
}

// read is a checkpoint that is being loaded.
type read struct {
	op     uint64
	record *messages.CompletedCheckpoint // nil: path
	path   string
	loaded *messages.CheckpointLoaded // nil until answered, or if it failed
	failed string
	answer *messages.WorkDone
}

// what names it for people.
func (r *read) what() string {
	switch {
	case r.record == nil:
		return "the checkpoint at " + r.path
	case r.record.Location == "":
		return fmt.Sprintf("checkpoint %d", r.record.Checkpoint)
	}
	return fmt.Sprintf("checkpoint %d at %s", r.record.Checkpoint, r.record.Location)
}

func (m *Master) load(record *messages.CompletedCheckpoint, path string) {
	m.phase = loading
	r := &read{record: record, path: path}
	r.op = m.ask(&messages.LoadCheckpoint{Job: m.config.Job, Record: record, Path: path})
	m.reads = append(m.reads, r)
}

// recordRead takes the job's record and decides what to start from.
func (m *Master) recordRead(r *messages.JobRecord) {
	if m.phase != reading {
		return
	}
	switch {
	case r.GetJob() != m.config.Job:
		m.refuse(fmt.Errorf("job %s is not on record any more; deploy it again", m.config.Job))
		return
	case r.Epoch != m.epoch:
		m.fenced()
		return
	case m.refused != nil:
		loaded := m.refused.loaded
		m.refused = nil
		m.startFrom(loaded)
		return
	}
	m.mayBeAdopted(r)
	if m.config.Agent != "" {
		m.askForSlots() // not before it is known which ones tasks may be in
	}
	switch {
	case len(r.Completed) > 0:
		// The older ones are read too: shared state is what they all refer to.
		for _, c := range r.Completed {
			m.load(c, "")
		}
	case r.LastCompleted > 0:
		m.refuse(fmt.Errorf("job %s completed checkpoint %d, but none is kept: it will not start empty by accident; restore a path (--restore PATH), or start a new incarnation (--fresh)",
			m.config.Job, r.LastCompleted))
	case r.RestoredFrom != "":
		m.load(nil, r.RestoredFrom)
	default:
		m.informed = true
		m.startFrom(nil)
	}
}

// checkpointLoaded takes the answer of a LoadCheckpoint and goes on after the
// last.
func (m *Master) checkpointLoaded(w *messages.WorkDone) {
	open := 0
	for _, r := range m.reads {
		if r.op == w.Op {
			r.op = 0
			r.loaded, r.answer = w.GetCheckpointLoaded(), w
			if r.failed = w.Failure; r.failed == "" && r.loaded.GetMetadata() == nil {
				r.failed = "the loader returned nothing"
			}
		}
		if r.op != 0 {
			open++
		}
	}
	if m.phase != loading || open > 0 {
		return
	}
	reads := m.reads
	m.reads = nil
	newest := reads[len(reads)-1]
	if newest.failed != "" {
		m.unreadable(newest)
		return
	}
	if m.informed {
		m.coordinator.ReportRestore(m.nowMs)
	} else {
		m.informed = true
		for _, r := range reads {
			m.known(r)
		}
	}
	m.startFrom(newest.loaded)
}

// known tells the coordinator of a checkpoint from before its time. A user's path
// is not the job's to delete.
func (m *Master) known(r *read) {
	if r.failed != "" {
		m.event(Unreadable{Checkpoint: r.record.Checkpoint, Failure: r.failed})
		m.coordinator.Restored(r.record, nil)
		return
	}
	record := r.record
	if record == nil {
		md := r.loaded.Metadata
		record = &messages.CompletedCheckpoint{
			Checkpoint:  md.Checkpoint,
			Epoch:       md.Epoch,
			TimestampMs: md.TimestampMs,
			Savepoint:   md.Savepoint,
			Location:    r.path,
			Unclaimed:   true,
		}
		m.initialPath, m.initial = r.path, record.Checkpoint
	}
	m.coordinator.Restored(record, r.loaded.Metadata)
}

// unreadable: the newest checkpoint cannot be read.
func (m *Master) unreadable(r *read) {
	m.notReady(r.answer, fmt.Errorf("%s cannot be read: %s; repair it, restore another one by path (--restore PATH), or start empty (--fresh)",
		r.what(), strings.TrimSuffix(r.failed, ".")))
}

// notReady: an attempt could not be prepared. A job that ran, and one that failed
// for a reason that may pass, tries again as the restart strategy says, unless no
// restart can mend it; any other that starts must be told.
func (m *Master) notReady(w *messages.WorkDone, err error) {
	if m.takeover != nil && m.phase == discovering {
		m.leaveTasks(err.Error())
		return
	}
	m.takeover = nil // the tasks hear of it when an attempt is deployed
	if !w.NoRestart && (m.started || w.Transient) {
		m.fail(err)
		return
	}
	m.refuse(err)
}

// again starts the next attempt after a restart delay.
func (m *Master) again() {
	if !m.informed {
		m.readJob()
		return
	}
	latest := m.coordinator.Latest()
	switch {
	case latest == nil:
		m.startEmpty()
	case m.initialPath != "" && latest.Checkpoint == m.initial && latest.Unclaimed:
		m.load(nil, m.initialPath)
	default:
		m.load(latest, "")
	}
}

// startEmpty prepares an attempt without state.
func (m *Master) startEmpty() {
	if m.failed != nil {
		m.restoreRegions(nil)
		return
	}
	m.event(StartingEmpty{})
	if err := m.divide(nil); err != nil {
		m.refuse(err)
		return
	}
	m.resetHooks()
}

// restore prepares an attempt with the state of a checkpoint.
func (m *Master) restore(loaded *messages.CheckpointLoaded) {
	if m.failed != nil {
		m.restoreRegions(loaded)
		return
	}
	if err := m.divide(loaded); err != nil {
		m.refuse(err)
		return
	}
	m.event(Restoring{Checkpoint: loaded.Metadata.Checkpoint, Dropped: m.assignment.Dropped, Holds: uids(loaded.Metadata)})
	m.restoreHooks(loaded.Metadata)
}

// divide makes the plan, and gives its tasks their shares of a checkpoint, nil for none.
func (m *Master) divide(loaded *messages.CheckpointLoaded) (err error) {
	graph, assignment := m.config.Graph, (*restore.Assignment)(nil)
	if loaded != nil {
		if graph, err = restore.Adopt(graph, loaded.Metadata); err != nil {
			return err
		}
	}
	plan, err := Plan(graph)
	if err != nil {
		return err
	}
	if loaded != nil {
		assignment, err = restore.Assign(restore.Input{Loaded: loaded, Graph: graph, Plan: plan, Dropped: m.config.Settings.DroppedState})
		if err != nil {
			return err
		}
	}
	m.plan, m.assignment = plan, assignment
	return nil
}

// uids are those that a checkpoint knows: of operators, and of master hooks.
func uids(metadata *messages.CheckpointMetadata) (known []string) {
	for _, op := range metadata.GetOperators() {
		known = append(known, op.Uid)
	}
	for _, s := range metadata.GetMasterStates() {
		known = append(known, s.Hook)
	}
	return known
}

// prepareSources makes the enumerators anew and lets those discover that were
// not in the checkpoint. Then the attempt needs slots.
func (m *Master) prepareSources() {
	a := m.assignment
	m.phase = discovering
	m.sources = nil
	for i, v := range m.plan.Vertices {
		if !v.Source {
			continue
		}
		uid := v.Operators[0]
		s := newSource(uid, i, int(v.Parallelism))
		if a != nil {
			for _, c := range a.Coordinators {
				if c.Uid != uid {
					continue
				}
				state := &messages.EnumeratorState{}
				if err := proto.Unmarshal(c.State, state); err != nil {
					m.refuse(fmt.Errorf("the progress of source %q in the checkpoint cannot be decoded: %w; restore another checkpoint by path (--restore PATH)", uid, err))
					return
				}
				s.enumerator.Restore(state)
			}
			if a.Vertices[i].Finished {
				s.enumerator.Restore(&messages.EnumeratorState{Discovered: true})
			}
		}
		s.enumerator.Behind(m.coordinator.Latest().GetCheckpoint())
		m.sources = append(m.sources, s)
	}
	open := false
	for _, s := range m.sources {
		if s.enumerator.NeedsDiscovery() {
			open = true
			m.ask(&messages.DiscoverSplits{Uid: s.uid, Parallelism: uint32(len(s.held))})
		}
	}
	if !open {
		m.sourcesReady()
	}
}

// splitsDiscovered takes the answer of a DiscoverSplits and goes on after the
// last.
func (m *Master) splitsDiscovered(uid string, w *messages.WorkDone) {
	if m.phase != discovering {
		return
	}
	if w.Failure != "" {
		m.notReady(w, fmt.Errorf("source %q cannot list its input: %s", uid, w.Failure))
		return
	}
	open := false
	for _, s := range m.sources {
		if s.uid == uid {
			s.enumerator.Discovered(w.GetSplitsDiscovered())
		}
		open = open || s.enumerator.NeedsDiscovery()
	}
	if !open {
		m.sourcesReady()
	}
}

// sourcesReady goes on when all splits are known.
func (m *Master) sourcesReady() {
	if m.takeover != nil {
		m.adopt()
		return
	}
	m.acquire()
}

func newSource(uid string, vertex, parallelism int) *source {
	return &source{
		uid:         uid,
		vertex:      vertex,
		enumerator:  split.New(uid, parallelism),
		gate:        checkpoint.NewEventGate(parallelism),
		held:        make([]uint64, parallelism),
		unconfirmed: make([]*messages.SplitAssignment, parallelism),
	}
}

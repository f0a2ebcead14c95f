package metadata

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/protocol"
)

// Machine is the metadata of all jobs. The zero value is empty and ready. It is
// not safe for concurrent use; the store that owns the log serialises it.
type Machine struct {
	index uint64
	jobs  []*messages.JobRecord // ordered by job id

	// stood is the index of the command that last changed how a job stands, by job. It
	// is no part of the state: one that is not in it is as old as the snapshot.
	stood    map[string]uint64
	restored uint64 // the index of the snapshot

	clusterID string // empty until FoundCluster
	yieldedTo string // empty until YieldCluster

	supersedes []string // see Supersede
}

// Index returns the index of the last applied command, 0 at first.
func (m *Machine) Index() uint64 { return m.index }

// Apply runs the command at index, which must be the one after the last, and
// returns what became of it. The result depends only on the commands so far.
func (m *Machine) Apply(index uint64, command *messages.MetadataCommand) *messages.MetadataResult {
	protocol.Assert(index == m.index+1, "command %d was applied after command %d", index, m.index)
	m.index = index
	result := m.apply(command)
	result.Index = index
	return result
}

func (m *Machine) apply(command *messages.MetadataCommand) *messages.MetadataResult {
	switch c := command.GetCommand().(type) {
	case *messages.MetadataCommand_RegisterJob:
		return m.registerJob(c.RegisterJob)
	case *messages.MetadataCommand_StartEpoch:
		return m.startEpoch(c.StartEpoch)
	case *messages.MetadataCommand_AllocateCheckpointId:
		return m.allocate(c.AllocateCheckpointId)
	case *messages.MetadataCommand_RecordCompletion:
		return m.recordCompletion(c.RecordCompletion)
	case *messages.MetadataCommand_ForgetCheckpoints:
		return m.forget(c.ForgetCheckpoints)
	case *messages.MetadataCommand_SetJobStatus:
		return m.setStatus(c.SetJobStatus)
	case *messages.MetadataCommand_FoundCluster:
		return m.foundCluster(c.FoundCluster)
	case *messages.MetadataCommand_YieldCluster:
		return m.yieldCluster(c.YieldCluster)
	}
	return refused("the metadata command is empty or from a newer version of the program; update this node")
}

// Job returns a copy of the job's record, or nil.
func (m *Machine) Job(job string) *messages.JobRecord {
	if r := m.find(job); r != nil {
		return proto.CloneOf(r)
	}
	return nil
}

// Jobs returns copies of all records, ordered by job id.
func (m *Machine) Jobs() []*messages.JobRecord {
	records := make([]*messages.JobRecord, len(m.jobs))
	for i, r := range m.jobs {
		records[i] = proto.CloneOf(r)
	}
	return records
}

// Standing returns how those jobs stand that changed in this behind the command since,
// ordered by job id: copies of the records with the epoch, the coordinator, the status
// and the deployment alone. 0 returns all.
func (m *Machine) Standing(since uint64) (records []*messages.JobRecord) {
	for _, r := range m.jobs {
		if since == 0 || m.stoodAt(r.Job) > since {
			records = append(records, &messages.JobRecord{Job: r.Job, Epoch: r.Epoch, Coordinator: r.Coordinator, Status: r.Status,
				Deployment: proto.CloneOf(r.Deployment)})
		}
	}
	return records
}

func (m *Machine) stoodAt(job string) uint64 { return max(m.stood[job], m.restored) }

// stands notes that the running command changes how a job stands.
func (m *Machine) stands(job string) {
	if m.stood == nil {
		m.stood = make(map[string]uint64)
	}
	m.stood[job] = m.index
}

// Snapshot returns a copy of the whole state.
func (m *Machine) Snapshot() *messages.MetadataSnapshot {
	return &messages.MetadataSnapshot{Index: m.index, Jobs: m.Jobs(), ClusterId: m.clusterID, YieldedTo: m.yieldedTo,
		Supersedes: slices.Clone(m.supersedes)}
}

// Restore replaces the state by a snapshot's, which it copies. It refuses one
// whose jobs are not in strict order, and then changes nothing.
func (m *Machine) Restore(s *messages.MetadataSnapshot) error {
	for i := 1; i < len(s.Jobs); i++ {
		if s.Jobs[i-1].Job >= s.Jobs[i].Job {
			return fmt.Errorf("the metadata snapshot at index %d lists job %s after job %s: it is damaged; take this node off and start it with an empty data folder, so that it gets a copy from the others",
				s.Index, s.Jobs[i].Job, s.Jobs[i-1].Job)
		}
	}
	s = proto.CloneOf(s)
	m.index, m.jobs, m.clusterID, m.yieldedTo, m.supersedes = s.Index, s.Jobs, s.ClusterId, s.YieldedTo, s.Supersedes
	m.stood, m.restored = nil, s.Index
	return nil
}

func compareJob(r *messages.JobRecord, job string) int {
	switch {
	case r.Job < job:
		return -1
	case r.Job > job:
		return 1
	}
	return 0
}

func (m *Machine) find(job string) *messages.JobRecord {
	if i, ok := slices.BinarySearchFunc(m.jobs, job, compareJob); ok {
		return m.jobs[i]
	}
	return nil
}

// current returns the record that a coordinator of this epoch may change, or
// what to answer it.
func (m *Machine) current(job string, epoch uint64) (*messages.JobRecord, *messages.MetadataResult) {
	r := m.find(job)
	if r == nil {
		return nil, unknownJob(job)
	}
	if epoch != r.Epoch || epoch == 0 {
		return nil, &messages.MetadataResult{
			Outcome:     messages.MetadataOutcome_STALE_EPOCH,
			Failure:     fmt.Sprintf("job %s is in epoch %d, not %d: another coordinator has it", job, r.Epoch, epoch),
			Epoch:       r.Epoch,
			Incarnation: r.Incarnation,
		}
	}
	return r, nil
}

func applied(r *messages.JobRecord) *messages.MetadataResult {
	return &messages.MetadataResult{Outcome: messages.MetadataOutcome_APPLIED, Epoch: r.Epoch, Incarnation: r.Incarnation}
}

func refused(format string, args ...any) *messages.MetadataResult {
	return &messages.MetadataResult{Outcome: messages.MetadataOutcome_REFUSED, Failure: fmt.Sprintf(format, args...)}
}

func unknownJob(job string) *messages.MetadataResult {
	return &messages.MetadataResult{
		Outcome: messages.MetadataOutcome_UNKNOWN_JOB,
		Failure: fmt.Sprintf("there is no job %q; list the jobs to see their ids", job),
	}
}

package metadata

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
)

// idLength is the length of a job id in hexadecimal digits.
const idLength = 32

// ValidJobID reports whether the id has the form of one: 32 lower-case
// hexadecimal digits.
func ValidJobID(job string) bool {
	return len(job) == idLength && strings.Trim(job, "0123456789abcdef") == ""
}

// Ended reports whether a job with this status runs no more and its coordinator
// has nothing left to do. A job that ended SUSPENDED, FAILED or CANCELED can be
// registered again; one that FINISHED cannot, save as a new incarnation.
func Ended(status messages.JobStatus) bool {
	switch status {
	case messages.JobStatus_FINISHED, messages.JobStatus_FAILED, messages.JobStatus_CANCELED, messages.JobStatus_SUSPENDED:
		return true
	}
	return false
}

// registerJob creates a job, gives an existing one its new graph and settings,
// or starts a new incarnation of it.
func (m *Machine) registerJob(c *messages.RegisterJob) *messages.MetadataResult {
	if !ValidJobID(c.Job) {
		return refused("job id %q is not 32 lower-case hexadecimal digits", c.Job)
	}
	if m.yieldedTo != "" {
		return refused("this cluster is joining cluster %s; deploy the job again when it has", m.yieldedTo)
	}
	if other := m.namesake(c); c.UniqueName && other != nil {
		return &messages.MetadataResult{Outcome: messages.MetadataOutcome_NAME_TAKEN,
			Failure: fmt.Sprintf("job %s has the name %q and is %s; cancel it first, or give this one another name", other.Job, c.Name, other.Status)}
	}
	i, found := slices.BinarySearchFunc(m.jobs, c.Job, compareJob)
	if !found {
		m.jobs = slices.Insert(m.jobs, i, &messages.JobRecord{Job: c.Job, Incarnation: 1, CreatedMs: c.AtMs, RestoredFrom: c.RestoredFrom})
		return applied(m.fill(m.jobs[i], c))
	}
	r := m.jobs[i]
	switch {
	case c.NewIncarnation:
		// The old incarnation's checkpoints stay where they are, but this one
		// starts from what it was told to. Ids go on growing; the epoch is raised,
		// so that a coordinator of the old incarnation can do nothing any more.
		r.Incarnation++
		r.Epoch++
		r.RestoredFrom = c.RestoredFrom
		r.Completed = nil
		r.LastCompleted = 0
	case c.RestoredFrom != "":
		return refused("job %s exists: to start it from %s ask for a new incarnation", c.Job, c.RestoredFrom)
	case r.Status == messages.JobStatus_FINISHED:
		return refused("job %s (%s) has finished; to run it again start a new incarnation (--fresh, or --restore PATH)", c.Job, r.Name)
	case r.LastCompleted > 0 && len(r.Completed) == 0:
		return refused("job %s (%s) ended as %s and kept no checkpoint, so it cannot resume; start a new incarnation (--fresh, or --restore PATH)",
			c.Job, r.Name, r.Status)
	}
	if c.NewIncarnation || Ended(r.Status) {
		r.Coordinator = "" // whoever had the job has nothing to do with this one
	}
	return applied(m.fill(r, c))
}

func (m *Machine) fill(r *messages.JobRecord, c *messages.RegisterJob) *messages.JobRecord {
	m.stands(r.Job)
	r.Name = c.Name
	r.Graph = proto.CloneOf(c.Graph)
	r.Settings = proto.CloneOf(c.Settings)
	r.Topology = proto.CloneOf(c.Topology)
	r.Status = messages.JobStatus_CREATED
	r.Deployment = nil
	r.Failure = ""
	r.ChangedMs = c.AtMs
	return r
}

// namesake is another job of that name that has not ended, or nil.
func (m *Machine) namesake(c *messages.RegisterJob) *messages.JobRecord {
	for _, r := range m.jobs {
		if r.Name == c.Name && r.Job != c.Job && !Ended(r.Status) {
			return r
		}
	}
	return nil
}

// startEpoch makes the asker the job's only coordinator.
func (m *Machine) startEpoch(c *messages.StartEpoch) *messages.MetadataResult {
	r := m.find(c.Job)
	switch {
	case r == nil:
		return unknownJob(c.Job)
	case Ended(r.Status):
		return refused("job %s (%s) has ended as %s; register it again to start it", c.Job, r.Name, r.Status)
	}
	m.stands(r.Job)
	r.Epoch++
	r.Coordinator = c.Coordinator
	return applied(r)
}

// setStatus records how the job stands, and while it runs, where. What has ended
// stays so.
func (m *Machine) setStatus(c *messages.SetJobStatus) *messages.MetadataResult {
	r, no := m.current(c.Job, c.Epoch)
	switch {
	case no != nil:
		return no
	case c.Status == messages.JobStatus_JOB_STATUS_UNSPECIFIED:
		return refused("the new status of job %s is missing", c.Job)
	case Ended(r.Status) && r.Status != c.Status:
		return refused("job %s has ended as %s and cannot become %s", c.Job, r.Status, c.Status)
	}
	m.stands(r.Job)
	r.Status = c.Status
	r.Deployment = nil
	if c.Status == messages.JobStatus_RUNNING {
		r.Deployment = proto.CloneOf(c.Deployment)
	}
	r.Failure = c.Failure
	r.ChangedMs = c.AtMs
	return applied(r)
}

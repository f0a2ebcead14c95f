package job

import (
	"errors"

	"cutwater/messages"
	"cutwater/messages/describe"
	"cutwater/protocol"
)

// maxExceptions is how many ends of attempts a History keeps (Flink:
// web.exception-history-size).
const maxExceptions = 16

// History is what people want to know of a Master's past and the Master itself does
// not: it decides nothing by it. Whoever steps a Master shows it the events of each
// step. It is used by one goroutine.
type History struct {
	statusMs   [messages.JobStatus_SUSPENDED + 1]int64 // 0: never
	exceptions []*messages.ExceptionView               // oldest first
	reports    map[string]*messages.TaskReport         // the last of each task, by name
	notStarted string                                  // why no checkpoint was started, since one was
	truncated  bool

	attempt    uint32 // the newest
	deployedMs int64
	tasks      map[string]*taskPast // of the tasks' own attempts, by name
}

// taskPast is what a History keeps of a task in its current attempt.
type taskPast struct {
	attempt                        uint32
	deployedMs, sinceMs            int64
	records, bytes, remainingBytes uint64
}

// NewHistory returns the history of a Master that has not started.
func NewHistory() *History { return &History{tasks: make(map[string]*taskPast)} }

// Observe takes in what the last step of the Master did.
func (h *History) Observe(m *Master, events []protocol.Event) {
	if h.statusMs[messages.JobStatus_CREATED] == 0 {
		h.statusMs[messages.JobStatus_CREATED] = m.nowMs
	}
	if m.attempt != h.attempt {
		h.attempt, h.deployedMs = m.attempt, m.nowMs
		for _, e := range m.tasks {
			h.task(e)
		}
	}
	for _, e := range events {
		h.heed(e)
		switch e := e.(type) {
		case StatusChanged:
			h.statusMs[e.To] = m.nowMs
			if e.To == messages.JobStatus_FAILING || e.To == messages.JobStatus_FAILED && e.From != messages.JobStatus_FAILING {
				h.failed(m)
			}
		case RegionFailed:
			h.failed(m)
		case TaskChanged:
			if task := m.execution(e.Task); task != nil {
				h.task(task).sinceMs = m.nowMs
			}
		}
	}
}

// Progress takes in what a source has read.
func (h *History) Progress(m *Master, p *messages.SourceProgress) {
	if e := m.sender(p.Fence, p.Task); e != nil {
		t := h.task(e)
		t.records, t.bytes, t.remainingBytes = p.Records, p.Bytes, p.RemainingBytes
	}
}

// failed enters the end of an attempt.
func (h *History) failed(m *Master) {
	if m.failure == nil {
		return
	}
	x := &messages.ExceptionView{AtMs: m.nowMs, Attempt: m.attempt, Message: describe.Error(m.failure)}
	var failed *TaskFailedError
	if errors.As(m.failure, &failed) {
		x.Node, x.Uid, x.Stack = failed.Node, failed.Failure.GetUid(), failed.Failure.GetStack()
		for _, e := range m.tasks {
			if taskName(e.task) == failed.Task {
				x.Task, x.Attempt = e.task, e.attempt()
			}
		}
	}
	if len(h.exceptions) == maxExceptions {
		h.exceptions, h.truncated = append(h.exceptions[:0], h.exceptions[1:]...), true
	}
	h.exceptions = append(h.exceptions, x)
}

// task is the past of a task in its current attempt.
func (h *History) task(e *execution) *taskPast {
	name := taskName(e.task)
	t := h.tasks[name]
	if t == nil || t.attempt != e.attempt() {
		t = &taskPast{attempt: e.attempt(), deployedMs: h.deployedMs, sinceMs: h.deployedMs}
		h.tasks[name] = t
	}
	return t
}

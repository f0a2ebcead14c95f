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
	truncated  bool

	attempt    uint32
	deployedMs int64
	tasks      map[string]*taskPast // of the attempt, by name
}

// taskPast is what a History keeps of a task of the current attempt.
type taskPast struct {
	sinceMs                        int64 // 0: since it was deployed
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
		clear(h.tasks)
	}
	for _, e := range events {
		switch e := e.(type) {
		case StatusChanged:
			h.statusMs[e.To] = m.nowMs
			if e.To == messages.JobStatus_FAILING || e.To == messages.JobStatus_FAILED && e.From != messages.JobStatus_FAILING {
				h.failed(m)
			}
		case TaskChanged:
			h.task(e.Task).sinceMs = m.nowMs
		}
	}
}

// Progress takes in what a source has read.
func (h *History) Progress(m *Master, p *messages.SourceProgress) {
	if m.current(p.Fence) && m.execution(p.Task) != nil {
		t := h.task(p.Task)
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
				x.Task = e.task
			}
		}
	}
	if len(h.exceptions) == maxExceptions {
		h.exceptions, h.truncated = append(h.exceptions[:0], h.exceptions[1:]...), true
	}
	h.exceptions = append(h.exceptions, x)
}

func (h *History) task(id *messages.TaskId) *taskPast {
	name := taskName(id)
	t := h.tasks[name]
	if t == nil {
		t = &taskPast{}
		h.tasks[name] = t
	}
	return t
}

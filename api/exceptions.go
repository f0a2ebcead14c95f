package api

import (
	"cmp"
	"strings"

	"cutwater/messages"
)

// failureClass stands where Flink names the class of an exception.
const failureClass = "cutwater.JobFailure"

// Exceptions is Flink's JobExceptionsInfoWithHistory; the first four members are for
// clients of 1.20.
type Exceptions struct {
	Root      *string           `json:"root-exception"`
	AtMs      *int64            `json:"timestamp"`
	All       []ExceptionOfTask `json:"all-exceptions"`
	Truncated bool              `json:"truncated"`
	History   ExceptionHistory  `json:"exceptionHistory"`
}

// ExceptionOfTask is Flink's ExecutionExceptionInfo.
type ExceptionOfTask struct {
	Exception   string `json:"exception"`
	Task        string `json:"task"`
	Location    string `json:"location"`
	Endpoint    string `json:"endpoint"`
	AtMs        int64  `json:"timestamp"`
	TaskManager string `json:"taskManagerId"`
}

// ExceptionHistory is Flink's JobExceptionHistory, newest first.
type ExceptionHistory struct {
	Entries   []ExceptionEntry `json:"entries"`
	Truncated bool             `json:"truncated"`
}

// ExceptionEntry is Flink's RootExceptionInfo.
type ExceptionEntry struct {
	// Name is the sentence, which is what the web page shows first.
	Name        string            `json:"exceptionName"`
	Stack       string            `json:"stacktrace"`
	AtMs        int64             `json:"timestamp"`
	Labels      map[string]string `json:"failureLabels"`
	Task        string            `json:"taskName,omitempty"`
	Endpoint    string            `json:"endpoint,omitempty"`
	TaskManager string            `json:"taskManagerId,omitempty"`
	Concurrent  []ExceptionEntry  `json:"concurrentExceptions"`
}

func (c *call) exceptions() (Exceptions, error) {
	limit, err := c.count("maxExceptions", 20)
	if err != nil {
		return Exceptions{}, err
	}
	s, err := c.job(0)
	if err != nil {
		return Exceptions{}, err
	}
	x := Exceptions{All: []ExceptionOfTask{}, Truncated: s.view.ExceptionsTruncated}
	x.History.Entries, x.History.Truncated = []ExceptionEntry{}, s.view.ExceptionsTruncated
	for i, e := range s.view.Exceptions {
		if uint64(i) == limit {
			x.Truncated, x.History.Truncated = true, true
			break
		}
		entry := exceptionEntry(s, e)
		x.History.Entries = append(x.History.Entries, entry)
		if i == 0 {
			x.Root, x.AtMs = &entry.Stack, &entry.AtMs
		}
		if entry.Task != "" {
			x.All = append(x.All, ExceptionOfTask{Exception: entry.Stack, Task: entry.Task, Location: entry.Endpoint, Endpoint: entry.Endpoint,
				AtMs: entry.AtMs, TaskManager: entry.TaskManager})
		}
	}
	return x, nil
}

func exceptionEntry(s *jobState, e *messages.ExceptionView) ExceptionEntry {
	sentence, _, _ := strings.Cut(e.Message, "\n")
	entry := ExceptionEntry{Name: cmp.Or(sentence, failureClass), Stack: e.Message, AtMs: e.AtMs, Labels: map[string]string{}, Concurrent: []ExceptionEntry{}}
	if e.Stack != "" {
		entry.Stack += "\n" + e.Stack
	}
	for _, v := range s.view.Plan.GetVertices() {
		if v.Id == e.Task.GetVertex() {
			entry.Task, entry.Endpoint, entry.TaskManager = taskName(v, e.Task.GetSubtask()), e.Node, e.Node
		}
	}
	return entry
}

package chaos

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// register is what is on record of one name: the newest job that took it.
type register struct {
	phase phase
	// job is its id; empty where the client that deployed it was not told, and nobody
	// has seen it yet.
	job string
}

type phase string

const (
	absent phase = "absent"
	living phase = "living" // created, running, being cancelled
	ended  phase = "ended"
)

// request is an operation on the register of a name.
type request struct {
	Kind kindOfRequest
	Name string
	Job  string // of cancel
}

type kindOfRequest string

const (
	deploy kindOfRequest = "deploy"
	cancel kindOfRequest = "cancel"
	list   kindOfRequest = "list"
)

// response is what the client learned.
type response struct {
	// Unknown: nothing. The operation may happen at any later time, or never.
	Unknown bool
	// Taken: a living job had the name.
	Taken bool
	// Job is the id that deploy made, or of the living job that list saw; Phase is what
	// list saw, and Ended are the ids of the jobs that have had the name. They are in no
	// order: an operation that took long may register a job that was made long before.
	Job   string
	Phase phase
	Ended []string
}

// model says what an operation may answer, and what it leaves.
var model = porcupine.NondeterministicModel{
	Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
		index := map[string]int{}
		for _, o := range history {
			name := o.Input.(request).Name
			i, ok := index[name]
			if !ok {
				i = len(parts)
				index[name] = i
				parts = append(parts, nil)
			}
			parts[i] = append(parts[i], o)
		}
		return parts
	},
	Init: func() []any { return []any{register{phase: absent}} },
	Step: func(state, input, output any) (next []any) {
		for _, r := range after(state.(register), input.(request), output.(response)) {
			next = append(next, r)
		}
		return next
	},
}

// after lists what may be on record after an operation; nothing if it cannot have
// answered so.
func after(now register, in request, out response) []register {
	switch {
	case in.Kind == deploy && out.Unknown:
		if now.phase == living {
			return []register{now}
		}
		return []register{now, {phase: living}}
	case in.Kind == deploy && out.Taken:
		if now.phase == living {
			return []register{now}
		}
	case in.Kind == deploy:
		if now.phase != living {
			return []register{{living, out.Job}}
		}
	case in.Kind == cancel:
		// The job of the name may be a later one: then this one had ended.
		switch {
		case now.phase == living && (now.job == in.Job || now.job == ""):
			return []register{{ended, in.Job}}
		case now.phase != absent || out.Unknown:
			return []register{now}
		}
	case now.phase != out.Phase:
	case now.phase == absent, now.phase == ended && slices.Contains(out.Ended, now.job):
		return []register{now}
	case now.phase == living && (now.job == out.Job || now.job == ""):
		return []register{{living, out.Job}}
	}
	return nil
}

// history is what clients did, and learned. Any goroutine may use it.
type history struct {
	mu         sync.Mutex
	begun      time.Time
	operations []porcupine.Operation
}

// now is the time of the history.
func (h *history) now() int64 { return int64(time.Since(h.begun)) }

// add notes an operation of a client that has just returned. One whose outcome is not
// known may happen at any later time.
func (h *history) add(client int, in request, called int64, out response) {
	h.mu.Lock()
	defer h.mu.Unlock()
	returned := h.now()
	if out.Unknown {
		returned = math.MaxInt64
	}
	h.operations = append(h.operations, porcupine.Operation{ClientId: client, Input: in, Call: called, Output: out, Return: returned})
}

// check is what is wrong with the history; it is written to a file then.
func (h *history) check(file string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	result := porcupine.CheckOperationsTimeout(model.ToModel(), h.operations, patience)
	if result == porcupine.Ok {
		return nil
	}
	text, err := json.MarshalIndent(h.operations, "", " ")
	if err == nil {
		err = os.WriteFile(file, text, 0o644)
	}
	return fmt.Errorf("the history of %d operations is not linearizable (%s), see %s (%v)", len(h.operations), result, file, err)
}

// The checker finds a lost registration, a stale list and a name that two jobs took,
// and allows what an operation of unknown outcome may have done.
func TestHistoryChecker(t *testing.T) {
	in := func(kind kindOfRequest, job string) request { return request{Kind: kind, Name: "a", Job: job} }
	type done struct {
		in         request
		call, back int64
		out        response
	}
	none := response{Phase: absent}
	for _, test := range []struct {
		name string
		ok   bool
		done []done
	}{
		{"deploy, list, cancel, deploy again", true, []done{
			{in(deploy, ""), 0, 1, response{Job: "1"}}, {in(deploy, ""), 2, 3, response{Taken: true}},
			{in(list, ""), 4, 5, response{Job: "1", Phase: living}}, {in(cancel, "1"), 6, 7, response{}},
			{in(list, ""), 8, 9, response{Phase: ended, Ended: []string{"1"}}}, {in(deploy, ""), 10, 11, response{Job: "2"}}}},
		{"a lost registration", false, []done{{in(deploy, ""), 0, 1, response{Job: "1"}}, {in(list, ""), 2, 3, none}}},
		{"a list during a deploy", true, []done{{in(deploy, ""), 0, 4, response{Job: "1"}}, {in(list, ""), 2, 3, none}}},
		{"two jobs of one name", false, []done{{in(deploy, ""), 0, 1, response{Job: "1"}}, {in(deploy, ""), 2, 3, response{Job: "2"}}}},
		{"a stale list", false, []done{{in(deploy, ""), 0, 1, response{Job: "1"}}, {in(cancel, "1"), 2, 3, response{}},
			{in(list, ""), 4, 5, response{Job: "1", Phase: living}}}},
		{"back in time", false, []done{{in(deploy, ""), 0, 9, response{Unknown: true}}, {in(list, ""), 2, 3, response{Job: "1", Phase: living}},
			{in(list, ""), 4, 5, none}}},
		{"an unknown deploy happens", true, []done{{in(deploy, ""), 0, math.MaxInt64, response{Unknown: true}}, {in(list, ""), 2, 3, none},
			{in(list, ""), 4, 5, response{Job: "1", Phase: living}}}},
		{"an unknown deploy never happens", true, []done{{in(deploy, ""), 0, math.MaxInt64, response{Unknown: true}}, {in(list, ""), 4, 5, none}}},
		{"an unknown cancel happens late", true, []done{{in(deploy, ""), 0, 1, response{Job: "1"}}, {in(cancel, "1"), 2, math.MaxInt64, response{Unknown: true}},
			{in(list, ""), 4, 5, response{Job: "1", Phase: living}}, {in(list, ""), 6, 7, response{Phase: ended, Ended: []string{"1"}}}}},
		{"nobody cancelled it", false, []done{{in(deploy, ""), 0, 1, response{Job: "1"}}, {in(list, ""), 6, 7, response{Phase: ended, Ended: []string{"1"}}}}},
		{"a late deploy of an earlier time", true, []done{{in(deploy, ""), 0, math.MaxInt64, response{Unknown: true}}, {in(deploy, ""), 1, 2, response{Job: "2"}},
			{in(cancel, "2"), 3, 4, response{}}, {in(list, ""), 5, 6, response{Job: "1", Phase: living, Ended: []string{"2"}}}, {in(cancel, "1"), 7, 8, response{}},
			{in(list, ""), 9, 10, response{Phase: ended, Ended: []string{"1", "2"}}}}},
		{"a forgotten job", false, []done{{in(deploy, ""), 1, 2, response{Job: "2"}}, {in(cancel, "2"), 3, 4, response{}},
			{in(list, ""), 5, 6, response{Phase: ended, Ended: []string{"1"}}}}},
	} {
		var operations []porcupine.Operation
		for i, d := range test.done {
			operations = append(operations, porcupine.Operation{ClientId: i, Input: d.in, Call: d.call, Output: d.out, Return: d.back})
		}
		if got := porcupine.CheckOperations(model.ToModel(), operations); got != test.ok {
			t.Errorf("%s: linearizable %v", test.name, got)
		}
	}
}

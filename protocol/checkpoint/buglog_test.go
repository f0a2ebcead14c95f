package checkpoint_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"cutwater/messages"
)

const periodic = "checkpoint/periodic"

// A01 (FLINK-26394, 27148): after an aborted checkpoint none was triggered any more. Here
// one is aborted behind each step of its beginning, by a step that fails, by its timeout
// and by a task; the next tick begins another, which completes.
func TestBugLog_A01_AbortedAtEveryStep(t *testing.T) {
	for _, how := range []string{"fails", "expires", "is declined"} {
		aborted := 0
		for steps := range 8 { // more than a checkpoint takes before its last acknowledgement
			m := newModel(teller{t, fmt.Sprintf("it %s behind step %d", how, steps)}, nil, &messages.CheckpointConfig{IntervalMs: 10, TimeoutMs: 50,
				NumRetained: 1, MaxConcurrent: 1, AfterTasksFinish: true, TolerableFailures: 1000})
			m.do(m.c.StartScheduler(m.nowMs, 0))
			m.fire(periodic)
			for n := range steps {
				if ops := slices.Sorted(maps.Keys(m.work)); len(ops) > 0 {
					m.answer(ops[0], 5)
				} else if n == steps-1 {
					m.acknowledge(m.tasks[0], m.lastID)
				}
			}
			switch ops := slices.Sorted(maps.Keys(m.work)); how {
			case "fails":
				if len(ops) > 0 {
					m.answer(ops[0], 0)
				}
			case "expires":
				m.nowMs += 50
				for _, key := range slices.Sorted(maps.Keys(m.timers)) {
					if key != periodic {
						m.fire(key)
					}
				}
			case "is declined":
				m.do(m.c.Step(m.nowMs, &messages.DeclineCheckpoint{Fence: m.tasks[1].fence, Task: taskID(m.tasks[1].name),
					Checkpoint: m.lastID, Reason: messages.FailureReason_CHECKPOINT_DECLINED}))
			}
			counts := m.c.Stats().Counts
			if counts.Failed+counts.Aborted == 0 {
				continue // there was nothing to abort it by
			}
			aborted++
			m.answerEverything()
			before := m.lastID
			m.nowMs += 10
			if m.timers[periodic] == 0 {
				m.t.Fatalf("no further tick is armed:\n%s", m.c)
			}
			m.fire(periodic)
			m.answerEverything()
			for _, task := range m.tasks {
				m.acknowledge(task, m.lastID)
			}
			m.answerEverything()
			if latest := m.c.Latest().GetCheckpoint(); m.lastID != before+1 || latest != m.lastID {
				m.t.Fatalf("the ids reach %d, then %d; completed is %d:\n%s", before, m.lastID, latest, m.c)
			}
		}
		if aborted < 2 {
			t.Errorf("only %d checkpoints were aborted because it %s", aborted, how)
		}
	}
}

func (m *model) answerEverything() {
	for len(m.work) > 0 {
		m.answer(slices.Sorted(maps.Keys(m.work))[0], 5)
	}
}

// A05 (FLINK-10482): a second abort made counters negative, and the statistics failed the
// job. Here aborts, ends, declines and failovers meet in a thousand random orders, and the
// counters stay what they count. Statistics are values: nothing that reads them can fail.
func TestBugLog_A05_CountersStayTrue(t *testing.T) {
	stopped := 0
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 5))
		m := newModel(teller{t, fmt.Sprintf("seed %d", seed)}, r, &messages.CheckpointConfig{IntervalMs: 10, TimeoutMs: 50, NumRetained: 1,
			MaxConcurrent: uint32(1 + r.IntN(3)), AfterTasksFinish: true, SavepointDir: "/sp", TolerableFailures: 1000})
		m.do(m.c.StartScheduler(m.nowMs, 0))
		for n := range 60 {
			if n >= 40 && r.IntN(10) == 0 {
				m.do(m.c.Shutdown(m.nowMs, messages.JobStatus_CANCELED))
				stopped++
				m.account()
				break
			}
			m.step()
			m.account()
		}
	}
	if stopped < 100 {
		t.Errorf("only %d were stopped on the way", stopped)
	}
}

// account: what began is in progress, or has ended in one way.
func (m *model) account() {
	c := m.c.Stats().Counts
	if c.InProgress < 0 || c.Completed < 0 || c.Failed < 0 || c.Aborted < 0 || c.Total != c.InProgress+c.Completed+c.Failed+c.Aborted {
		m.t.Fatalf("the counters are %+v", c)
	}
}

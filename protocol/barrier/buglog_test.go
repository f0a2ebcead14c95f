package barrier_test

import (
	"fmt"
	"strings"
	"testing"

	"cutwater/protocol/barrier"
)

// A03 (FLINK-18063): a cancel that met its barrier in another order was lost. Here, in every
// order of barriers and cancels of three channels, with the coordinator's abort before,
// between and behind them, the checkpoint ends once, nothing stays blocked, and the next
// one triggers at its last barrier.
func TestBugLog_A03_CancelInAnyOrder(t *testing.T) {
	orders := [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}
	for name, create := range map[string]func(int, bool) *barrier.Gate{"aligned": barrier.NewAligned, "at least once": barrier.NewAtLeastOnce} {
		for kinds := range 8 { // bit c: channel c brings a cancel instead of the barrier
			for _, order := range orders {
				for aborted := -1; aborted <= 3; aborted++ { // before which event; -1: never
					if kinds == 0 && aborted < 0 {
						continue // nothing is cancelled
					}
					r := &rig{t: t, gate: create(3, true), blocked: map[uint32]bool{}}
					var log []string
					play := func(event string) string {
						line := r.play(event)
						log = append(log, event+": "+line)
						return line
					}
					var first []string
					for i, channel := range order {
						if i == aborted {
							first = append(first, play("X1"))
						}
						kind := "B"
						if kinds>>channel&1 == 1 {
							kind = "C"
						}
						first = append(first, play(fmt.Sprintf("%s1@%d", kind, channel)))
					}
					if aborted == 3 {
						first = append(first, play("X1"))
					}
					ended := strings.Count(strings.Join(first, "\n"), "abort 1") + strings.Count(strings.Join(first, "\n"), "trigger 1")
					wrong := ended > 1 || ended == 0 && aborted != 0 || kinds != 0 && strings.Contains(strings.Join(first, "\n"), "trigger 1")
					wrong = wrong || len(r.blocked) > 0 || len(r.gate.Pending()) > 0
					for i, channel := range order {
						line := play(fmt.Sprintf("B2@%d", channel))
						wrong = wrong || strings.Contains(line, "trigger 2") != (i == 2)
					}
					if wrong || len(r.blocked) > 0 {
						t.Errorf("%s: blocked %v, pending %v after\n%s", name, r.blocked, r.gate.Pending(), strings.Join(log, "\n"))
					}
				}
			}
		}
	}
}

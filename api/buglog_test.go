package api_test

import (
	"slices"
	"testing"
)

// J04 (risingwave #17999): a sink stood still for days, and nobody was told. Here a commit
// that is not answered, and a task that is busy in a call of its sink, are named within
// three intervals by the job's status, an event and a metric.
func TestBugLog_J04_SinkStops(t *testing.T) {
	stands := []string{"stuck sink", "slow task"}
	for _, f := range faults {
		if !slices.Contains(stands, f.name) {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			p := plant(t, f.change...)
			f.begin(p)
			p.awaits("named", 3*interval, func(seen sight) bool {
				return seen.status == f.status && slices.Contains(seen.events, f.event) && slices.Contains(seen.metrics, f.metric)
			}, f)
		})
		stands = slices.DeleteFunc(stands, func(name string) bool { return name == f.name })
	}
	if len(stands) > 0 {
		t.Errorf("there are no faults %v", stands)
	}
}

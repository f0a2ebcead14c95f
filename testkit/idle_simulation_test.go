package testkit

import (
	"fmt"
	"strings"
	"testing"

	"cutwater/messages"
)

// idleSource is union with a second source that is silent most of the time, and later in
// event time than the first one.
const idleSource = header + `
  - uid: later
    parallelism: 1
    source: {file: {path: later.csv, format: csv, rate: 10, schema: {at: timestamp, key: string, value: int}}}
    event-time: {field: at, idleness: 30ms}
  - uid: both
    input: [readings, later]
  - uid: minutes
    input: both
    key-by: key
    window: {tumbling: 1m}
    aggregate: {n: count(), total: sum(value)}
  - uid: out
    input: minutes
    sink: {file: {path: out, format: csv}}
`

// later are rows after all of readings.
func later(n int) string {
	var b strings.Builder
	b.WriteString("at,key,value\n")
	for i := range n {
		fmt.Fprintf(&b, "2024-01-02T00:%02d:%02dZ,k%d,%d\n", i*20/60, i*20%60, i%3, i)
	}
	return b.String()
}

// A source that is idle most of the time changes no result, under each kind of
// fault, where its records come after those of the others in event time; the same
// seed gives the same run.
func TestIdleUnderFaults(t *testing.T) {
	seeds := uint64(12)
	if testing.Short() {
		seeds = 4
	}
	s := scenario(idleSource, 2, small, 2, 400)
	s.Files["/job/later.csv"] = later(20)
	r, err := s.Run(0, Faults{}, nil)
	if err != nil || r.Status != messages.JobStatus_FINISHED || len(r.Rows) == 0 {
		t.Fatalf("%v, status %v, %d rows", err, r.Status, len(r.Rows))
	}
	s.Expected = r.Rows
	for seed := uint64(1); seed <= seeds; seed++ {
		r, err := runSeed(s, seed)
		if err != nil {
			t.Fatal(err, ending(r))
		}
		again, err := runSeed(s, seed)
		if err != nil || again.Hash != r.Hash || again.Steps != r.Steps {
			t.Fatalf("seed %d is not deterministic: hash %x after %d steps, then %x after %d, %v", seed, r.Hash, r.Steps, again.Hash, again.Steps, err)
		}
	}
}

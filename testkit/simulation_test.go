package testkit

import (
	"flag"
	"fmt"
	"sort"
	"strings"
	"testing"

	"cutwater/messages"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "replay this seed of the simulation only")
	seedsFlag = flag.Int("seeds", 0, "how many seeds the simulation runs; 0 means 40, or 10 with -short")
)

// readings is a deterministic input: n rows in the order of time, with keys.
func readings(n int) string {
	var b strings.Builder
	b.WriteString("at,key,value\n")
	for i := range n {
		fmt.Fprintf(&b, "2024-01-01T%02d:%02d:%02dZ,k%d,%d\n", i/3600, i/60%60, i%60, i*7%13, i%101)
	}
	return b.String()
}

const header = `
name: sim
parallelism: %d
checkpointing: {interval: 50ms, timeout: 2s, tolerable-failures: 100}
operators:
  - uid: readings
    source: {file: {path: in.csv, format: csv, split-size: 1KiB, schema: {at: timestamp, key: string, value: int}}}
    event-time: {field: at, max-out-of-orderness: 0s}
`

const chain = header + `
  - uid: large
    input: readings
    filter: value > 10
  - uid: out
    input: large
    sink: {file: {path: out, format: csv}}
`

const shuffle = header + `
  - uid: minutes
    input: readings
    key-by: key
    window: {tumbling: 1m}
    aggregate: {n: count(), total: sum(value), worst: max(value)}
  - uid: out
    input: minutes
    sink: {file: {path: out, format: csv}}
`

const union = header + `
  - uid: more
    source: {file: {path: more.csv, format: csv, split-size: 1KiB, schema: {at: timestamp, key: string, value: int}}}
    event-time: {field: at, max-out-of-orderness: 0s}
  - uid: both
    input: [readings, more]
  - uid: hours
    input: both
    key-by: key
    window: {tumbling: 10m}
    aggregate: {n: count(), total: sum(value)}
  - uid: out
    input: hours
    sink: {file: {path: out, format: csv}}
`

func scenario(topology string, parallelism, nodes, rows int) *Scenario {
	return &Scenario{
		Topology: fmt.Sprintf(topology, parallelism),
		Files:    map[string]string{"/job/in.csv": readings(rows), "/job/more.csv": readings(rows / 2)},
		Out:      "/job/out",
		Nodes:    nodes,
	}
}

// scenarios are the shapes that the simulation runs, by name.
func scenarios() map[string]*Scenario {
	return map[string]*Scenario{
		"chain":        scenario(chain, 2, 2, 600),
		"shuffle":      scenario(shuffle, 2, 2, 600),
		"union":        scenario(union, 2, 3, 400),
		"more readers": scenario(shuffle, 4, 2, 60),
	}
}

func names(m map[string]*Scenario) []string {
	var names []string
	for n := range m {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

// A run without faults finishes and writes what a plain loop over the input says.
func TestWithoutFaults(t *testing.T) {
	for _, name := range names(scenarios()) {
		t.Run(name, func(t *testing.T) {
			r, err := scenarios()[name].Run(1, Faults{}, nil)
			if err != nil {
				t.Fatal(err, r)
			}
			if r.Status != messages.JobStatus_FINISHED || len(r.Rows) == 0 {
				t.Fatalf("status %v, failure %s, %d rows", r.Status, r.Failure, len(r.Rows))
			}
			t.Logf("%d rows, %d steps", len(r.Rows), r.Steps)
		})
	}
}

// Where nothing goes wrong, nothing fails: in particular no task sends to one that
// has not been started yet, whatever the order in which they start.
func TestNoRestartWithoutFaults(t *testing.T) {
	for _, name := range names(scenarios()) {
		for seed := uint64(1); seed <= 20; seed++ {
			r, err := scenarios()[name].Run(seed, Faults{SlowTask: 0.1}, nil)
			if err != nil || r.Restarts > 0 {
				t.Fatalf("scenario %q, seed %d: %d restarts, %v", name, seed, r.Restarts, err)
			}
		}
	}
}

// Committed rows are exact under crashes, lost, repeated and late messages, slow
// tasks and slow storage; the same seed gives the same run.
func TestExactlyOnceUnderFaults(t *testing.T) {
	seeds := *seedsFlag
	if seeds == 0 {
		if seeds = 40; testing.Short() {
			seeds = 10
		}
	}
	first := uint64(1)
	if *seedFlag != 0 {
		first, seeds = *seedFlag, 1
	}
	all := scenarios()
	list := names(all)
	want := map[string][]string{}
	for _, name := range list {
		r, err := all[name].Run(0, Faults{}, nil)
		if err != nil {
			t.Fatal(name, err)
		}
		want[name] = r.Rows
	}
	total := map[string]int{}
	steps := 0
	for seed := first; seed < first+uint64(seeds); seed++ {
		name := list[seed%uint64(len(list))]
		r, err := all[name].Run(seed, mildFaults, crashes)
		if err == nil && r.Status != messages.JobStatus_FINISHED {
			err = fmt.Errorf("the job ended %v: %s", r.Status, r.Failure)
		}
		if err == nil {
			if diff := Diff(r.Rows, want[name]); diff != "" {
				err = fmt.Errorf("the committed rows differ:\n%s", diff)
			}
		}
		if err != nil {
			t.Fatalf("scenario %q: %v\nreplay: go test ./testkit -run TestExactlyOnceUnderFaults -seed=%d", name, err, seed)
		}
		steps += r.Steps
		for k, n := range r.Faults {
			total[k] += n
		}
		if seed%8 == 0 { // a sample is run twice
			again, err := all[name].Run(seed, mildFaults, crashes)
			if err != nil || again.Hash != r.Hash || again.Steps != r.Steps {
				t.Fatalf("seed %d is not deterministic: %x after %d steps, then %x after %d (%v)", seed, r.Hash, r.Steps, again.Hash, again.Steps, err)
			}
		}
	}
	t.Logf("%d seeds, %d steps, faults: %v", seeds, steps, total)
}

var mildFaults = Faults{
	DropControl: 0.01, DuplicateControl: 0.02, DelayControl: 0.02,
	SlowWork: 0.02, SlowTask: 0.01, MetadataUnknown: 0.02,
}

// crashes ends and restarts nodes at seeded times.
func crashes(w *World) {
	for range w.Random(4) {
		n := w.Nodes()[w.Random(len(w.Nodes()))]
		at := int64(100 + w.Random(1500))
		w.After(at, func() {
			if n.Alive() {
				n.Crash()
				w.After(int64(50+w.Random(1000)), func() {
					if err := n.Restart(); err != nil {
						panic(err)
					}
				})
			}
		})
	}
}

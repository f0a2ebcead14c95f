package testkit

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"sort"
	"strings"
	"sync"
	"testing"

	"cutwater/messages"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "replay this seed of the simulation only; with -v print every message, fault and event")
	seedsFlag = flag.Int("seeds", 0, "how many seeds the simulation runs; 0 means 60, or 20 with -short")
	firstFlag = flag.Uint64("first", 1, "the first of -seeds seeds")
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
checkpointing: {interval: 50ms, timeout: 2s, tolerable-failures: 3, inline-threshold: %s}
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

// small is an inline threshold that puts most state in files of its own.
const small, standard = "64B", "20KiB"

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

// overlapping checkpoints: most begin before the one before them ends.
var overlapping = strings.NewReplacer("interval: 50ms,", "interval: 10ms, max-concurrent: 4,", "split-size: 1KiB", "split-size: 256B").Replace(chain)

// regions: what begins at a reader is a region of three tasks, and there are more splits
// than readers.
const regions = header + `
  - uid: large
    input: readings
    filter: value > 30
  - uid: out
    input: large
    sink: {file: {path: out, format: csv}}
  - uid: small
    input: readings
    filter: value <= 30
  - uid: rest
    input: small
    sink: {blackhole: }
`

// two pipelines share nothing but their slots: one is a region, the other two.
const two = shuffle + `
  - uid: more
    source: {file: {path: more.csv, format: csv, split-size: 1KiB, schema: {at: timestamp, key: string, value: int}}}
    event-time: {field: at, max-out-of-orderness: 0s}
  - uid: copied
    input: more
    sink: {blackhole: }
`

func scenario(topology string, parallelism int, inline string, nodes, rows int) *Scenario {
	return &Scenario{
		Topology: fmt.Sprintf(topology, parallelism, inline),
		Files:    map[string]string{"/job/in.csv": readings(rows), "/job/more.csv": readings(rows / 2)},
		Out:      "/job/out",
		Nodes:    nodes,
	}
}

// scenarios are the shapes that the simulation runs, by name.
func scenarios() map[string]*Scenario {
	return map[string]*Scenario{
		"chain":        scenario(chain, 2, standard, 2, 600),
		"overlapping":  scenario(overlapping, 2, standard, 2, 600),
		"shuffle":      scenario(shuffle, 2, small, 2, 600),
		"union":        scenario(union, 2, small, 3, 400),
		"apart":        apart(scenario(shuffle, 2, small, 3, 600)),
		"regions":      scenario(regions, 3, standard, 3, 600),
		"two":          scenario(two, 2, small, 3, 400),
		"more readers": scenario(shuffle, 4, standard, 2, 60),
		"increments":   scenario(strings.Replace(shuffle, "{interval", "{incremental: true, interval", 1), 2, small, 2, 600),
	}
}

// apart leaves n1 to the coordinator.
func apart(s *Scenario) *Scenario {
	s.Apart = true
	return s
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

// Committed rows are exact, and every invariant holds after every step, under
// each kind of fault; the same seed gives the same run.
func TestExactlyOnceUnderFaults(t *testing.T) {
	s := &simulationTest{scenarios: scenarios, run: runSeed, kinds: FaultKinds(), enough: 2000}
	noticed, seeds := s.test(t)
	if seeds >= 60 && !t.Failed() && (noticed[leftSwept] == 0 || noticed[foundClean] < seeds/2) {
		t.Errorf("%d files of ended attempts were swept, and %d directories looked at: the sweep is not tested", noticed[leftSwept], noticed[foundClean])
	}
	if seeds >= 60 && !t.Failed() && noticed[adopted] < seeds/20 {
		t.Errorf("running tasks were taken over %d times in %d runs: that is not tested", noticed[adopted], seeds)
	}
	if seeds >= 60 && !t.Failed() && noticed[regionRestarted] < seeds/20 {
		t.Errorf("regions restarted alone %d times in %d runs: that is not tested", noticed[regionRestarted], seeds)
	}
}

// simulationTest runs scenarios under one seed after the other.
type simulationTest struct {
	scenarios func() map[string]*Scenario
	run       func(s *Scenario, seed uint64) (*Run, error)
	// kinds of faults, and noticed of what jobs do, are each met a hundred times at
	// least in enough seeds.
	kinds, noticed []string
	enough         int
}

// test returns what the jobs did, and in how many seeds.
func (s *simulationTest) test(t *testing.T) (noticed map[string]int, seeds int) {
	all := expecting(t, s.scenarios())
	list := names(all)
	noticed = map[string]int{}
	if *seedFlag != 0 {
		one := all[list[*seedFlag%uint64(len(list))]]
		if testing.Verbose() {
			one.Trace = os.Stdout
		}
		r, err := s.run(one, *seedFlag)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d steps, %d ms of virtual time, hash %x\n%s\n%s", r.Steps, r.ElapsedMs, r.Hash, table(r.Faults), table(r.Noticed))
		return noticed, 1
	}
	seeds = *seedsFlag
	if seeds == 0 {
		if seeds = 60; testing.Short() {
			seeds = 20
		}
	}
	var (
		mu      sync.Mutex
		next    = *firstFlag
		last    = *firstFlag + uint64(seeds) - 1
		steps   int
		longest int
		faults  = map[string]int{}
		wg      sync.WaitGroup
	)
	take := func() (uint64, bool) {
		mu.Lock()
		defer mu.Unlock()
		if next > last || t.Failed() {
			return 0, false
		}
		next++
		return next - 1, true
	}
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			mine := expecting(t, s.scenarios())
			for seed, ok := take(); ok; seed, ok = take() {
				name := list[seed%uint64(len(list))]
				r, err := s.run(mine[name], seed)
				if err == nil && seed%8 == 0 { // a sample is run twice
					var again *Run
					if again, err = s.run(mine[name], seed); err == nil && (again.Hash != r.Hash || again.Steps != r.Steps) {
						err = fmt.Errorf("not deterministic: hash %x after %d steps, then %x after %d", r.Hash, r.Steps, again.Hash, again.Steps)
					}
				}
				if err != nil {
					t.Errorf("scenario %q: %v\n%sreplay: go test ./testkit -run '^%s$' -seed %d -v", name, err, ending(r), t.Name(), seed)
					return
				}
				mu.Lock()
				steps += r.Steps
				longest = max(longest, r.LongestQueue)
				add(faults, r.Faults)
				add(noticed, r.Noticed)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	t.Logf("%d seeds, %d steps, longest queue %d\nfaults injected:\n%s\nand what the jobs did:\n%s", seeds, steps, longest, table(faults), table(noticed))
	if seeds >= s.enough && !t.Failed() {
		for _, kind := range s.kinds {
			if faults[kind] < 100 {
				t.Errorf("%s: injected %d times, want 100 at least", kind, faults[kind])
			}
		}
		for _, what := range s.noticed {
			if noticed[what] < 100 {
				t.Errorf("%s: %d times, want 100 at least", what, noticed[what])
			}
		}
	}
	return noticed, seeds
}

// expecting returns the scenarios with the rows of a run without faults.
func expecting(t *testing.T, all map[string]*Scenario) map[string]*Scenario {
	for name, s := range all {
		r, err := s.Run(0, Faults{}, nil)
		if err != nil {
			t.Fatal(name, err)
		}
		s.Expected = r.Rows
	}
	return all
}

func runSeed(s *Scenario, seed uint64) (*Run, error) {
	r, err := s.Run(seed, RandomFaults(seed), Disasters)
	if err == nil && r.Status != messages.JobStatus_FINISHED {
		err = fmt.Errorf("seed %d: the job ended %v: %s", seed, r.Status, r.Failure)
	}
	return r, err
}

func ending(r *Run) string {
	if r == nil {
		return ""
	}
	return "the end of the trace:\n" + strings.Join(r.Tail, "")
}

func add(total, more map[string]int) {
	for k, n := range more {
		total[k] += n
	}
}

func table(m map[string]int) string {
	var b strings.Builder
	for _, k := range sortedKeys(m) {
		fmt.Fprintf(&b, "  %-34s %d\n", k, m[k])
	}
	return b.String()
}

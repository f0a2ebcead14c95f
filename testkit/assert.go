package testkit

import (
	"fmt"
	"strings"

	"cutwater/connector/filesink"
	"cutwater/messages"
	"cutwater/stream"
	"cutwater/stream/catalog"
	"cutwater/stream/row"
	"cutwater/topology"
)

// ExactlyOnce checks a topology of your own: it runs it in the simulation, on two
// nodes with the production actors, once without faults and then under a seed
// after the other with crashes, power failures, partitions, lost, repeated and
// late messages and failing disks. What the stream that declare returns commits
// must be, each time, the same multiset as without faults; at no moment may
// anything else be visible. It returns what was committed without faults, one
// line per record, sorted: compare it with what you expect.
//
// The topology must be bounded, with sources that read from memory (Records) or
// from the file system that they are given, and its result must not depend on the
// order of records across channels. Declare is called once for each run and must
// share nothing between them. The parallelism is 2 unless declare sets another.
func ExactlyOnce[U any](t TB, declare func(t *stream.Topology) stream.Stream[U], opts ...ExactlyOnceOption) (committed []string) {
	t.Helper()
	o := exactlyOnceOptions{first: 1, seeds: 20, settings: exactlyOnceSettings}
	for _, opt := range opts {
		opt(&o)
	}
	text, ok := o.text.(func(U) string)
	if o.text != nil && !ok {
		var zero U
		t.Fatalf("testkit: AsText has a %T, and the topology emits %T", o.text, zero)
	}
	if text == nil {
		text = func(v U) string { return fmt.Sprintf("%+v", v) }
	}
	s := &Scenario{Nodes: 2, PollRecords: 1, Out: exactlyOnceOut, Program: func() (*stream.Program, *messages.JobSettings, error) {
		settings, err := topology.Settings("settings", []byte(o.settings), noEnvironment)
		if err != nil {
			return nil, nil, err
		}
		b := stream.New("exactly-once").Parallelism(2)
		err = writeLines(declare(b), text)
		if err != nil {
			return nil, nil, err
		}
		program, err := b.Build()
		return program, settings, err
	}}
	calm, err := s.finished(0, Faults{}, nil)
	if err != nil {
		t.Fatalf("testkit: the topology fails without any fault: %v", err)
	}
	s.Expected = calm.Rows
	s.TurnUs = min(defaultTurnUs*max(1, calmMs/max(1, int(calm.ElapsedMs))), maxTurnUs)
	restores := 0
	for seed := o.first; seed < o.first+uint64(o.seeds); seed++ {
		r, err := s.finished(seed, RandomFaults(seed), Disasters)
		if err != nil {
			t.Fatalf("testkit: not exactly once: %v\nfaults: %v\nthe end of what happened:\n%s\nreplay with testkit.Seeds(%d, 1)",
				err, r.Faults, strings.Join(r.Tail, "\n"), seed)
		}
		restores += r.Noticed[restored]
	}
	if restores == 0 && o.seeds >= enoughSeeds {
		t.Fatalf("testkit: nothing was tested: under none of %d seeds the job went on from a checkpoint; give it more records, or more seeds", o.seeds)
	}
	return unquoted(calm.Rows)
}

// ExactlyOnceOption changes what ExactlyOnce does.
type ExactlyOnceOption func(*exactlyOnceOptions)

type exactlyOnceOptions struct {
	first    uint64
	seeds    int
	settings string
	text     any
}

// Seeds sets the first seed and how many are run; without it, 20 from 1 on. A
// seed that failed fails again.
func Seeds(first uint64, n int) ExactlyOnceOption {
	return func(o *exactlyOnceOptions) { o.first, o.seeds = first, n }
}

// WithSettings sets the job's settings, with the keys of a topology.yaml, see
// topology.Settings. State is in memory: the simulation has no bolt files.
func WithSettings(yaml string) ExactlyOnceOption {
	return func(o *exactlyOnceOptions) { o.settings = yaml }
}

// AsText says how records are compared and shown, instead of fmt's %+v: for rows,
// and for values with pointers.
func AsText[U any](f func(U) string) ExactlyOnceOption {
	return func(o *exactlyOnceOptions) { o.text = f }
}

const (
	exactlyOnceOut      = "/job/out"
	exactlyOnceSettings = "checkpointing: {interval: 50ms, timeout: 2s, tolerable-failures: 3}"

	// calmMs is how long a run without faults should last in virtual time, so that
	// disasters meet it: the turns of a quick one are made longer, up to maxTurnUs.
	calmMs    = 1000
	maxTurnUs = 10_000
	// enoughSeeds restore any job that lasts so long.
	enoughSeeds = 10
)

// writeLines ends the stream in a file sink, each record as one text.
func writeLines[U any](s stream.Stream[U], text func(U) string) error {
	schema := &row.Schema{Fields: []row.Field{{Name: "record", Kind: row.String}}}
	sink, err := filesink.Spec().New(catalog.Values{
		Uid: "exactly-once-out", Strings: map[string]string{"path": exactlyOnceOut}, Schema: schema,
	})
	if err != nil {
		return err
	}
	lines := stream.Map(s, "exactly-once-text", func(v U) row.Row {
		b := row.NewBuilder(1)
		b.String(0, strings.ReplaceAll(text(v), "\n", `\n`))
		return b.Row()
	}, stream.WithCodec(row.Codec(schema)))
	stream.To(lines, "exactly-once-out", sink)
	return nil
}

// unquoted turns lines of a CSV file with one column into its values.
func unquoted(lines []string) []string {
	values := make([]string, len(lines))
	for i, l := range lines {
		if strings.HasPrefix(l, `"`) {
			l = strings.ReplaceAll(l[1:len(l)-1], `""`, `"`)
		}
		values[i] = l
	}
	return values
}

// finished is Run for a job that must finish.
func (s *Scenario) finished(seed uint64, faults Faults, plan Plan) (*Run, error) {
	r, err := s.Run(seed, faults, plan)
	if r == nil {
		r = &Run{}
	}
	if err == nil && r.Status != messages.JobStatus_FINISHED {
		err = fmt.Errorf("seed %d: the job ended as %v: %s", seed, r.Status, r.Failure)
	}
	return r, err
}

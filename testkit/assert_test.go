package testkit_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cutwater/state"
	"cutwater/stream"
	"cutwater/testkit"
)

// clicks are n records of 7 people, in the order of time.
func clicks(n int) (all []timed) {
	for i := range int64(n) {
		all = append(all, timed{fmt.Sprint("p", i%7), i, i * 10})
	}
	return all
}

type timed struct {
	Who string
	N   int64
	Ms  int64
}

func (t timed) at() int64 { return t.Ms }

func whose(t timed) string { return t.Who }

// gaps sums per person until 200 ms pass without a record of theirs.
type gaps struct {
	sum, last *state.Value[int64]
}

func (g *gaps) Open(s *stream.States) {
	g.sum = stream.ValueState[int64](s, "sum")
	g.last = stream.ValueState[int64](s, "last")
}

func (g *gaps) Process(c *stream.Context[string, string], v timed) error {
	sum, _ := g.sum.Get()
	g.sum.Set(sum + v.N)
	last, ok := g.last.Get()
	g.last.Set(max(last, v.Ms))
	if ok {
		c.DeleteEventTimer(last + 200)
	}
	c.SetEventTimer(max(last, v.Ms) + 200)
	return nil
}

func (g *gaps) OnTimer(c *stream.Context[string, string], t stream.Timer) error {
	sum, _ := g.sum.Get()
	g.sum.Clear()
	g.last.Clear()
	c.Emit(fmt.Sprintf(`%s, "%d" until %d`, c.Key(), sum, t.TimestampMs))
	return nil
}

// A topology in Go, with state and timers in a keyed processor, is exact under
// faults; what it commits is what a loop would find.
func TestExactlyOnceOfATopology(t *testing.T) {
	seeds := 20
	if testing.Short() {
		seeds = 5
	}
	got := testkit.ExactlyOnce(t, func(b *stream.Topology) stream.Stream[string] {
		all := clicks(400)
		in := stream.From(b, "clicks", testkit.Records(all[:100], all[100:300], all[300:]), stream.EventTime(timed.at, 0))
		return stream.Process(stream.KeyBy(in, whose), "gaps", func() *gaps { return &gaps{} })
	}, testkit.Seeds(1, seeds))
	sums := map[string]int64{}
	last := map[string]int64{}
	for _, c := range clicks(400) {
		sums[c.Who] += c.N
		last[c.Who] = c.Ms + 200
	}
	var want []string
	for who, sum := range sums {
		want = append(want, fmt.Sprintf(`%s, "%d" until %d`, who, sum, last[who]))
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("committed %v\nwant %v", got, want)
	}
}

// leaky counts in a field, which no checkpoint holds.
type leaky struct{ n int64 }

func (l *leaky) Process(c *stream.Context[string, int64], v timed) error {
	l.n += v.N
	c.Emit(l.n)
	return nil
}

// A processor that keeps its state where no checkpoint sees it is found out, with
// the seed that shows it; mistakes are said before anything runs.
func TestExactlyOnceFindsMistakes(t *testing.T) {
	message := fails(func(tb testkit.TB) {
		testkit.ExactlyOnce(tb, func(b *stream.Topology) stream.Stream[int64] {
			in := stream.From(b, "clicks", testkit.Records(clicks(3000)))
			return stream.Process(stream.KeyBy(in, func(timed) string { return "one" }), "leaky", func() *leaky { return &leaky{} })
		}, testkit.Seeds(1, 50))
	})
	for _, want := range []string{"testkit: not exactly once: seed ", "faults: map[", "replay with testkit.Seeds("} {
		if !strings.Contains(message, want) {
			t.Errorf("missing %q in:\n%s", want, message)
		}
	}
	simple := func(b *stream.Topology) stream.Stream[timed] {
		return stream.From(b, "clicks", testkit.Records(clicks(3)))
	}
	for _, c := range []struct{ got, want string }{
		{fails(func(tb testkit.TB) {
			testkit.ExactlyOnce(tb, simple, testkit.AsText(func(string) string { return "" }))
		}), "AsText has a func(string) string, and the topology emits testkit_test.timed"},
		{fails(func(tb testkit.TB) { testkit.ExactlyOnce(tb, simple, testkit.WithSettings("stat: {}")) }), `there is no key "stat"`},
		{fails(func(tb testkit.TB) {
			testkit.ExactlyOnce(tb, func(b *stream.Topology) stream.Stream[timed] {
				return stream.Filter(simple(b), "clicks", func(timed) bool { return true })
			})
		}), "the uid is taken"},
		{fails(func(tb testkit.TB) {
			testkit.ExactlyOnce(tb, func(b *stream.Topology) stream.Stream[timed] {
				return stream.TryMap(simple(b), "broken", func() func(timed) (timed, bool, error) {
					return func(v timed) (timed, bool, error) { return v, true, fmt.Errorf("no %s", v.Who) }
				})
			}, testkit.WithSettings("restart: {strategy: none}"))
		}), "fails without any fault: seed 0: the job ended as FAILED"},
	} {
		if !strings.Contains(c.got, c.want) {
			t.Errorf("%s\nwant %s", c.got, c.want)
		}
	}
}

// A job so short that no checkpoint is ever used has not been tested, which is a
// failure.
func TestExactlyOnceNeedsRestores(t *testing.T) {
	message := ""
	for first := uint64(1); first < 200 && !strings.Contains(message, "nothing was tested: under none of 10 seeds"); first += 10 {
		message = fails(func(tb testkit.TB) {
			testkit.ExactlyOnce(tb, func(b *stream.Topology) stream.Stream[timed] {
				return stream.From(b, "clicks", testkit.Records([]timed{}))
			}, testkit.Seeds(first, 10))
		})
		if message != "no failure" && !strings.Contains(message, "nothing was tested") {
			t.Fatal(message)
		}
	}
	if message == "no failure" {
		t.Error("an empty job passes as tested")
	}
}

// Windows over several splits have no late records, and AsText shows the records.
func TestExactlyOnceAsText(t *testing.T) {
	got := testkit.ExactlyOnce(t, func(b *stream.Topology) stream.Stream[int64] {
		all := clicks(100)
		in := stream.From(b, "clicks", testkit.Records(all[50:], all[:50]), stream.EventTime(timed.at, 0))
		return stream.Window(stream.KeyBy(in, func(timed) string { return "all" }), "sum", stream.Tumbling(time.Hour), func() total { return total{} })
	}, testkit.AsText(func(n int64) string { return fmt.Sprintf("%d\n", n) }), testkit.Seeds(7, 3))
	if want := []string{`4950\n`}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

type total struct{}

func (total) Init(acc *int64)                                               { *acc = 0 }
func (total) Add(acc *int64, v timed) error                                 { *acc += v.N; return nil }
func (total) Merge(acc, other *int64) error                                 { *acc += *other; return nil }
func (total) Result(_ string, _ stream.Interval, acc *int64) (int64, error) { return *acc, nil }

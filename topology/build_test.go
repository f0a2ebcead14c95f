package topology_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"cutwater/codec"
	"cutwater/messages"
	"cutwater/storage/vfs"
	"cutwater/stream"
	"cutwater/stream/catalog"
	"cutwater/stream/row"
	"cutwater/topology"
)

// noSource and noSink are enough to build a program, not to run it.
type noSource struct{ schema *row.Schema }

func (s noSource) Discover(context.Context, vfs.FS, int) (*messages.SplitsDiscovered, error) {
	return nil, errors.New("nothing to read")
}
func (s noSource) Open(context.Context, vfs.FS, *messages.Split) (stream.SplitReader[row.Row], error) {
	return nil, errors.New("nothing to read")
}
func (s noSource) Bounded() bool               { return true }
func (s noSource) Codec() codec.Codec[row.Row] { return row.Codec(s.schema) }

type noSink struct{ stream.Sink[row.Row] }

// buildable is connectors with constructors.
func buildable() *catalog.Catalog {
	c := connectors()
	for i := range c.Sources {
		c.Sources[i].New = func(v catalog.Values) (stream.Source[row.Row], error) { return noSource{v.Schema}, nil }
	}
	for i := range c.Sinks {
		c.Sinks[i].New = func(v catalog.Values) (stream.Sink[row.Row], error) {
			if v.Schema == nil {
				return nil, errors.New("a sink needs the schema of its input")
			}
			return noSink{}, nil
		}
	}
	return c
}

func graph(p *stream.Program) string {
	var b strings.Builder
	g := p.Graph()
	fmt.Fprintf(&b, "%s parallelism=%d max=%d\n", g.Name, g.Parallelism, g.MaxParallelism)
	for _, o := range g.Operators {
		fmt.Fprintf(&b, "%s %s at %s", o.Kind, o.Uid, o.Declared)
		if o.Parallelism > 0 {
			fmt.Fprintf(&b, " parallelism=%d", o.Parallelism)
		}
		for _, in := range o.Inputs {
			fmt.Fprintf(&b, " <%s- %s", strings.ToLower(in.Partitioning.String()), in.Uid)
			if in.Side != "" {
				b.WriteString("." + in.Side)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// The documentation's example becomes three operators and its settings.
func TestBuildExample(t *testing.T) {
	const path = "../examples/flights/topology.yaml"
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	top, err := topology.Load(path, src, buildable(), environment)
	if err != nil {
		t.Fatal(err)
	}
	program, settings, err := topology.Build(top, buildable())
	if err != nil {
		t.Fatal(err)
	}
	want := `flights parallelism=2 max=0
source flights at ../examples/flights/topology.yaml:13
window daily at ../examples/flights/topology.yaml:21 <hash- flights
sink out at ../examples/flights/topology.yaml:31 <forward- daily
`
	if got := graph(program); got != want {
		t.Errorf("the graph is\n%swant\n%s", got, want)
	}
	if c := settings.Checkpointing; c.IntervalMs != 1000 || c.NumRetained != 3 || c.Storage != "filesystem" || c.TimeoutMs != 600_000 || !c.AfterTasksFinish {
		t.Errorf("checkpointing is %v", c)
	}
	if r := settings.Restart; r.Kind != messages.RestartKind_EXPONENTIAL_DELAY || r.InitialBackoffMs != 50 || r.BackoffMultiplier != 1.5 || r.Jitter != 0.1 {
		t.Errorf("restart is %v", r)
	}
	if settings.Backend != "heap" || settings.BufferTimeoutMs != 1 {
		t.Errorf("backend %q, buffer timeout %d ms", settings.Backend, settings.BufferTimeoutMs)
	}
}

// Every kind of operator and side output builds; a union is an edge, not an operator.
func TestBuildEveryOperator(t *testing.T) {
	src := strings.Replace(flightsPrefix, "tags: list}", "tags: list}, malformed: side, rate: 10", 1) + `
  - {uid: f, input: in, filter: delay > 15, parallelism: 2}
  - {uid: m, input: f, map: {origin: origin, date: date, label: upper(origin)}}
  - {uid: all, input: [f, in]}
  - {uid: running, input: all, key-by: [origin, delay], aggregate: {n: count()}}
  - {uid: sliding, input: all, window: {sliding: {size: 2h, slide: 30m}, allowed-lateness: 1h}, aggregate: {n: count(origin)}}
  - {uid: o1, input: m, sink: {file: {path: o1}}}
  - {uid: o2, input: running, sink: {file: {path: o2}}}
  - {uid: o3, input: sliding, sink: {file: {path: o3}}}
  - {uid: o4, input: sliding.late, sink: {file: {path: o4}}}
  - {uid: o5, input: in.malformed, sink: {file: {path: o5}}}
  - {uid: o6, input: in.malformed, sink: {file: {path: o6}}}
`
	top, err := topology.Load("t.yaml", []byte(src), buildable(), environment)
	if err != nil {
		t.Fatal(err)
	}
	program, _, err := topology.Build(top, buildable())
	if err != nil {
		t.Fatal(err)
	}
	want := `t parallelism=1 max=0
source in at t.yaml:4
map f at t.yaml:8 parallelism=2 <rebalance- in
map m at t.yaml:9 <rebalance- f
aggregate running at t.yaml:11 <hash- f <hash- in
window sliding at t.yaml:12 <hash- f <hash- in
sink o1 at t.yaml:13 <forward- m
sink o2 at t.yaml:14 <forward- running
sink o3 at t.yaml:15 <forward- sliding
sink o4 at t.yaml:16 <forward- sliding.late
map in-malformed at t.yaml:4 <forward- in.malformed
sink o5 at t.yaml:17 <forward- in-malformed
sink o6 at t.yaml:18 <forward- in-malformed
`
	if got := graph(program); got != want {
		t.Errorf("the graph is\n%swant\n%s", got, want)
	}
}

// What connectors refuse names each operator and its line.
func TestBuildConnectorError(t *testing.T) {
	top, err := topology.Load("t.yaml", []byte(flightsPrefix+"  - {uid: o, input: in, sink: {blackhole: {}}}\n"), buildable(), environment)
	if err != nil {
		t.Fatal(err)
	}
	c := buildable()
	c.Sources[0].New = func(catalog.Values) (stream.Source[row.Row], error) { return nil, errors.New("refused") }
	for i := range c.Sinks {
		c.Sinks[i].New = func(catalog.Values) (stream.Sink[row.Row], error) { return nil, errors.New("no") }
	}
	_, _, err = topology.Build(top, c)
	var refused topology.Errors
	if !errors.As(err, &refused) || len(refused) != 2 {
		t.Fatalf("Build: %v", err)
	}
	for i, want := range []topology.Diagnostic{
		{Rule: "CW015", File: "t.yaml", Position: topology.Position{Line: 4, Column: 5}, Message: `operator "in": refused`, Source: strings.Split(flightsPrefix, "\n")[3]},
		{Rule: "CW015", File: "t.yaml", Position: topology.Position{Line: strings.Count(flightsPrefix, "\n") + 1, Column: 5}, Message: `operator "o": no`, Source: "  - {uid: o, input: in, sink: {blackhole: {}}}"},
	} {
		if refused[i] != want {
			t.Errorf("got %+v, want %+v", refused[i], want)
		}
	}
	if _, _, err = topology.Build(top, &catalog.Catalog{}); err == nil || !strings.Contains(err.Error(), `no source "file"`) {
		t.Errorf("Build without connectors: %v", err)
	}
}

// A restart strategy sets the keys that it uses and no others; values of keys
// arrive in the settings.
func TestSettings(t *testing.T) {
	for _, c := range []struct{ yaml, want string }{
		{"restart: {strategy: none}", "kind:NO_RESTART"},
		{"restart: {strategy: fixed-delay, attempts: 5, delay: 2s}", "kind:FIXED_DELAY attempts:5 delay_ms:2000"},
		{"restart: {strategy: failure-rate, max-failures: 3}", "kind:FAILURE_RATE delay_ms:1000 max_failures:3 interval_ms:60000"},
		{"restart: {max-backoff: 2s, jitter: 0.5}", "kind:EXPONENTIAL_DELAY initial_backoff_ms:50 max_backoff_ms:2000 backoff_multiplier:1.5 jitter:0.5 reset_after_ms:3600000"},
		{"state: {backend: bolt}\nbuffer-timeout: 5ms", "bolt 5 false"},
		{"state: {local-recovery: true}", "heap 1 true"},
	} {
		src := strings.Replace(flightsPrefix, "operators:", c.yaml+"\noperators:", 1) + "  - {uid: o, input: in, sink: {blackhole: {}}}\n"
		top, err := topology.Load("t.yaml", []byte(src), buildable(), environment)
		if err != nil {
			t.Fatal(err)
		}
		// The text form of messages varies in its spaces on purpose.
		got := strings.Join(strings.Fields(top.Settings.Restart.String()), " ")
		if strings.HasPrefix(c.yaml, "state") {
			got = fmt.Sprint(top.Settings.Backend, " ", top.Settings.BufferTimeoutMs, " ", top.Settings.LocalRecovery)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.yaml, got, c.want)
		}
	}
	src := strings.Replace(flightsPrefix, "interval: 1s", "interval: 2s, mode: at-least-once, min-pause: 1s, tolerable-failures: 2, retention: on-failure, dir: chk, savepoint-dir: /sp, inline-threshold: 1KiB, incremental: true, after-tasks-finish: false", 1)
	top, err := topology.Load("folder/t.yaml", []byte(src), buildable(), environment)
	if err != nil {
		t.Fatal(err)
	}
	want := &messages.CheckpointConfig{
		IntervalMs: 2000, AtLeastOnce: true, TimeoutMs: 600_000, MinPauseMs: 1000, MaxConcurrent: 1, TolerableFailures: 2,
		Retention: messages.Retention_RETAIN_ON_FAILURE, NumRetained: 3, Storage: "filesystem", Dir: "folder/chk", SavepointDir: "/sp",
		InlineThresholdBytes: 1024, Incremental: true,
	}
	if !proto.Equal(top.Settings.Checkpointing, want) {
		t.Errorf("checkpointing is %v, want %v", top.Settings.Checkpointing, want)
	}
}

// What would take minutes to start is found when the program is built: the finding
// points at the receiver of the widest edge, or, for too many tasks, at the file.
func TestBuildTooLarge(t *testing.T) {
	for text, want := range map[string]string{
		"parallelism: 400\n" + wideKeyed:  "wide.yaml:6:5: error CW019: the job would have 160000 channels, and at most 100000 are allowed: 160000 are of the edge in -> op",
		"parallelism: 300\n" + wideKeyed:  "",
		"parallelism: 20000\n" + wideOnly: "wide.yaml:1:1: error CW019: the job would have 20000 tasks, and at most 10000 are allowed: 20000 of in, out; lower the parallelism",
	} {
		top, err := topology.Load("wide.yaml", []byte("name: wide\nmax-parallelism: 32768\n"+text), buildable(), environment)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if _, _, err := topology.Build(top, buildable()); err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

const (
	wideKeyed = `operators:
  - {uid: in, source: {clock: {}}}
  - {uid: op, input: in, key-by: at, aggregate: {n: count()}}
  - {uid: out, input: op, sink: {blackhole: {}}}
`
	wideOnly = `operators:
  - {uid: in, source: {clock: {}}}
  - {uid: out, input: in, sink: {blackhole: {}}}
`
)

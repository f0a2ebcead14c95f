package bench

import (
	"context"
	"encoding/binary"
	"runtime"
	"syscall"
	"testing"
	"time"

	"cutwater/actors/system"
	"cutwater/cluster/metadata"
	"cutwater/codec"
	"cutwater/connector/blackhole"
	"cutwater/messages"
	"cutwater/node"
	"cutwater/storage/vfs"
	"cutwater/stream"
	"cutwater/stream/operator"
)

const keys = 1_000_000

// event is a record of the keyed count.
type event struct{ Key, Value uint64 }

// mix is the finaliser of SplitMix64.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// generate is record n of the input.
func generate(n uint64) event { return event{1 + mix(n*0x9E3779B97F4A7C15)%keys, n} }

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// half is what was measured when the second half of the input began.
type half struct {
	cpu    time.Duration
	allocs uint64
}

func now() half {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return half{cpu(), m.Mallocs}
}

// numbers is a source of n records that notes the middle.
type numbers struct {
	n      uint64
	middle *half
}

func (s *numbers) Discover(context.Context, vfs.FS, int) (*messages.SplitsDiscovered, error) {
	return &messages.SplitsDiscovered{Splits: []*messages.Split{{Id: "all", Group: "all"}}}, nil
}

func (s *numbers) Open(_ context.Context, _ vfs.FS, split *messages.Split) (stream.SplitReader[event], error) {
	r := &numbersReader{source: s}
	if len(split.Position) == 8 {
		r.next = binary.LittleEndian.Uint64(split.Position)
	}
	return r, nil
}

func (s *numbers) Bounded() bool             { return true }
func (s *numbers) Codec() codec.Codec[event] { return codec.Must(codec.Struct[event]()) }

type numbersReader struct {
	source *numbers
	next   uint64
}

func (r *numbersReader) Next(v *event) (stream.ReadStatus, error) {
	if r.next == r.source.n {
		return stream.ReadEnd, nil
	}
	if r.next == r.source.n/2 {
		*r.source.middle = now()
	}
	*v = generate(r.next)
	r.next++
	return stream.ReadRecord, nil
}

func (r *numbersReader) Position() []byte  { return binary.LittleEndian.AppendUint64(nil, r.next) }
func (r *numbersReader) BytesRead() uint64 { return 16 * r.next }
func (r *numbersReader) Close() error      { return nil }

// counter counts and sums per key, and emits nothing but a digest at the end.
type counter struct{ digest *uint64 }

type counts struct{ N, Sum uint64 }

func (c counter) Init(a *counts) { *a = counts{} }
func (c counter) Add(a *counts, v event) error {
	a.N++
	a.Sum += v.Value
	*c.digest += a.N ^ a.Sum
	return nil
}
func (c counter) Merge(a, b *counts) error {
	a.N += b.N
	a.Sum += b.Sum
	return nil
}
func (c counter) Result(uint64, stream.Interval, *counts) (uint64, error) { return 0, nil }

// byHand is the same work in one loop: generate, encode, decode, count.
func byHand(n uint64) (digest uint64, perRecord float64) {
	type slot struct{ key, n, sum uint64 }
	const size = 1 << 21
	table := make([]slot, size)
	buffer := make([]byte, 0, 32<<10)
	var start time.Duration
	drain := func() {
		for d := buffer; len(d) > 0; d = d[32:] {
			key, value := binary.LittleEndian.Uint64(d[16:]), binary.LittleEndian.Uint64(d[24:])
			at := mix(key) & (size - 1)
			for table[at].key != 0 && table[at].key != key {
				at = (at + 1) & (size - 1)
			}
			s := &table[at]
			s.key = key
			s.n++
			s.sum += value
			digest += s.n ^ s.sum
		}
		buffer = buffer[:0]
	}
	for i := range n {
		if i == n/2 {
			start = cpu()
		}
		e := generate(i)
		buffer = binary.LittleEndian.AppendUint64(buffer, 0) // timestamp
		buffer = binary.LittleEndian.AppendUint64(buffer, mix(e.Key))
		buffer = binary.LittleEndian.AppendUint64(buffer, e.Key)
		buffer = binary.LittleEndian.AppendUint64(buffer, e.Value)
		if len(buffer) == cap(buffer) {
			drain()
		}
	}
	drain()
	return digest, float64(cpu()-start) / float64(n-n/2)
}

// BenchmarkKeyedCount: 1e6 keys, one exchange, exactly once, a checkpoint every
// second on disk; the second half of the input, when all keys are there. In the
// short form the snapshots, which come by the clock, weigh more.
func BenchmarkKeyedCount(b *testing.B) {
	n := uint64(20_000_000)
	if testing.Short() {
		n = 8_000_000
	}
	var r, a, h, allocations []float64
	for range tries {
		want, hand := byHand(n)
		digest, perRecord, allocs := keyedCount(b, n)
		if digest != want {
			b.Fatalf("digest %x, by hand %x", digest, want)
		}
		r, a, h = append(r, perRecord/hand), append(a, perRecord), append(h, hand)
		allocations = append(allocations, allocs)
		b.Logf("%.0f ns, by hand %.0f ns: %.2f x, %.4f allocations", perRecord, hand, perRecord/hand, allocs)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(a), "cpu-ns/record")
	b.ReportMetric(median(h), "hand-ns/record")
	b.ReportMetric(median(allocations), "allocs/record")
	hold(b, "x-hand", median(r), 5)
	hold(b, "allocs/record", median(allocations), 0.005)
}

func keyedCount(b *testing.B, n uint64) (digest uint64, perRecord, allocs float64) {
	var middle half
	t := stream.New("keyed-count")
	events := stream.From(t, "events", &numbers{n: n, middle: &middle})
	byKey := stream.KeyBy(events, func(e event) uint64 { return e.Key })
	sums := stream.Aggregate(byKey, "count", func() counter { return counter{&digest} })
	none := stream.Filter(sums, "none", func(v uint64) bool { return v > 0 })
	stream.To(none, "out", blackhole.New[uint64](nil))
	program, err := t.Build()
	if err != nil {
		b.Fatal(err)
	}
	pool := system.NewPool(8)
	defer pool.Close()
	store := metadata.NewModel(nil)
	sys := system.New(system.Options{Node: "local", Clock: system.NewWallClock(), Executor: pool})
	defer sys.StopAll()
	rt, err := node.NewRuntime(node.Deps{System: sys, FS: vfs.OS(), Metadata: store, ScratchDir: b.TempDir(),
		Programs: func(string) (operator.Program, error) { return program, nil }, Random: func() uint64 { return 1 }})
	if err != nil {
		b.Fatal(err)
	}
	settings := &messages.JobSettings{
		Checkpointing: &messages.CheckpointConfig{IntervalMs: 1000, TimeoutMs: 600_000, MaxConcurrent: 1, NumRetained: 3, Storage: "filesystem",
			Dir: b.TempDir(), AfterTasksFinish: true},
		Restart: &messages.RestartConfig{Kind: messages.RestartKind_NO_RESTART},
	}
	const id = "000000000000000000000000000000be"
	if _, err := store.Propose(context.Background(), &messages.MetadataCommand{Command: &messages.MetadataCommand_RegisterJob{
		RegisterJob: &messages.RegisterJob{Job: id, Name: "keyed-count", Graph: program.Graph(), Settings: settings}}}); err != nil {
		b.Fatal(err)
	}
	j, err := rt.StartJob(node.JobSpec{Job: id, Program: "keyed-count", Graph: program.Graph(), Settings: settings})
	if err != nil {
		b.Fatal(err)
	}
	<-j.Wait()
	end := now()
	if j.Status() != messages.JobStatus_FINISHED {
		b.Fatalf("the job ended %v: %v", j.Status(), j.Failure())
	}
	second := float64(n - n/2)
	return digest, float64(end.cpu-middle.cpu) / second, float64(end.allocs-middle.allocs) / second
}

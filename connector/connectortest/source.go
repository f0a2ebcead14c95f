package connectortest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/storage/vfs"
	"cutwater/stream"
)

// SourceHarness shows a source to the suite.
type SourceHarness[T any] struct {
	// New returns a source of the input on fsys. The splits should be about
	// splitSize bytes or records long, so that small inputs have several; a source
	// that cannot choose ignores it. The source must be bounded.
	New func(t *testing.T, splitSize int64) stream.Source[T]
	// FS holds the input.
	FS vfs.FS
	// Format writes a record as text that tells it from every other one. It must
	// copy what it needs: the record's memory is reused.
	Format func(T) string
	// Want are all the records of the input, as Format writes them.
	Want []string
	// Malformed is the number of records of the input that cannot be read.
	Malformed int
}

// Source is the conformance suite of stream.Source: authors run it on theirs. It
// holds a source to being replayable: from any position the records that follow
// come again, and each record belongs to exactly one split.
func Source[T any](t *testing.T, h SourceHarness[T]) {
	h.Want = slices.Sorted(slices.Values(h.Want))
	for _, c := range []struct {
		name string
		run  func(t *testing.T, h SourceHarness[T])
	}{
		{"every record comes once, whatever the split size", onceForAnySplitSize[T]},
		{"a reader that is interrupted anywhere continues where it was", resumeAnywhere[T]},
		{"opening again at every position of a split replays its tail", replayEveryPosition[T]},
		{"parallel readers read the same records", parallelReaders[T]},
		{"discovery says the same each time, and describes its splits", discoverIsStable[T]},
		{"records survive the codec", codecRoundTrip[T]},
	} {
		t.Run(c.name, func(t *testing.T) {
			opened := &countingFS{FS: h.FS}
			h := h
			h.FS = opened
			c.run(t, h)
			if n := opened.open(); n != 0 {
				t.Errorf("%d files are still open", n)
			}
		})
	}
}

// splitSizes are tried by the cases.
var splitSizes = []int64{1, 2, 3, 7, 50, 1000, 1 << 20}

func onceForAnySplitSize[T any](t *testing.T, h SourceHarness[T]) {
	for _, size := range splitSizes {
		s := h.New(t, size)
		var all tally
		for _, split := range h.discover(t, s) {
			r := h.open(t, s, split)
			all.add(readTail(t, h, r))
			closeReader(t, r)
		}
		all.compare(t, h.Want, h.Malformed, fmt.Sprintf("split size %d", size))
	}
}

func resumeAnywhere[T any](t *testing.T, h SourceHarness[T]) {
	for seed := range uint64(10) {
		random := rand.New(rand.NewPCG(seed, 0))
		size := splitSizes[random.IntN(len(splitSizes))]
		s := h.New(t, size)
		var all tally
		for _, split := range h.discover(t, s) {
			for ended := false; !ended; {
				r := h.open(t, s, split)
				for range 1 + random.IntN(20) {
					if ended = readOne(t, h, r, &all); ended {
						break
					}
				}
				split.Position = slices.Clone(r.Position())
				if random.IntN(2) == 0 { // what follows is lost in a crash
					for range random.IntN(5) {
						var lost tally
						if readOne(t, h, r, &lost) {
							break
						}
					}
				}
				closeReader(t, r)
			}
		}
		all.compare(t, h.Want, h.Malformed, fmt.Sprintf("seed %d, split size %d", seed, size))
	}
}

func replayEveryPosition[T any](t *testing.T, h SourceHarness[T]) {
	const most = 50 // positions that are tried in a split
	s := h.New(t, 200)
	splits := h.discover(t, s)
	for _, split := range splits[:min(3, len(splits))] {
		type mark struct {
			position      []byte
			before, wrong int
		}
		var whole tally
		r := h.open(t, s, split)
		marks := []mark{{slices.Clone(r.Position()), 0, 0}}
		read := r.BytesRead()
		for !readOne(t, h, r, &whole) {
			if now := r.BytesRead(); now < read {
				t.Errorf("split %s: BytesRead fell from %d to %d", split.Id, read, now)
			} else {
				read = now
			}
			if len(marks) < most {
				marks = append(marks, mark{slices.Clone(r.Position()), len(whole.records), whole.malformed})
			}
		}
		marks = append(marks, mark{slices.Clone(r.Position()), len(whole.records), whole.malformed})
		closeReader(t, r)
		for _, m := range marks {
			at := proto.Clone(split).(*messages.Split)
			at.Position = m.position
			r := h.open(t, s, at)
			if !slices.Equal(r.Position(), m.position) {
				t.Errorf("split %s: opened at position %x, it says %x", split.Id, m.position, r.Position())
			}
			tail := readTail(t, h, r)
			closeReader(t, r)
			if !slices.Equal(tail.records, whole.records[m.before:]) || tail.malformed != whole.malformed-m.wrong {
				t.Errorf("split %s: from position %x came %d records and %d malformed, want %d and %d", split.Id, m.position,
					len(tail.records), tail.malformed, len(whole.records)-m.before, whole.malformed-m.wrong)
			}
		}
	}
}

func parallelReaders[T any](t *testing.T, h SourceHarness[T]) {
	for _, parallelism := range []int{1, 3} {
		s := h.New(t, 50)
		work := make(chan *messages.Split)
		var mu sync.Mutex
		var all tally
		var readers sync.WaitGroup
		for range parallelism {
			readers.Go(func() {
				for split := range work {
					r, err := s.Open(context.Background(), h.FS, split)
					if err != nil {
						t.Errorf("open split %s: %v", split.Id, err)
						continue
					}
					part := readTail(t, h, r)
					closeReader(t, r)
					mu.Lock()
					all.add(part)
					mu.Unlock()
				}
			})
		}
		for _, split := range h.discover(t, s) {
			work <- split
		}
		close(work)
		readers.Wait()
		all.compare(t, h.Want, h.Malformed, fmt.Sprintf("%d readers", parallelism))
	}
}

func discoverIsStable[T any](t *testing.T, h SourceHarness[T]) {
	first, again := h.discover(t, h.New(t, 7)), h.discover(t, h.New(t, 7))
	if len(first) != len(again) {
		t.Fatalf("%d splits, then %d", len(first), len(again))
	}
	ids := map[string]bool{}
	ordinal := map[string]uint64{}
	for i, split := range first {
		if !proto.Equal(split, again[i]) {
			t.Errorf("split %d is %v, then %v", i, split, again[i])
		}
		if split.Id == "" || ids[split.Id] {
			t.Errorf("the id %q of split %d is empty or not its own", split.Id, i)
		}
		ids[split.Id] = true
		if last, seen := ordinal[split.Group]; seen && split.Ordinal <= last {
			t.Errorf("group %q: ordinal %d follows %d", split.Group, split.Ordinal, last)
		}
		ordinal[split.Group] = split.Ordinal
		if len(split.Position) != 0 || split.RecordsRead != 0 || split.HasMaxTimestamp {
			t.Errorf("split %s has been read before it was handed out: %v", split.Id, split)
		}
	}
}

func codecRoundTrip[T any](t *testing.T, h SourceHarness[T]) {
	s := h.New(t, 1<<20)
	c := s.Codec()
	var fixed, text []byte
	var want []string
	for _, split := range h.discover(t, s) {
		r := h.open(t, s, split)
		for {
			var v T
			status, err := r.Next(&v)
			if err != nil && !isMalformed(err) {
				t.Fatalf("split %s: %v", split.Id, err)
			}
			if status == stream.ReadEnd {
				break
			}
			if err == nil && status == stream.ReadRecord {
				at := len(fixed)
				fixed = append(fixed, make([]byte, c.Width())...)
				text = c.Encode(fixed[at:], text, v)
				want = append(want, h.Format(v))
			}
		}
		closeReader(t, r)
	}
	shared := string(text)
	var v T
	for i, w := range want {
		if err := c.Decode(fixed[i*c.Width():(i+1)*c.Width()], shared, &v); err != nil {
			t.Fatalf("record %s: %v", w, err)
		}
		if got := h.Format(v); got != w {
			t.Fatalf("record %s was decoded as %s", w, got)
		}
	}
}

func (h *SourceHarness[T]) discover(t *testing.T, s stream.Source[T]) []*messages.Split {
	t.Helper()
	if !s.Bounded() {
		t.Fatal("the suite needs a bounded source")
	}
	found, err := s.Discover(context.Background(), h.FS, 2)
	if err != nil {
		t.Fatalf("discover: %v", err)
	}
	return found.Splits
}

func (h *SourceHarness[T]) open(t *testing.T, s stream.Source[T], split *messages.Split) stream.SplitReader[T] {
	t.Helper()
	r, err := s.Open(context.Background(), h.FS, split)
	if err != nil {
		t.Fatalf("open split %s at position %x: %v", split.Id, split.Position, err)
	}
	return r
}

// readTail reads to the end of the split. It may run beside the test.
func readTail[T any](t *testing.T, h SourceHarness[T], r stream.SplitReader[T]) tally {
	var all tally
	for !readOne(t, h, r, &all) {
	}
	return all
}

func closeReader[T any](t *testing.T, r stream.SplitReader[T]) {
	if err := r.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// tally gathers what was read.
type tally struct {
	records   []string
	malformed int
}

func (a *tally) add(b tally) {
	a.records = append(a.records, b.records...)
	a.malformed += b.malformed
}

// compare reports records that are missing, repeated or made up.
func (a *tally) compare(t *testing.T, want []string, malformed int, what string) {
	t.Helper()
	got := slices.Sorted(slices.Values(a.records))
	if a.malformed != malformed {
		t.Errorf("%s: %d malformed records, want %d", what, a.malformed, malformed)
	}
	if len(got) != len(want) {
		t.Errorf("%s: %d records, want %d", what, len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("%s: record %d in sorted order is %s, want %s", what, i, got[i], want[i])
		}
	}
}

// readOne reads one record, good or malformed, into a; it is true at the end.
func readOne[T any](t *testing.T, h SourceHarness[T], r stream.SplitReader[T], a *tally) (ended bool) {
	var v T
	for {
		status, err := r.Next(&v)
		switch {
		case isMalformed(err):
			a.malformed++
			return false
		case err != nil:
			t.Errorf("next: %v", err)
			return true
		case status == stream.ReadEnd:
			return true
		case status == stream.ReadRecord:
			a.records = append(a.records, h.Format(v))
			return false
		}
	}
}

func isMalformed(err error) bool {
	var m *stream.MalformedError
	return errors.As(err, &m)
}

// countingFS counts the files that are open.
type countingFS struct {
	vfs.FS
	mu    sync.Mutex
	files int
}

func (f *countingFS) open() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.files
}

func (f *countingFS) add(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.files += n
}

// Open opens and counts a file.
func (f *countingFS) Open(path string) (vfs.File, error) {
	file, err := f.FS.Open(path)
	if err != nil {
		return nil, err
	}
	f.add(1)
	return &countedFile{File: file, fs: f}, nil
}

// countedFile is a file of countingFS.
type countedFile struct {
	vfs.File
	fs     *countingFS
	closed bool
}

// Close closes the file, and counts it once.
func (f *countedFile) Close() error {
	if !f.closed {
		f.closed = true
		f.fs.add(-1)
	}
	return f.File.Close()
}

package stream_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cutwater/stream"
)

// picky counts the records of a key, and takes no odd value.
type picky struct{}

func (picky) Init(acc *int64) { *acc = 0 }

func (picky) Add(acc *int64, v ev) error {
	if v.Value%2 == 1 {
		return fmt.Errorf("%d is odd", v.Value)
	}
	*acc++
	return nil
}

func (picky) Merge(acc, other *int64) error {
	*acc += *other
	return nil
}

func (picky) Result(key string, _ stream.Interval, acc *int64) (string, error) {
	return fmt.Sprint(key, *acc), nil
}

// With SkipFailed a record for which the function returns an error is left out and
// reported, and leaves no state of a key that it alone would have; without it the
// task fails.
func TestSkipFailed(t *testing.T) {
	src := func() *listSource {
		return &listSource{splits: [][]ev{{{"a", 1, 2}, {"a", 2, 3}, {"b", 3, 5}, {"a", 4, 4}}}}
	}
	even := func() func(ev) (ev, bool, error) {
		return func(v ev) (ev, bool, error) {
			if v.Value%2 == 1 {
				return v, false, fmt.Errorf("%d is odd", v.Value)
			}
			return v, true, nil
		}
	}
	for kind, add := range map[string]func(in stream.Stream[ev], opts ...stream.Option) (stream.Stream[string], []string){
		"map": func(in stream.Stream[ev], opts ...stream.Option) (stream.Stream[string], []string) {
			return stream.Map(stream.TryMap(in, "op", even, opts...), "text", func(v ev) string { return v.Key }), []string{"a", "a"}
		},
		"aggregate": func(in stream.Stream[ev], opts ...stream.Option) (stream.Stream[string], []string) {
			return stream.Aggregate(stream.KeyBy(in, keyOf), "op", func() picky { return picky{} }, opts...), []string{"a1", "a2"}
		},
		"window": func(in stream.Stream[ev], opts ...stream.Option) (stream.Stream[string], []string) {
			return stream.Window(stream.KeyBy(in, keyOf), "op", stream.Tumbling(time.Second), func() picky { return picky{} }, opts...), []string{"a2"}
		},
	} {
		declare := func(opts ...stream.Option) (*driver, *memorySink[string], []string) {
			b, sink := stream.New("failed"), newMemorySink[string]()
			out, want := add(stream.From[ev](b, "in", src(), stream.EventTime(msOf, 0)), opts...)
			stream.To(out, "out", sink)
			p, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			return newDriver(t, p, nil), sink, want
		}
		d, sink, want := declare(stream.SkipFailed())
		if err := d.run(); err != nil {
			t.Fatal(kind, err)
		}
		if _, err := d.checkpoint(1, true); err != nil || !slices.Equal(sink.committed, want) {
			t.Errorf("%s: %v, %v, want %v", kind, sink.committed, err, want)
		}
		if want := []string{"failed 3 is odd", "failed 5 is odd"}; !slices.Equal(d.events, want) {
			t.Errorf("%s: events %v, want %v", kind, d.events, want)
		}
		d, _, _ = declare()
		checkUserError(t, d.run(), "op", "3 is odd", false)
	}
	b := stream.New("failed")
	stream.To(stream.Map(stream.From[ev](b, "in", src()), "op", msOf, stream.SkipFailed()), "out", newMemorySink[int64]())
	if _, err := b.Build(); err == nil || !strings.Contains(err.Error(), "SkipFailed is not an option of a map") {
		t.Error(err)
	}
}

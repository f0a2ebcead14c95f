package stream_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"cutwater/stream"
)

// The mark is found through wrapping and joining, hides neither the text nor the
// cause, and marks nothing where there is no error.
func TestNoRestart(t *testing.T) {
	if stream.NoRestart(nil) != nil {
		t.Error("no error became one")
	}
	marked := stream.NoRestart(io.ErrNoProgress)
	for _, err := range []error{marked, stream.NoRestart(marked), fmt.Errorf("sink: %w", marked), errors.Join(io.EOF, marked)} {
		if !errors.Is(err, stream.ErrNoRestart) || !errors.Is(err, io.ErrNoProgress) {
			t.Errorf("%v is not known", err)
		}
	}
	if errors.Is(io.ErrNoProgress, stream.ErrNoRestart) || marked.Error() != io.ErrNoProgress.Error() {
		t.Errorf("the text is %q", marked)
	}
}

// User code marks an error that it returns, or that it panics with; any other panic
// restarts the job.
func TestNoRestartOfUserCode(t *testing.T) {
	why := errors.New("the account is closed")
	for _, c := range []struct {
		name string
		f    func(ev) ev
		want bool
	}{
		{"a panic", func(ev) ev { panic(why) }, false},
		{"a marked panic", func(ev) ev { panic(stream.NoRestart(why)) }, true},
	} {
		top := stream.New("user")
		src := &listSource{splits: [][]ev{{{"a", 1, 1}}}}
		stream.To(stream.Map(stream.From(top, "in", src), "op", c.f), "out", newMemorySink[ev]())
		program, err := top.Build()
		if err != nil {
			t.Fatal(err)
		}
		if err := newDriver(t, program, nil).run(); !errors.Is(err, why) || errors.Is(err, stream.ErrNoRestart) != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

package node

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// A part that does not end is waited for only so long; it is named, and the stacks are
// logged. Otherwise the error is that of the end.
func TestWithin(t *testing.T) {
	release, released := make(chan struct{}), make(chan struct{})
	var text bytes.Buffer
	log := slog.New(slog.NewTextHandler(&text, nil))
	err := within(10*time.Millisecond, log, func(waitsFor func(string)) error {
		defer close(released)
		waitsFor("gossip")
		waitsFor("the metadata")
		<-release
		return nil
	})
	if !errors.Is(err, ErrStuck) || !strings.Contains(err.Error(), "the metadata has not ended within 10ms") {
		t.Errorf("the end is %v", err)
	}
	if !strings.Contains(text.String(), "TestWithin.func1") || !strings.Contains(text.String(), `part="the metadata"`) {
		t.Errorf("the log says %.500s", text.String())
	}
	close(release)
	<-released
	text.Reset()
	own := errors.New("its own")
	if err := within(time.Minute, log, func(func(string)) error { return own }); err != own || text.Len() > 0 {
		t.Errorf("the end is %v, the log says %s", err, text.String())
	}
}

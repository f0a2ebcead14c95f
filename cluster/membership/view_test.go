package membership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"cutwater/messages"
)

func (v *view) lines() (lines []string) {
	for _, e := range v.tell() {
		lines = append(lines, fmt.Sprintf("%v %s.%d", e.Kind, e.Member.Meta.GetNode(), e.Member.Meta.GetStart()))
	}
	return lines
}

func say(node string, number uint64, change ...func(*messages.NodeMeta)) Member {
	m := &messages.NodeMeta{Node: node, Start: number}
	for _, c := range change {
		c(m)
	}
	return Member{Meta: m}
}

// What happened between two tellings is told as the difference, sorted by node, and
// each node counts once however many of its starts seem to be alive.
func TestViewTellsDifferences(t *testing.T) {
	leaving := func(m *messages.NodeMeta) { m.Leaving = true }
	v := newView("self")
	for _, step := range []struct {
		do   func()
		want string
	}{
		{func() {}, "[]"},
		{func() { v.arrived(say("self", 1)); v.arrived(say("b", 1)); v.arrived(say("a", 1)) }, "[joined a.1 joined b.1]"},
		{func() { v.arrived(say("a", 1)) }, "[]"},
		{func() { v.arrived(say("a", 1, func(m *messages.NodeMeta) { m.Zone = "z" })) }, "[updated a.1]"},
		{func() { v.ended(start{"a", 1}); v.arrived(say("a", 1)) }, "[updated a.1]"}, // a blink
		{func() { v.arrived(say("c", 1)); v.ended(start{"c", 1}) }, "[]"},
		{func() { v.arrived(say("a", 2)) }, "[failed a.1 joined a.2]"},
		{func() { v.ended(start{"a", 1}) }, "[]"},
		{func() { v.arrived(say("a", 1)) }, "[]"}, // late gossip of an earlier start
		{func() { v.ended(start{"a", 2}); v.ended(start{"a", 1}) }, "[failed a.2]"},
		{func() { v.arrived(say("b", 1, leaving)); v.ended(start{"b", 1}) }, "[left b.1]"},
		{func() { v.ended(start{"b", 1}); v.ended(start{"x", 1}) }, "[]"},
	} {
		step.do()
		if got := fmt.Sprint(v.lines()); got != step.want {
			t.Errorf("got %s, want %s", got, step.want)
		}
	}
	if got := v.members(); len(got) != 1 || got[0].Meta.Node != "self" {
		t.Errorf("members are %v", got)
	}
}

// Refusals are told once, and their memory is bounded whatever others do.
func TestNoticesAreBounded(t *testing.T) {
	v := newView("self")
	refusal := func(n int) Event {
		return Event{Kind: Refused, Member: say(fmt.Sprint(n), 1), Reason: errors.New("no")}
	}
	v.notice(refusal(0))
	v.notice(refusal(0))
	if got := v.tell(); len(got) != 1 {
		t.Errorf("told %v", got)
	}
	v.notice(refusal(0))
	for n := range 10 * maxNotices {
		v.notice(refusal(n))
	}
	if got := len(v.tell()); got != maxNotices || len(v.noticed) > maxNotices {
		t.Errorf("told %d, remembers %d", got, len(v.noticed))
	}
}

// Two nodes refuse each other or neither does, and of two clusters of one name at
// most one yields: the one without jobs, or the one with the higher id.
func TestAdmission(t *testing.T) {
	meta := func(name, id string, provisional bool, oldest, newest uint32) *messages.NodeMeta {
		return &messages.NodeMeta{ClusterName: name, ClusterId: id, Provisional: provisional, OldestProtocolVersion: oldest, ProtocolVersion: newest}
	}
	for _, test := range []struct {
		a, b   *messages.NodeMeta
		want   error
		yields string // which of them
	}{
		{meta("n", "1", true, 1, 1), meta("n", "1", false, 1, 2), nil, ""},
		{meta("n", "", true, 1, 1), meta("n", "1", false, 1, 1), nil, ""},
		{meta("n", "", true, 1, 1), meta("n", "", true, 1, 1), nil, ""},
		{meta("n", "1", true, 1, 1), meta("m", "2", false, 1, 1), ErrOtherName, ""},
		{meta("n", "1", true, 1, 1), meta("n", "2", true, 1, 1), ErrOtherCluster, "b"},
		{meta("n", "1", true, 1, 1), meta("n", "2", false, 1, 1), ErrOtherCluster, "a"},
		{meta("n", "1", false, 1, 1), meta("n", "2", true, 1, 1), ErrOtherCluster, "b"},
		{meta("n", "1", false, 1, 1), meta("n", "2", false, 1, 1), ErrOtherCluster, ""},
		{meta("n", "1", true, 1, 2), meta("n", "1", true, 3, 4), ErrProtocol, ""},
		{meta("n", "1", true, 1, 3), meta("n", "1", true, 3, 4), nil, ""},
	} {
		for _, err := range []error{Admit(test.a, test.b), Admit(test.b, test.a)} {
			if !errors.Is(err, test.want) {
				t.Errorf("%v and %v: got %v, want %v", test.a, test.b, err, test.want)
			}
		}
		yields := ""
		if Yields(test.a, test.b) {
			yields += "a"
		}
		if Yields(test.b, test.a) {
			yields += "b"
		}
		if yields != test.yields {
			t.Errorf("%v and %v: %q yields, want %q", test.a, test.b, yields, test.yields)
		}
	}
}

// logged collects records of a logger.
type logged struct{ lines []string }

func (l *logged) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }
func (l *logged) WithAttrs([]slog.Attr) slog.Handler               { return l }
func (l *logged) WithGroup(string) slog.Handler                    { return l }
func (l *logged) Handle(_ context.Context, r slog.Record) error {
	line := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
	l.lines = append(l.lines, line)
	return nil
}

// Lines of gossip keep their level; what one host causes is told once, and a flood is
// counted instead.
func TestLogIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &logged{}
		log := gossipLog(slog.New(to))
		log.Printf("[DEBUG] memberlist: not seen")
		log.Printf("[ERR] memberlist: bad packet")
		log.Printf("[INFO] memberlist: fine")
		for port := range 50 {
			log.Printf("[ERR] memberlist: no key from=192.0.2.1:%d", port+1)
		}
		log.Printf("[ERR] memberlist: no key from=192.0.2.2:1")
		if want := []string{"WARN gossip: bad packet", "INFO gossip: fine", "WARN gossip: no key from=192.0.2.1:1", "WARN gossip: no key from=192.0.2.2:1"}; !slices.Equal(to.lines, want) {
			t.Errorf("got %q", to.lines)
		}
		for range 100 {
			log.Printf("[WARN] memberlist: flood")
		}
		ctx, cancel := context.WithTimeout(t.Context(), logWindow)
		defer cancel()
		<-ctx.Done()
		log.Printf("[WARN] memberlist: afterwards")
		if got := len(to.lines); got != logBurst+2 {
			t.Errorf("%d lines passed", got)
		}
		if end := strings.Join(to.lines[logBurst:], "\n"); !strings.Contains(end, "lines=84") || !strings.HasSuffix(end, "afterwards") {
			t.Errorf("the end is %q", end)
		}
	})
}

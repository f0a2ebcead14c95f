package discovery

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// source is a Discoverer that a test writes.
type source struct {
	name     string
	discover func(ctx context.Context, found Found) error
}

func (s source) Name() string                                    { return s.name }
func (s source) Discover(ctx context.Context, found Found) error { return s.discover(ctx, found) }

func numbered(n int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(n)}), 1)
}

// during runs a loop for some virtual time.
func during(t *testing.T, d time.Duration, l *Loop) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	l.Run(ctx)
}

// A source is asked again for ever, after pauses that double up to the bound, with
// jitter that differs from node to node, whether it finds something or fails.
func TestLoopNeverStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := func(seed uint64) (rounds []time.Duration) {
			begin := time.Now()
			l := NewLoop(Config{Seed: seed, Sources: []Discoverer{source{"s", func(context.Context, Found) error {
				rounds = append(rounds, time.Since(begin))
				return errors.New("nothing")
			}}}})
			during(t, time.Hour, l)
			if got := l.Status()[0]; got.Rounds != uint64(len(rounds)) || got.Error != "nothing" {
				t.Errorf("status is %+v", got)
			}
			return rounds
		}
		rounds := run(1)
		nominal := firstPause
		for i, at := range rounds[1:] {
			if pause := at - rounds[i]; pause < nominal/2 || pause > nominal*3/2 {
				t.Fatalf("pause %d is %v, want about %v", i, pause, nominal)
			}
			nominal = min(2*nominal, defaultMaxPause)
		}
		if rounds[0] != 0 || len(rounds) < 600 || rounds[1] > time.Second {
			t.Errorf("%d rounds in an hour, the first at %v, the second at %v", len(rounds), rounds[0], rounds[1])
		}
		if other := run(2); fmt.Sprint(other) == fmt.Sprint(rounds) {
			t.Error("two nodes have the same jitter")
		}
	})
}

// A source that hangs, or whose addresses do, holds up no other one; when the loop
// is stopped all end.
func TestSourcesAreIndependent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reached atomic.Int64
		l := NewLoop(Config{
			Sources: []Discoverer{
				source{"hangs", func(ctx context.Context, _ Found) error { <-ctx.Done(); return ctx.Err() }},
				source{"black hole", func(_ context.Context, found Found) error { found([]netip.AddrPort{numbered(1)}, nil); return nil }},
				source{"works", func(_ context.Context, found Found) error { found([]netip.AddrPort{numbered(2)}, nil); return nil }},
			},
			Join: func(ctx context.Context, a netip.AddrPort) error {
				if a == numbered(1) {
					<-ctx.Done()
					return ctx.Err()
				}
				reached.Add(1)
				return nil
			},
		})
		during(t, time.Minute, l)
		if got := reached.Load(); got < 8 {
			t.Errorf("the source that works was tried %d times in a minute", got)
		}
		for i, want := range []uint64{0, 0} {
			if got := l.Status()[i]; got.Rounds != want || got.Error != "" {
				t.Errorf("status is %+v", got)
			}
		}
	})
}

// However often an address that fails is reported, and by however many sources, it
// is dialled no more often than the pauses allow, and for ever; as it heals it is
// joined within the bound.
func TestFailedAddressIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		healed := begin.Add(time.Hour)
		var mu sync.Mutex
		var dials []time.Time
		joined := time.Time{}
		chatty := source{"chatty", func(ctx context.Context, found Found) error {
			for ctx.Err() == nil {
				until(t, time.Now().Add(10*time.Millisecond))
				found([]netip.AddrPort{numbered(1), numbered(1)}, nil)
			}
			return nil
		}}
		l := NewLoop(Config{Sources: []Discoverer{chatty, chatty}, Join: func(context.Context, netip.AddrPort) error {
			mu.Lock()
			defer mu.Unlock()
			if time.Now().Before(healed) {
				dials = append(dials, time.Now())
				return errors.New("nobody there")
			}
			if joined.IsZero() {
				joined = time.Now()
			}
			return nil
		}})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { l.Run(ctx) })
		until(t, healed)
		if got := l.Status()[0]; got.Error != "192.0.2.1:1: nobody there" || got.Failed == 0 {
			t.Errorf("while it fails the status is %+v", got)
		}
		until(t, healed.Add(2*defaultMaxPause))
		if got := l.Status()[0]; got.Error != "" || got.Failed != 0 || got.Addresses != 2 {
			t.Errorf("afterwards the status is %+v", got)
		}
		cancel()
		running.Wait()
		if n := len(dials); n < 600 || n > 1500 {
			t.Errorf("%d dials in an hour", n)
		}
		if wait := joined.Sub(healed); joined.IsZero() || wait > defaultMaxPause*3/2+20*time.Millisecond {
			t.Errorf("joined %v after it healed", wait)
		}
	})
}

// until waits for a moment of virtual time.
func until(t *testing.T, at time.Time) {
	ctx, cancel := context.WithDeadline(t.Context(), at)
	defer cancel()
	<-ctx.Done()
}

// Of a long report only so many are tried at a time, and not more than the bound in
// all; the first failure is the error, told when it comes, changes and goes.
func TestReportIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var many []netip.AddrPort
		for n := range MaxAddresses + 50 {
			many = append(many, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(n / 256), byte(n)}), 1))
		}
		var now, most, all atomic.Int64
		round := 0
		var told []string
		l := NewLoop(Config{
			Sources: []Discoverer{source{"s", func(_ context.Context, found Found) error {
				round++
				switch round {
				case 1:
					found(many, nil)
				case 2:
					found(nil, errors.New("line 7"))
				case 3, 4:
					return errors.New("no file")
				default:
					found(nil, nil)
				}
				return nil
			}}},
			Join: func(ctx context.Context, a netip.AddrPort) error {
				all.Add(1)
				n := now.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				step, cancel := context.WithTimeout(ctx, time.Millisecond)
				defer cancel()
				<-step.Done()
				now.Add(-1)
				if a == many[3] || a == many[9] {
					return errors.New("no")
				}
				return nil
			},
			Changed: func(s Status) { told = append(told, fmt.Sprintf("%d of %d: %s", s.Failed, s.Addresses, s.Error)) },
		})
		during(t, time.Minute, l)
		if all.Load() != MaxAddresses || most.Load() != maxAttempts {
			t.Errorf("tried %d, %d at a time", all.Load(), most.Load())
		}
		want := "2 of 256: 10.0.0.3:1: no|0 of 0: line 7|0 of 0: no file|0 of 0: "
		if got := strings.Join(told, "|"); got != want {
			t.Errorf("told %s, want %s", got, want)
		}
	})
}

// The memory of failures is bounded.
func TestFailuresAreBounded(t *testing.T) {
	tried := newAttempts(time.Second)
	for n := range 10 * maxFailed {
		a := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}), 1)
		if ok, _ := tried.begin(a, time.Time{}); !ok {
			t.Fatalf("%v is not tried", a)
		}
		tried.end(a, errors.New("no"), time.Time{}, 0)
	}
	if len(tried.failed) > maxFailed || len(tried.ongoing) != 0 {
		t.Errorf("%d failed, %d ongoing", len(tried.failed), len(tried.ongoing))
	}
}

package discovery

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Pauses between two rounds of one source, and between two attempts at an address
// that failed. Both begin at firstPause and double up to Config.MaxPause; the real
// one is between half and one and a half of that.
const (
	firstPause      = 200 * time.Millisecond
	defaultMaxPause = 5 * time.Second
)

// maxAttempts bounds the attempts at addresses of one source at a time.
const maxAttempts = 8

// Config says what a Loop does.
type Config struct {
	Sources []Discoverer
	// Join tries an address, which may be the node's own or that of a member; then
	// it returns nil at once. It is called by several goroutines, and must return
	// soon after ctx is done.
	Join func(ctx context.Context, address netip.AddrPort) error
	// MaxPause bounds the pauses; 5 s if 0. What a healed network needs to become
	// one cluster again is at most 1.5 of it and the time of a dial.
	MaxPause time.Duration
	// Seed makes the jitter; it should differ from node to node.
	Seed uint64
	// Changed is told when the error of a source has come, changed or gone. It is
	// called by one goroutine for each source. May be nil.
	Changed func(Status)
}

// Status is what a source has done.
type Status struct {
	Name string
	// Rounds counts the calls of Discover.
	Rounds uint64
	// Addresses is how many the last report had, Failed how many of them could not
	// be joined.
	Addresses, Failed int
	// Error is what was wrong with the last report, with the source or with one of
	// its addresses; empty if nothing was.
	Error string
}

// Loop runs sources for ever.
type Loop struct {
	config Config

	mu     sync.Mutex
	status []Status
	tried  *attempts
}

// NewLoop makes a Loop; Run runs it.
func NewLoop(c Config) *Loop {
	if c.MaxPause == 0 {
		c.MaxPause = defaultMaxPause
	}
	l := &Loop{config: c, tried: newAttempts(c.MaxPause)}
	for _, s := range c.Sources {
		l.status = append(l.status, Status{Name: s.Name()})
	}
	return l
}

// Run runs the sources until ctx is done, and returns when all have ended. It is
// called once.
func (l *Loop) Run(ctx context.Context) {
	var running sync.WaitGroup
	for i, d := range l.config.Sources {
		running.Go(func() { l.run(ctx, i, d) })
	}
	running.Wait()
}

// Status is what each source has done, in the order of Config.Sources.
func (l *Loop) Status() []Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.status)
}

// run repeats the rounds of one source.
func (l *Loop) run(ctx context.Context, i int, d Discoverer) {
	random := rand.New(rand.NewPCG(l.config.Seed, uint64(i)))
	timer := time.NewTimer(0)
	defer timer.Stop()
	for pause := firstPause; ; pause = min(2*pause, l.config.MaxPause) {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		err := d.Discover(ctx, func(addresses []netip.AddrPort, problem error) {
			l.report(ctx, i, addresses, problem, random)
		})
		if ctx.Err() != nil {
			return
		}
		l.note(i, func(s *Status) {
			s.Rounds++
			if err != nil {
				s.Error = err.Error()
			}
		})
		timer.Reset(jitter(pause, random.Float64()))
	}
}

// jitter returns between half and one and a half of a pause, by chance in [0, 1).
func jitter(pause time.Duration, chance float64) time.Duration {
	return pause/2 + time.Duration(chance*float64(pause))
}

// report tries the addresses of one report, maxAttempts at a time.
func (l *Loop) report(ctx context.Context, i int, addresses []netip.AddrPort, problem error, random *rand.Rand) {
	addresses = addresses[:min(len(addresses), MaxAddresses)]
	failures := make([]error, len(addresses))
	slots := make(chan struct{}, maxAttempts)
	var trying sync.WaitGroup
	for n, a := range addresses {
		begun, before := l.tried.begin(a, time.Now())
		if !begun {
			failures[n] = before
			continue
		}
		chance := random.Float64()
		slots <- struct{}{}
		trying.Go(func() {
			defer func() { <-slots }()
			err := l.config.Join(ctx, a)
			if err != nil {
				err = fmt.Errorf("%v: %w", a, err)
			}
			l.tried.end(a, err, time.Now(), chance)
			failures[n] = err
		})
	}
	trying.Wait()
	if ctx.Err() != nil {
		return
	}
	failures = slices.DeleteFunc(failures, func(err error) bool { return err == nil })
	if len(failures) > 0 {
		problem = errors.Join(problem, failures[0])
	}
	l.note(i, func(s *Status) {
		s.Addresses, s.Failed, s.Error = len(addresses), len(failures), ""
		if problem != nil {
			s.Error = problem.Error()
		}
	})
}

// note changes the status of a source, and tells if its error is another one now.
func (l *Loop) note(i int, change func(*Status)) {
	l.mu.Lock()
	before := l.status[i].Error
	change(&l.status[i])
	now := l.status[i]
	l.mu.Unlock()
	if now.Error != before && l.config.Changed != nil {
		l.config.Changed(now)
	}
}

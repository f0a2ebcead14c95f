package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"
)

// kind is what can go wrong.
type kind string

const (
	kill  kind = "kill"
	pause kind = "pause"
	cut   kind = "cut"
	flap  kind = "flap"
	blind kind = "blind"
	lost  kind = "unroutable"
	full  kind = "full"
	power kind = "power"
	roll  kind = "roll"
)

// kindsOf are those that can be made, the more usual ones more often.
func kindsOf(n network) []kind {
	kinds := []kind{kill, kill, pause, power, roll}
	if n.breakable() {
		kinds = append(kinds, kill, pause, cut, cut, flap, blind, lost, full, full)
	}
	return kinds
}

// leavePatience is how long a node may take to leave, and somewhat more.
const leavePatience = 45 * time.Second

// flapEvery is how long a cable is out, and then in.
const flapEvery = 700 * time.Millisecond

// fault is something that goes wrong for a while.
type fault struct {
	kind  kind
	at    time.Duration // from the beginning of the round
	lasts time.Duration
	// node is whom it befalls, unless leader: then the one that leads, if one does.
	node   int
	leader bool
	// other is whom node does not reach.
	other int

	victim *node // once it has begun
}

func (f *fault) String() string {
	who := fmt.Sprint("node ", f.node)
	if f.leader {
		who = fmt.Sprintf("the leader (else node %d)", f.node)
	}
	switch f.kind {
	case roll:
		return fmt.Sprintf("at %v: roll", f.at)
	case power:
		return fmt.Sprintf("at %v: power for %v", f.at, f.lasts)
	case blind, lost:
		who += fmt.Sprintf(" towards node %d", f.other)
	}
	return fmt.Sprintf("at %v: %s %s for %v", f.at, f.kind, who, f.lasts)
}

// limits are those of a round.
type limits struct {
	nodes int
	kinds []kind        // of which the faults are, more often if listed more often
	span  time.Duration // in which faults begin
	pause time.Duration // the longest one
}

// schedule draws the faults of a round, in the order of their beginnings.
func schedule(seed uint64, l limits) []*fault {
	rng := rand.New(rand.NewPCG(seed, 0))
	between := func(low, high time.Duration) time.Duration {
		return low + time.Duration(rng.Int64N(int64(high-low)/int64(time.Millisecond)+1))*time.Millisecond
	}
	faults := make([]*fault, 1+rng.IntN(6))
	for i := range faults {
		f := &fault{kind: l.kinds[rng.IntN(len(l.kinds))], at: between(0, l.span), leader: rng.IntN(2) == 0, node: 1 + rng.IntN(l.nodes)}
		f.other = 1 + (f.node+rng.IntN(l.nodes-1))%l.nodes
		switch f.kind {
		case kill, power:
			f.lasts = between(0, l.span/2)
		case pause:
			f.lasts = between(time.Second, l.pause)
		default:
			f.lasts = between(time.Second, l.span)
		}
		faults[i] = f
	}
	for _, f := range faults {
		if f.kind == roll { // alone: a node cannot be told to leave a cluster that is broken
			return []*fault{f}
		}
	}
	slices.SortStableFunc(faults, func(a, b *fault) int { return int(a.at - b.at) })
	return faults
}

// begin makes the fault happen.
func (c *cluster) begin(ctx context.Context, f *fault) error {
	if f.victim == nil {
		f.victim = c.nodes[f.node-1]
		if f.leader {
			f.victim = cmp.Or(c.leader(ctx), f.victim)
		}
	}
	if f.other == f.victim.index {
		f.other = f.victim.index%len(c.nodes) + 1
	}
	switch f.kind {
	case kill:
		f.victim.kill()
	case pause:
		f.victim.signal(syscall.SIGSTOP, false)
	case cut, flap:
		return c.net.cable(f.victim.index, false)
	case blind:
		return c.net.lose(f.victim.index, f.other, silent)
	case lost:
		return c.net.lose(f.victim.index, f.other, unroutable)
	case full:
		return f.victim.fill()
	case power:
		for _, n := range c.nodes {
			n.kill()
		}
	case roll:
		return c.roll(ctx)
	}
	return nil
}

// end mends it.
func (c *cluster) end(f *fault) error {
	switch f.kind {
	case kill:
		return f.victim.start()
	case pause:
		f.victim.signal(syscall.SIGCONT, false)
	case cut, flap:
		return c.net.cable(f.victim.index, true)
	case blind, lost:
		return c.net.lose(f.victim.index, f.other, nothing)
	case full:
		return f.victim.free()
	case power:
		var errs []error
		for _, n := range c.nodes {
			errs = append(errs, n.start())
		}
		return errors.Join(errs...)
	}
	return nil
}

// roll stops and starts one node after the other.
func (c *cluster) roll(ctx context.Context) error {
	for _, n := range c.nodes {
		if err := n.stop(leavePatience); err != nil {
			return err
		}
		if err := n.start(); err != nil {
			return err
		}
		if _, err := c.awaitOne(ctx, healTime); err != nil {
			return fmt.Errorf("after the restart of node %d: %w", n.index, err)
		}
	}
	return nil
}

// step is the beginning of a fault, or its end.
type step struct {
	at    time.Duration
	fault *fault
	ends  bool
	quiet bool // nobody is told
}

// steps are those of a fault: one that flaps begins again and again.
func (f *fault) steps() (steps []step) {
	steps = append(steps, step{at: f.at, fault: f})
	if f.kind == flap {
		for at := flapEvery; at+flapEvery < f.lasts; at += 2 * flapEvery {
			steps = append(steps, step{f.at + at, f, true, true}, step{f.at + at + flapEvery, f, false, true})
		}
	}
	if f.kind != roll {
		steps = append(steps, step{at: f.at + f.lasts, fault: f, ends: true})
	}
	return steps
}

// String is what has happened.
func (s step) String() string {
	what := string(s.fault.kind)
	if s.ends {
		what = "end of " + what
	}
	if s.fault.kind != roll && s.fault.kind != power {
		what += fmt.Sprint(", node ", s.fault.victim.index)
	}
	if s.fault.kind == blind || s.fault.kind == lost {
		what += fmt.Sprint(" towards node ", s.fault.other)
	}
	return what
}

// cause lets the faults happen and mends each in its time. All are mended when it
// returns.
func (c *cluster) cause(ctx context.Context, faults []*fault, log func(string)) error {
	var steps []step
	for _, f := range faults {
		steps = append(steps, f.steps()...)
	}
	slices.SortStableFunc(steps, func(a, b step) int { return int(a.at - b.at) })
	begun := time.Now()
	var errs []error
	for _, s := range steps {
		time.Sleep(time.Until(begun.Add(s.at)))
		var err error
		if s.ends {
			err = c.end(s.fault)
		} else {
			err = c.begin(ctx, s.fault)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%v: %w", s.fault, err))
		}
		if !s.quiet {
			log(s.String())
		}
	}
	return errors.Join(errs...)
}

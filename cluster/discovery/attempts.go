package discovery

import (
	"net/netip"
	"sync"
	"time"
)

// maxFailed bounds the memory of addresses that failed.
const maxFailed = 1024

// attempts knows which addresses are being tried, and which failed just now, so
// that sources that report the same address, or one that reports it often, do not
// make the node dial it more often than the pauses allow.
type attempts struct {
	maxPause time.Duration

	mu      sync.Mutex
	ongoing map[netip.AddrPort]bool
	failed  map[netip.AddrPort]failure
}

// failure is the memory of an address that could not be joined.
type failure struct {
	err   error
	pause time.Duration
	until time.Time
}

func newAttempts(maxPause time.Duration) *attempts {
	return &attempts{maxPause: maxPause, ongoing: map[netip.AddrPort]bool{}, failed: map[netip.AddrPort]failure{}}
}

// begin reports whether the address should be tried now; if it should not, because
// it failed just now, with the error of that.
func (t *attempts) begin(a netip.AddrPort, now time.Time) (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.failed[a]; t.ongoing[a] || now.Before(f.until) {
		return false, f.err
	}
	t.ongoing[a] = true
	return true, nil
}

// end remembers the outcome of an attempt; chance, in [0, 1), makes the jitter.
func (t *attempts) end(a netip.AddrPort, err error, now time.Time, chance float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.ongoing, a)
	if err == nil {
		delete(t.failed, a)
		return
	}
	pause := min(max(firstPause, 2*t.failed[a].pause), t.maxPause)
	if len(t.failed) >= maxFailed {
		clear(t.failed) // forgetting costs a dial too many, nothing else
	}
	t.failed[a] = failure{err, pause, now.Add(jitter(pause, chance))}
}

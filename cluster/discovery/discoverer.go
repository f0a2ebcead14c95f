package discovery

import (
	"context"
	"errors"
	"net/netip"
)

// Discoverer is one source of addresses. A [Loop] calls it from one goroutine.
type Discoverer interface {
	// Name tells the source from others, for people.
	Name() string
	// Discover reports addresses through found. A source with a list reports it
	// once and returns; a source that listens returns when it cannot go on. Both
	// return soon after ctx is done. An error means that there was nothing to
	// report. The Loop calls it again after a pause, error or not.
	Discover(ctx context.Context, found Found) error
}

// Found takes in the addresses of one report, and what was wrong with a part of it,
// or nil. It blocks until each address was joined, failed, or was left out because
// it is being tried already or failed just now.
type Found func(addresses []netip.AddrPort, problem error)

// MaxAddresses is how many addresses one source may report at a time; one living
// node is enough to find all others.
const MaxAddresses = 256

// ErrAddress: text that was to be an address, or a source of addresses, is none.
var ErrAddress = errors.New("discovery: not an address")

// Remembered reports peers that were members once.
type Remembered struct {
	// Peers lists them, the most recent first.
	Peers func() []netip.AddrPort
}

// Name implements Discoverer.
func (Remembered) Name() string { return "remembered peers" }

// Discover implements Discoverer.
func (r Remembered) Discover(_ context.Context, found Found) error {
	found(r.Peers(), nil)
	return nil
}

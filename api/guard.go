package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxRefusals per peer and refusalWindow are answered with 401, the others with
	// 429 and the end of the connection. Who has the token is never locked out.
	maxRefusals   = 10
	refusalWindow = time.Minute
	// maxPeers bounds the memory of peers with a wrong token.
	maxPeers = 1024
)

// guard decides who may ask.
type guard struct {
	asked bool     // for a token
	token [32]byte // its hash: comparing hashes tells nothing of its length
	log   *slog.Logger
	now   func() time.Time

	refused atomic.Uint64

	mu    sync.Mutex
	peers map[netip.Addr]*refusals
}

// refusals are what one peer was refused.
type refusals struct {
	window time.Time // when it began
	count  int       // in it
}

func newGuard(o Options) guard {
	return guard{asked: o.Token != "", token: sha256.Sum256([]byte(o.Token)), log: o.Log, now: o.Now, peers: map[netip.Addr]*refusals{}}
}

// check refuses a request that may not be answered; route may be nil.
func (g *guard) check(w http.ResponseWriter, r *http.Request, route *route) error {
	if route != nil && route.open {
		return nil
	}
	if g.asked {
		if err := g.authenticate(w, r); err != nil {
			return err
		}
	} else if !local(r.Host) {
		return refuse(http.StatusForbidden, "without a token only requests to this machine's own address are answered, and %q is not one; ask 127.0.0.1 or localhost", r.Host)
	}
	if route != nil && route.changes && crossSite(r) {
		return refuse(http.StatusForbidden, "a page of another site may not change anything here")
	}
	return nil
}

// authenticate compares the token, in a time that says nothing of it.
func (g *guard) authenticate(w http.ResponseWriter, r *http.Request) error {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	presented := sha256.Sum256([]byte(strings.TrimSpace(token)))
	if subtle.ConstantTimeCompare(presented[:], g.token[:]) == 1 && strings.EqualFold(scheme, "Bearer") {
		return nil
	}
	g.refused.Add(1)
	w.Header().Set("WWW-Authenticate", `Bearer realm="cutwater"`)
	if g.count(r.RemoteAddr) > maxRefusals {
		w.Header().Set("Retry-After", "60")
		w.Header().Set("Connection", "close")
		return refuse(http.StatusTooManyRequests, "too many requests without the right token; wait a minute")
	}
	if token == "" {
		return refuse(http.StatusUnauthorized, "this node asks for the API token of its cluster; send it as Authorization: Bearer TOKEN")
	}
	return refuse(http.StatusUnauthorized, "the API token is not that of this cluster")
}

// count enters a refusal and returns how many the peer has in its window. The first
// one of a peer is logged.
func (g *guard) count(remote string) int {
	at, _ := netip.ParseAddrPort(remote)
	peer := at.Addr().Unmap()
	if peer.Is6() {
		// Who has one address of a network has them all.
		network, _ := peer.WithZone("").Prefix(64)
		peer = network.Addr()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	p := g.peers[peer]
	if p == nil {
		if len(g.peers) >= maxPeers {
			clear(g.peers) // some will be logged twice
		}
		p = &refusals{window: now}
		g.peers[peer] = p
		g.log.Warn("a request was refused: it has no token, or a wrong one", "peer", at.Addr().String())
	}
	if now.Sub(p.window) >= refusalWindow {
		p.window, p.count = now, 0
	}
	p.count++
	return p.count
}

// local reports whether a Host header names this machine's loopback.
func local(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// crossSite reports whether a browser says that a page of another origin asks.
func crossSite(r *http.Request) bool {
	switch site := r.Header.Get("Sec-Fetch-Site"); site {
	case "", "same-origin", "none":
	default:
		return true
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	u, err := url.Parse(origin)
	return err != nil || u.Host != r.Host
}

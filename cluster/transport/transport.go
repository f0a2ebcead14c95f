package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/protocol"
)

// Transport is one node's end of its connections to all others. It is safe for
// concurrent use.
type Transport struct {
	options  Options
	tls      *tls.Config // nil without a secret
	counters [lanes]counters
	dialled  atomic.Uint64
	// ended is done when Close begins.
	ended context.Context
	end   context.CancelFunc
	// work counts the goroutines; it grows only while the transport is not closed.
	work sync.WaitGroup
	once sync.Once

	// mu is held for reading while a message is queued.
	mu     sync.RWMutex
	closed bool
	silent bool // no goodbye: a test kills this node
	peers  map[string]*peer
	open   map[net.Conn]bool
	// strangers are the connections that have not said who they are.
	strangers int

	logging sync.Mutex
	told    map[string]bool // what was logged
}

// peer is one start of another node.
type peer struct {
	name  string
	links [lanes]*link
	// inbound is the newest connection that the peer has dialled.
	inbound [lanes]*inbound
	// over says that Lost was called with Control, and no connection was made since.
	over bool
}

// Open begins to accept connections; it dials nobody before there is something to
// send. The error wraps ErrNeedsSecret, or says what is missing; the listeners are
// closed then.
func Open(o Options) (*Transport, error) {
	t := &Transport{options: o.withDefaults(), peers: map[string]*peer{}, open: map[net.Conn]bool{}, told: map[string]bool{}}
	err := o.check()
	if err == nil && o.Secret.Given() {
		t.tls, err = o.Secret.TLS()
	}
	if err != nil {
		for _, l := range []net.Listener{o.Control, o.Data} {
			if l != nil {
				err = errors.Join(err, l.Close())
			}
		}
		return nil, err
	}
	t.ended, t.end = context.WithCancel(context.Background())
	t.work.Go(func() { t.accept(o.Control, Control) })
	t.work.Go(func() { t.accept(o.Data, Data) })
	return t, nil
}

// Send delivers the message to the actor, or loses it; it does not block. It keeps
// nothing of the message when it returns.
func (t *Transport) Send(from, to protocol.Address, m proto.Message) {
	lane := LaneOf(m)
	if e, data, ok := seal(to, m); !ok {
		t.counters[lane].dropped.Add(1)
		t.warnOnce("unsendable "+string(m.ProtoReflect().Descriptor().Name()), "a message is of a kind that does not travel between nodes", "from", from, "to", to)
	} else {
		node, _, _ := strings.Cut(string(to), "|")
		t.queue(node, lane, e, data)
	}
	if b, ok := m.(*messages.RecordBatch); ok {
		t.options.Release(b)
	}
}

// queue puts a message into the queue of its lane.
func (t *Transport) queue(node string, lane Lane, e *messages.Envelope, data []byte) {
	for {
		t.mu.RLock()
		p, closed := t.peers[node], t.closed
		var err error
		if p != nil && !closed {
			err = p.links[lane].push(e, data)
		}
		t.mu.RUnlock()
		if p != nil || closed {
			if closed || err != nil {
				t.counters[lane].dropped.Add(1)
			}
			if err != nil {
				t.warnOnce("dropped to "+node+": "+err.Error(), "messages are dropped", "node", node, "lane", lane, "error", err)
			}
			return
		}
		t.mu.Lock()
		t.peer(node)
		t.mu.Unlock()
	}
}

// peer returns a start of a node, and makes it if it is new. Then it forgets those
// that nobody knows any more: each restart of a node is another one. The caller holds
// t.mu.
func (t *Transport) peer(name string) *peer {
	if p := t.peers[name]; p != nil {
		return p
	}
	for other, p := range t.peers {
		if p.idle() {
			if _, known := t.options.Locate(other); !known {
				delete(t.peers, other)
			}
		}
	}
	p := &peer{name: name}
	for lane := range lanes {
		p.links[lane] = newLink(t, p, lane)
	}
	t.peers[name] = p
	return p
}

// idle reports whether nothing goes on with the peer. The caller holds t.mu.
func (p *peer) idle() bool {
	for lane := range lanes {
		if p.inbound[lane] != nil || p.links[lane].isRunning() {
			return false
		}
	}
	return true
}

// isClosed reports whether Close has begun.
func (t *Transport) isClosed() bool { return t.ended.Err() != nil }

// connected notes that the peer is alive.
func (t *Transport) connected(p *peer) {
	t.mu.Lock()
	p.over = false
	t.mu.Unlock()
}

// lost tells that messages are lost, or that the peer is over, once.
func (t *Transport) lost(p *peer, lane Lane, err error) {
	t.mu.Lock()
	tell := !t.closed && (lane == Data || !p.over)
	p.over = p.over || lane == Control
	t.mu.Unlock()
	if tell {
		t.options.Lost(p.name, lane, err)
	}
}

// check finds out whether the peer lives, unless Close has begun. The caller is one of
// its connections, so the peer is not forgotten.
func (t *Transport) check(p *peer) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if !t.closed {
		p.links[Control].checkNow()
	}
}

// track keeps a connection until forget, so that Close finds it; it reports false, and
// closes it, if Close has begun.
func (t *Transport) track(c net.Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		c.Close()
		return false
	}
	t.open[c] = true
	return true
}

func (t *Transport) forget(c net.Conn) {
	t.mu.Lock()
	delete(t.open, c)
	t.mu.Unlock()
	c.Close()
}

// warnOnce logs once for each key.
func (t *Transport) warnOnce(key, text string, more ...any) {
	t.logging.Lock()
	if len(t.told) >= maxTold {
		clear(t.told)
	}
	told := t.told[key]
	t.told[key] = true
	t.logging.Unlock()
	if !told {
		t.options.Log.Warn("transport: "+text, more...)
	}
}

// maxTold bounds the memory of what was logged.
const maxTold = 256

// Close says goodbye to all nodes that there are connections with, and ends. When it
// returns all sockets are closed, and no function of the options runs any more. More
// calls do nothing.
func (t *Transport) Close() error {
	var err error
	t.once.Do(func() { err = t.stop(false) })
	return err
}

// stop ends everything; with silent, as the death of the process would.
func (t *Transport) stop(silent bool) error {
	t.mu.Lock()
	t.closed, t.silent = true, silent
	t.end()
	for c := range t.open {
		if silent {
			c.Close()
		} else {
			_ = c.SetDeadline(time.Now().Add(goodbyeTimeout)) // it fails if c is closed
		}
	}
	var goodbyes []*inbound
	for _, p := range t.peers {
		for _, in := range p.inbound {
			if in != nil && !silent {
				goodbyes = append(goodbyes, in)
			}
		}
	}
	t.mu.Unlock()
	err := errors.Join(t.options.Control.Close(), t.options.Data.Close())
	for _, in := range goodbyes {
		_ = in.conn.goodbye() // the connection may have broken by now
	}
	t.work.Wait()
	return err
}

// Counts is what has happened so far.
func (t *Transport) Counts() Counts {
	return Counts{Control: t.counters[Control].load(), Data: t.counters[Data].load()}
}

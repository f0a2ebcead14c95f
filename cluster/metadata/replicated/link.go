package replicated

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"cutwater/messages"
)

// links holds one connection to each member that was asked something. A connection
// carries many requests at a time; the other side's end of it is noticed at once.
type links struct {
	connect func(ctx context.Context, addr string) (net.Conn, error)
	wg      sync.WaitGroup
	mu      sync.Mutex
	open    map[string]*link
}

type link struct {
	conn    net.Conn
	writing sync.Mutex

	mu      sync.Mutex
	next    uint64
	waiting map[uint64]chan *messages.MetadataResponse
	broken  bool
	heard   time.Time // when the last answer came
}

// silence is how long nothing may come over a connection that a caller waited for in
// vain, before it is taken for dead.
const silence = time.Second

// call asks the member at the address, and waits for its answer, for the end of the
// context, which must have a deadline, or until the answer is given up, as that of a
// member that leads no more. Sent reports whether the request may have arrived, where
// there is an error. A request that nobody waits for any more does not arrive much
// later: where nothing is heard of the other side for a while the connection ends with
// all that is still on its way.
func (l *links) call(ctx context.Context, addr string, giveUp <-chan struct{}, request *messages.MetadataRequest) (response *messages.MetadataResponse, sent bool, err error) {
	k, err := l.to(ctx, addr)
	if err != nil {
		return nil, false, err
	}
	id, answer := k.expect()
	if answer == nil {
		return nil, false, net.ErrClosed
	}
	defer k.forget(id)
	began := time.Now()
	deadline, _ := ctx.Deadline()
	request.Id = id
	request.TimeoutMs = max(1, time.Until(deadline).Milliseconds())
	frame, err := frameOf(request)
	if err != nil {
		return nil, false, err
	}
	if err := k.send(frame, deadline); err != nil {
		abort(k.conn) // half a frame may be out: nothing can follow it
		return nil, true, err
	}
	select {
	case response, ok := <-answer:
		if !ok {
			return nil, true, net.ErrClosed
		}
		return response, true, nil
	case <-giveUp:
		abort(k.conn) // whoever else waits for this member waits in vain
		return nil, true, errors.New("the leader changed")
	case <-ctx.Done():
		k.abortIfSilent(began)
		return nil, true, ctx.Err()
	}
}

// abortIfSilent ends the connection, and the next caller tries a new one, if nothing
// has come over it for long enough since began; where that is too soon to tell, later.
func (k *link) abortIfSilent(began time.Time) {
	if early := silence - time.Since(began); early > 0 {
		time.AfterFunc(early, func() { k.abortIfSilent(began) })
		return
	}
	k.mu.Lock()
	silent := k.heard.Before(began)
	k.mu.Unlock()
	if silent {
		abort(k.conn)
	}
}

// abort ends a connection at once. What the other side has not acknowledged is taken
// back: after a Close the system goes on sending it, for minutes.
func abort(c net.Conn) {
	raw := c
	for {
		layer, ok := raw.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		raw = layer.NetConn()
	}
	if tcp, ok := raw.(interface{ SetLinger(sec int) error }); ok {
		_ = tcp.SetLinger(0) // it fails if the connection has ended
	}
	_ = raw.Close()
	_ = c.Close()
}

// to returns the connection to the address, which it makes if there is none.
func (l *links) to(ctx context.Context, addr string) (*link, error) {
	l.mu.Lock()
	k := l.open[addr]
	l.mu.Unlock()
	if k != nil {
		return k, nil
	}
	conn, err := l.connect(ctx, addr)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := l.open[addr]; k != nil {
		_ = conn.Close() // another caller was faster
		return k, nil
	}
	k = &link{conn: conn, waiting: map[uint64]chan *messages.MetadataResponse{}}
	if l.open == nil {
		l.open = map[string]*link{}
	}
	l.open[addr] = k
	l.wg.Go(func() {
		k.receive()
		l.mu.Lock()
		delete(l.open, addr)
		l.mu.Unlock()
		k.end()
	})
	return k, nil
}

// wait returns when no connection is left. The mux ends them.
func (l *links) wait() { l.wg.Wait() }

// receive hands out answers until the connection ends.
func (k *link) receive() {
	for {
		response := &messages.MetadataResponse{}
		if err := readFrame(k.conn, response); err != nil {
			return
		}
		k.mu.Lock()
		answer := k.waiting[response.Id]
		delete(k.waiting, response.Id)
		k.heard = time.Now()
		k.mu.Unlock()
		if answer != nil {
			answer <- response
		}
	}
}

// end tells all who wait that no answer comes.
func (k *link) end() {
	_ = k.conn.Close() // it has ended
	k.mu.Lock()
	defer k.mu.Unlock()
	k.broken = true
	for _, answer := range k.waiting {
		close(answer)
	}
	k.waiting = nil
}

// expect returns the id of a request and where its answer will come, or nil where
// the connection has ended.
func (k *link) expect() (uint64, chan *messages.MetadataResponse) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.broken {
		return 0, nil
	}
	k.next++
	answer := make(chan *messages.MetadataResponse, 1)
	k.waiting[k.next] = answer
	return k.next, answer
}

func (k *link) forget(id uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.waiting, id)
}

func (k *link) send(frame []byte, deadline time.Time) error {
	k.writing.Lock()
	defer k.writing.Unlock()
	if err := k.conn.SetWriteDeadline(deadline); err != nil {
		return err
	}
	return write(k.conn, frame)
}

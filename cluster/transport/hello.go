package transport

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
)

// The buffers gather small frames into one read; what is larger is read to where it
// stays, without a stop there. The node that dialled hears a welcome and a goodbye.
const (
	readBuffer    = 64 << 10
	welcomeBuffer = 512
)

// Keepalives are for idle connections, user time-outs for those with bytes on their
// way (see the package comment).
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 3}

// userTimeout is a bound per lane. The one of Control is also how long keepalives may
// stay unanswered.
var userTimeout = [lanes]time.Duration{Control: 10 * time.Second, Data: 90 * time.Second}

// conn is a connection over which both sides have said hello.
type conn struct {
	net.Conn // TLS, with a secret
	raw      net.Conn
	frameReader
	// node is the start at the other end.
	node string
}

// Close ends the connection without a word of TLS, for which it could have to wait.
func (c *conn) Close() error { return c.raw.Close() }

// refusedError is the answer of a node that lets this one not in.
type refusedError struct {
	why    messages.TransportRefusal
	reason string
}

func (e *refusedError) Error() string { return e.reason }

// Is finds the sentinels by which callers decide.
func (e *refusedError) Is(target error) bool {
	return target == ErrEnded && e.why == messages.TransportRefusal_OTHER_START ||
		target == ErrSecret && e.why == messages.TransportRefusal_OTHER_SECRET
}

// ended reports whether a failed dial proves that the process is not there any more:
// nobody listens, or another start does.
func ended(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, ErrEnded)
}

// refused reports whether a dial failed for a reason that another one would not change:
// the two nodes do not belong together.
func refused(err error) bool {
	var answer *refusedError
	return errors.Is(err, ErrSecret) || errors.Is(err, ErrNeedsSecret) ||
		errors.As(err, &answer) && answer.why != messages.TransportRefusal_OTHER_CONNECTION
}

// tune prepares a new TCP connection.
func tune(raw net.Conn, lane Lane) error {
	tcp, ok := raw.(*net.TCPConn)
	if !ok {
		return nil
	}
	socket, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	return errors.Join(tcp.SetNoDelay(true), tcp.SetKeepAliveConfig(keepAlive), setUserTimeout(socket, userTimeout[lane]))
}

// greet says hello over a connection that this node has dialled. It takes the
// connection over, and closes it if the error is not nil.
func (t *Transport) greet(ctx context.Context, raw net.Conn, hello *messages.TransportHello) (*conn, error) {
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	defer stop()
	c := &conn{Conn: raw, raw: raw, node: hello.To}
	if t.tls != nil {
		c.Conn = tls.Client(raw, t.tls)
	}
	c.r = bufio.NewReaderSize(c.Conn, welcomeBuffer)
	err := t.introduce(c, hello)
	if err == nil {
		err = t.setDeadline(c, time.Time{})
	}
	if err != nil {
		raw.Close()
		return nil, explainTLS(err)
	}
	return c, nil
}

func (t *Transport) introduce(c *conn, hello *messages.TransportHello) error {
	frame, err := frameOf(hello)
	if err != nil {
		return err
	}
	if err := t.setDeadline(c, time.Now().Add(t.options.HelloTimeout)); err != nil {
		return err
	}
	if _, err := c.Write(frame); err != nil {
		return err
	}
	welcome := &messages.TransportWelcome{}
	if err := c.first(welcome); err != nil {
		return err
	}
	if welcome.Refusal != messages.TransportRefusal_NOT_REFUSED {
		return &refusedError{welcome.Refusal, fmt.Sprintf("the node at %v answers: %s", c.RemoteAddr(), welcome.Reason)}
	}
	return nil
}

// first reads the first frame, for whose sender nothing speaks yet.
func (c *conn) first(m proto.Message) error {
	begin, err := c.r.Peek(1)
	if err != nil {
		return unexpected(err)
	}
	if tlsRecord(begin[0]) {
		return errTLS
	}
	data, err := c.next(MaxHelloBytes, m)
	if err == nil && data > 0 {
		return fmt.Errorf("%w: a hello with data", errFrame)
	}
	return err
}

// hello returns what this node says at the beginning of a connection.
func (t *Transport) hello(to string, lane Lane) *messages.TransportHello {
	return &messages.TransportHello{Version: Version, ClusterName: t.options.ClusterName, ClusterId: t.options.ClusterID(),
		From: t.options.Node, To: to, Lane: laneMessage(lane), Number: t.dialled.Add(1)}
}

func laneMessage(l Lane) messages.TransportLane {
	if l == Data {
		return messages.TransportLane_DATA_LANE
	}
	return messages.TransportLane_CONTROL_LANE
}

// listenTo hears a hello over an accepted connection. It takes the connection over,
// and closes it if the error is not nil; the connection is not welcomed yet.
func (t *Transport) listenTo(raw net.Conn) (*conn, *messages.TransportHello, error) {
	c := &conn{Conn: raw, raw: raw}
	if t.tls != nil {
		c.Conn = tls.Server(raw, t.tls)
	}
	c.r = bufio.NewReaderSize(c.Conn, readBuffer)
	hello := &messages.TransportHello{}
	err := t.setDeadline(c, time.Now().Add(t.options.HelloTimeout))
	if err == nil {
		err = c.first(hello)
	}
	if err != nil {
		if mixed(err) {
			plain := &conn{Conn: raw, raw: raw, frameReader: frameReader{r: bufio.NewReader(raw)}}
			_ = plain.answer(&messages.TransportWelcome{Version: Version, Node: t.options.Node,
				Refusal: messages.TransportRefusal_OTHER_SECRET, Reason: "one of the two nodes has a cluster secret and the other none; give all nodes the same"})
		}
		raw.Close()
		return nil, nil, explainTLS(err)
	}
	c.node = hello.From
	return c, hello, nil
}

// judge says whether a hello is welcome on a lane.
func (t *Transport) judge(h *messages.TransportHello, lane Lane) *messages.TransportWelcome {
	o := &t.options
	w := &messages.TransportWelcome{Version: Version, Node: o.Node}
	own := o.ClusterID()
	switch {
	case h.Version != Version:
		w.Refusal, w.Reason = messages.TransportRefusal_OTHER_VERSION,
			fmt.Sprintf("this node speaks version %d of the transport, and not %d; run the same release on all nodes", Version, h.Version)
	case h.ClusterName != o.ClusterName:
		w.Refusal, w.Reason = messages.TransportRefusal_OTHER_CLUSTER,
			fmt.Sprintf("this node belongs to the cluster %q, and not to %.80q", o.ClusterName, h.ClusterName)
	case h.ClusterId != "" && own != "" && h.ClusterId != own:
		w.Refusal, w.Reason = messages.TransportRefusal_OTHER_CLUSTER,
			fmt.Sprintf("this node belongs to the cluster %s of the name %s, and not to %.80q", own, o.ClusterName, h.ClusterId)
	case h.To != o.Node:
		w.Refusal, w.Reason = messages.TransportRefusal_OTHER_START, fmt.Sprintf("this is %s, and not %.80q", o.Node, h.To)
	case h.Lane != laneMessage(lane):
		w.Refusal, w.Reason = messages.TransportRefusal_OTHER_LANE, fmt.Sprintf("this is the port for %v", lane)
	case h.From == "":
		w.Refusal, w.Reason = messages.TransportRefusal_OTHER_VERSION, "the hello does not name its sender"
	}
	return w
}

// answer sends a welcome, or a refusal, after which it waits for the other side to
// close.
func (c *conn) answer(w *messages.TransportWelcome) error {
	frame, err := frameOf(w)
	if err != nil {
		return err
	}
	if _, err = c.Write(frame); err != nil {
		return err
	}
	if w.Refusal != messages.TransportRefusal_NOT_REFUSED {
		// Closing with bytes unread would reset the connection, and the answer with it.
		_, _ = io.Copy(io.Discard, io.LimitReader(c.r, MaxHelloBytes))
	}
	return nil
}

// setDeadline bounds all that is done with the connection, by Close if that has begun.
func (t *Transport) setDeadline(c net.Conn, at time.Time) error {
	err := c.SetDeadline(at)
	if t.isClosed() {
		err = c.SetDeadline(time.Now().Add(goodbyeTimeout))
	}
	return err
}

package replicated

import (
	"bytes"
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"cutwater/cluster/metadata/metadatatest"
	"cutwater/messages"
)

// TestOtherTerm: a request that reaches its leader in a later term than that in which
// it was asked is refused, and applied in no case.
func TestOtherTerm(t *testing.T) {
	g := newGroup(t, Options{})
	leader, asker := g.start("a"), g.start("b")
	bootstrap(t, leader)
	g.steer(Policy{}, 1)
	now, _ := g.leader().Leadership()
	for _, term := range []uint64{now.Term - 1, now.Term + 1, now.Term} {
		command := metadatatest.Register(metadatatest.Job)
		request := &messages.MetadataRequest{Term: term, Request: &messages.MetadataRequest_Propose{Propose: command}}
		response, _, err := asker.links.call(deadline(t), leader.addr, nil, request)
		if err != nil || response.Unavailable != (term != now.Term) {
			t.Fatalf("in term %d, asked in term %d: %v, %v", now.Term, term, response, err)
		}
		jobs, err := leader.Jobs(t.Context())
		if applied := len(jobs) > 0; err != nil || applied != (term == now.Term) {
			t.Fatalf("in term %d, asked in term %d: on record are %v, %v", now.Term, term, jobs, err)
		}
	}
}

// TestGivenUpNeverArrives: a request that its asker has given up while it was on its
// way does not arrive afterwards, though the system has taken it.
func TestGivenUpNeverArrives(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	l := links{connect: func(ctx context.Context, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		return &tracked{conn, &mux{}}, conn.(*net.TCPConn).SetWriteBuffer(8 << 20)
	}}
	command := metadatatest.Register(metadatatest.Job)
	command.GetRegisterJob().RestoredFrom = string(bytes.Repeat([]byte("x"), 2<<20)) // more than the window
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	request := &messages.MetadataRequest{Request: &messages.MetadataRequest_Propose{Propose: command}}
	if _, sent, err := l.call(ctx, listener.Addr().String(), nil, request); !sent || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("nobody answers, but: sent %v, %v", sent, err)
	}
	l.wait() // for the end of the connection, after a silence
	stopped, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer stopped.Close()
	if err := readFrame(stopped, &messages.MetadataRequest{}); err == nil {
		t.Fatal("the request arrived")
	}
}

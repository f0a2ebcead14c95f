package replicated

import (
	"bytes"
	"net"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
)

// heard is a connection over which these bytes come.
type heard struct {
	net.Conn
	*bytes.Reader
}

func (h heard) Read(b []byte) (int, error)      { return h.Reader.Read(b) }
func (h heard) SetReadDeadline(time.Time) error { return nil }

// FuzzFrame: whatever comes over a connection is a request or an error, and a request
// survives being sent on.
func FuzzFrame(f *testing.F) {
	for _, request := range []*messages.MetadataRequest{
		{},
		{Id: 7, TimeoutMs: 9, Request: &messages.MetadataRequest_Read{Read: &messages.ReadRecords{Job: "j"}}},
		{Id: 8, Request: &messages.MetadataRequest_Leave{Leave: &messages.LeaveMetadata{NodeId: "n"}}},
	} {
		frame, err := frameOf(request)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(frame)
	}
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		request := &messages.MetadataRequest{}
		if readFrame(heard{Reader: bytes.NewReader(b)}, request) != nil {
			return
		}
		frame, err := frameOf(request)
		if err != nil {
			t.Fatal(err)
		}
		again := &messages.MetadataRequest{}
		if err := readFrame(heard{Reader: bytes.NewReader(frame)}, again); err != nil || !proto.Equal(request, again) {
			t.Fatalf("%v became %v, %v", request, again, err)
		}
	})
}

// FuzzSnapshot: whatever bytes a snapshot has, it is a state or an error.
func FuzzSnapshot(f *testing.F) {
	whole, err := (&snapshot{&messages.MetadataSnapshot{Index: 7, ClusterId: testCluster, Jobs: []*messages.JobRecord{{Job: "a"}}}}).encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		state, err := decodeSnapshot(b)
		if (state == nil) != (err != nil) {
			t.Fatalf("%v, %v", state, err)
		}
	})
}

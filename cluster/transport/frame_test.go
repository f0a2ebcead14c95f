package transport

import (
	"bufio"
	"bytes"
	"errors"
	"testing"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
)

// Whatever arrives is read to the end or refused, without a panic, without more memory
// than bytes came, and what is read is what would be written.
func FuzzFrame(f *testing.F) {
	for _, m := range []proto.Message{batch(1, "some records"), heartbeat(2), &messages.Watermark{Seq: 3}} {
		e, data, _ := seal(to(nodeA), m)
		frame, err := appendFrame(nil, e, proto.Size(e), data)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(frame)
		f.Add(frame[:len(frame)-1])
	}
	f.Add([]byte{0, 0, 0, 2, 0, 0, 0, 0, 0x12, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := frameReader{r: bufio.NewReader(bytes.NewReader(b))}
		for {
			e := &messages.Envelope{}
			length, err := r.next(MaxFrameBytes, e)
			if err != nil {
				return
			}
			data, err := r.data(nil, length)
			if cap(data) > 2*len(b)+2*readStep {
				t.Fatalf("%d bytes claimed %d", len(b), cap(data))
			}
			if err != nil {
				return
			}
			m := unseal(e)
			again, err := appendFrame(nil, e, proto.Size(e), data)
			if err != nil {
				t.Fatal(err)
			}
			second := frameReader{r: bufio.NewReader(bytes.NewReader(again))}
			other := &messages.Envelope{}
			if n, err := second.next(MaxFrameBytes, other); err != nil || n != length || !proto.Equal(e, other) {
				t.Fatalf("written and read again it is another one: %v, %v", other, err)
			}
			if m == nil && len(e.ProtoReflect().GetUnknown()) == 0 && e.Body != nil {
				t.Fatalf("nothing is in %v", e)
			}
		}
	})
}

// The queue gives back in order what was put in, in whole frames, and refuses what is
// too much without a trace.
func TestQueue(t *testing.T) {
	var q queue
	put := func(m proto.Message, limit int) error {
		e, data, _ := seal("x", m)
		return q.put(e, data, limit)
	}
	if _, ok := q.take(); ok {
		t.Error("something is in an empty queue")
	}
	const count = 40
	for i := range uint64(count) {
		size := 20_000
		if i == 7 {
			size = 2 * chunkBytes
		}
		if err := put(batch(i, string(make([]byte, size))), 1<<30); err != nil {
			t.Fatal(err)
		}
	}
	before := q.bytes
	if err := put(batch(count, "x"), before); !errors.Is(err, ErrQueueFull) {
		t.Errorf("over the limit: %v", err)
	}
	if err := put(&messages.RecordBatch{Data: make([]byte, MaxFrameBytes)}, 1<<30); !errors.Is(err, errTooLarge) {
		t.Errorf("too large: %v", err)
	}
	if err := put(&messages.Heartbeat{Node: "\xff"}, 1<<30); err == nil {
		t.Error("a message that cannot be encoded was taken")
	}
	if q.bytes != before {
		t.Errorf("%d bytes are counted, of %d", q.bytes, before)
	}
	next := uint64(0)
	for c, ok := q.take(); ok; c, ok = q.take() {
		r := frameReader{r: bufio.NewReader(bytes.NewReader(c.frames))}
		for range c.messages {
			e := &messages.Envelope{}
			n, err := r.next(MaxFrameBytes, e)
			if err != nil {
				t.Fatal(err)
			}
			if err := r.skip(n); err != nil {
				t.Fatal(err)
			}
			if e.GetRecordBatch().GetSeq() != next {
				t.Fatalf("number %d came as %d", e.GetRecordBatch().GetSeq(), next)
			}
			next++
		}
		if _, err := r.r.ReadByte(); err == nil {
			t.Error("a run does not end with a frame")
		}
		c.free()
	}
	if next != count || q.bytes != 0 {
		t.Errorf("%d of %d came, %d bytes are left", next, count, q.bytes)
	}
	// A message that is larger than the limit may wait alone.
	if err := put(batch(0, "alone"), 3); err != nil {
		t.Error(err)
	}
	if n, bytes := q.drop(); n != 1 || bytes == 0 || q.bytes != 0 {
		t.Errorf("dropped %d messages, %d bytes", n, bytes)
	}
}

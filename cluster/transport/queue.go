package transport

import (
	"errors"
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
)

// chunkBytes is how much is gathered for one write, where there is more than one
// message to write.
const chunkBytes = 256 << 10

// chunk is a run of whole frames, so that what is lost of a queue is whole messages.
type chunk struct {
	frames   []byte
	messages uint64
}

// chunkPool has the memory of chunks that were written. All lanes share it: one that
// has nothing to write holds none.
var chunkPool = sync.Pool{New: func() any { return new([chunkBytes]byte) }}

// free gives the memory of a chunk back, whose frames are not used any more.
func (c chunk) free() {
	if cap(c.frames) == chunkBytes {
		chunkPool.Put((*[chunkBytes]byte)(c.frames[:chunkBytes]))
	}
}

// queue holds what waits to be written, encoded, in order.
type queue struct {
	chunks []chunk
	bytes  int
}

// errTooLarge: the message is larger than MaxFrameBytes.
var errTooLarge = errors.New("transport: the message is too large")

// put appends a message and the data beside it. Nothing has changed if it fails: with
// ErrQueueFull if the message does not fit into limit bytes with what is there, unless
// it is alone; or because it is too large, or cannot be encoded.
func (q *queue) put(e *messages.Envelope, data []byte, limit int) error {
	size := proto.Size(e)
	frame := frameHeader + size + len(data)
	switch {
	case size+len(data) > MaxFrameBytes:
		return fmt.Errorf("%w: it has %d bytes, and at most %d can travel", errTooLarge, size+len(data), MaxFrameBytes)
	case q.bytes > 0 && q.bytes+frame > limit:
		return ErrQueueFull
	}
	last := len(q.chunks) - 1
	if last < 0 || len(q.chunks[last].frames)+frame > chunkBytes {
		q.chunks = append(q.chunks, newChunk(frame))
		last++
	}
	c := &q.chunks[last]
	frames, err := appendFrame(c.frames, e, size, data)
	if err != nil {
		return err // c keeps its length
	}
	c.frames = frames
	c.messages++
	q.bytes += frame
	return nil
}

// newChunk is an empty one with room for a frame.
func newChunk(frame int) chunk {
	if frame > chunkBytes {
		return chunk{frames: make([]byte, 0, frame)}
	}
	return chunk{frames: chunkPool.Get().(*[chunkBytes]byte)[:0]}
}

// take removes the oldest chunk; not ok if nothing waits.
func (q *queue) take() (c chunk, ok bool) {
	if q.bytes == 0 {
		return chunk{}, false
	}
	c = q.chunks[0]
	n := copy(q.chunks, q.chunks[1:])
	q.chunks[n] = chunk{}
	q.chunks = q.chunks[:n]
	q.bytes -= len(c.frames)
	return c, true
}

// drop empties the queue and returns how many messages and bytes it held.
func (q *queue) drop() (messages uint64, bytes int) {
	for _, c := range q.chunks {
		messages += c.messages
		c.free()
	}
	bytes = q.bytes
	*q = queue{}
	return messages, bytes
}

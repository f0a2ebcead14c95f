package transport

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"cutwater/messages"
	"cutwater/protocol"
)

// A frame is two lengths in 4 bytes each, big endian, a message, and data (see
// messages/proto/transport.proto). The data of a batch is beside the message, so that
// it is copied once on each side: into what is written, and to where it stays.
const frameHeader = 8

// readStep bounds the memory that a length alone can claim: more is taken as bytes
// come.
const readStep = 1 << 20

// errFrame: what arrived is no frame of this protocol.
var errFrame = errors.New("transport: a damaged frame")

// bodies are the fields of Envelope.body by the name of their message, without the
// transport's own.
var bodies = func() map[protoreflect.FullName]protoreflect.FieldDescriptor {
	all := map[protoreflect.FullName]protoreflect.FieldDescriptor{}
	for i := range bodyOneof.Fields().Len() {
		f := bodyOneof.Fields().Get(i)
		all[f.Message().FullName()] = f
	}
	delete(all, (*messages.TransportGoodbye)(nil).ProtoReflect().Descriptor().FullName())
	return all
}()

var bodyOneof = (*messages.Envelope)(nil).ProtoReflect().Descriptor().Oneofs().ByName("body")

// seal makes the envelope of a message, and returns the data that travels beside it;
// not ok if messages of this kind do not travel.
func seal(to protocol.Address, m proto.Message) (e *messages.Envelope, data []byte, ok bool) {
	e = &messages.Envelope{To: string(to)}
	if b, is := m.(*messages.RecordBatch); is {
		// Another holder may read b: it is not touched.
		e.Body = &messages.Envelope_RecordBatch{RecordBatch: &messages.RecordBatch{
			Attempt: b.Attempt, Channel: b.Channel, Seq: b.Seq, Count: b.Count, FixedWidth: b.FixedWidth}}
		return e, b.Data, true
	}
	field, ok := bodies[m.ProtoReflect().Descriptor().FullName()]
	if ok {
		e.ProtoReflect().Set(field, protoreflect.ValueOfMessage(m.ProtoReflect()))
	}
	return e, nil, ok
}

// unseal returns the message in an envelope, without the data beside it; nil if its
// kind is not known.
func unseal(e *messages.Envelope) proto.Message {
	if b, ok := e.Body.(*messages.Envelope_RecordBatch); ok {
		return b.RecordBatch
	}
	field := e.ProtoReflect().WhichOneof(bodyOneof)
	if field == nil {
		return nil
	}
	return e.ProtoReflect().Get(field).Message().Interface()
}

// appendFrame appends a frame, whose message must have been sized by proto.Size just
// before. The error is that of a message that cannot be encoded.
func appendFrame(to []byte, m proto.Message, size int, data []byte) ([]byte, error) {
	to = binary.BigEndian.AppendUint32(to, uint32(size))
	to = binary.BigEndian.AppendUint32(to, uint32(len(data)))
	to, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(to, m)
	return append(to, data...), err
}

// frameOf is a frame of a message without data.
func frameOf(m proto.Message) ([]byte, error) {
	size := proto.Size(m)
	return appendFrame(make([]byte, 0, frameHeader+size), m, size, nil)
}

// frameReader reads frames from a connection.
type frameReader struct {
	r       *bufio.Reader
	message []byte // reused
	size    int    // of the last frame
}

// next reads one message, of at most limit bytes with its data, into m, and returns
// the length of the data that follows, to be read with [frameReader.data].
func (f *frameReader) next(limit int64, m proto.Message) (data int, err error) {
	var header [frameHeader]byte
	if _, err := io.ReadFull(f.r, header[:]); err != nil {
		return 0, err
	}
	size, rest := int64(binary.BigEndian.Uint32(header[:])), int64(binary.BigEndian.Uint32(header[4:]))
	if size+rest > limit {
		return 0, fmt.Errorf("%w: it says that it has %d bytes, and %d are allowed", errFrame, size+rest, limit)
	}
	if f.message, err = f.data(f.message[:0], int(size)); err != nil {
		return 0, err
	}
	f.size = int(frameHeader + size + rest)
	if err := proto.Unmarshal(f.message, m); err != nil {
		return 0, fmt.Errorf("%w: %w", errFrame, err)
	}
	if cap(f.message) > readStep {
		f.message = nil
	}
	return int(rest), nil
}

// data appends so many bytes to a buffer.
func (f *frameReader) data(to []byte, length int) ([]byte, error) {
	for length > 0 {
		at, n := len(to), min(length, readStep)
		to = slices.Grow(to, n)[:at+n]
		if _, err := io.ReadFull(f.r, to[at:]); err != nil {
			return to[:at], unexpected(err)
		}
		length -= n
	}
	return to, nil
}

// skip leaves out the data of a message that nobody wants.
func (f *frameReader) skip(length int) error {
	_, err := f.r.Discard(length)
	return unexpected(err)
}

// unexpected says that an end inside a frame is none.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

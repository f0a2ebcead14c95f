package replicated

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"google.golang.org/protobuf/proto"
)

// A frame is the length of a message in 4 bytes, big endian, and the message.
const (
	frameHeader = 4
	maxFrame    = 64 << 20
	// frameTimeout bounds how long one frame may take from its first byte on.
	frameTimeout = 30 * time.Second
)

// frameOf encodes a message as a frame.
func frameOf(m proto.Message) ([]byte, error) {
	b, err := proto.MarshalOptions{}.MarshalAppend(make([]byte, frameHeader), m)
	if err != nil {
		return nil, err
	}
	if len(b)-frameHeader > maxFrame {
		return nil, fmt.Errorf("metadata: a message of %d bytes is larger than %d; retain fewer checkpoints, or use storage: filesystem", len(b)-frameHeader, maxFrame)
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-frameHeader))
	return b, nil
}

// readFrame waits for a frame as long as it takes, but not for its end.
func readFrame(c net.Conn, m proto.Message) error {
	var header [frameHeader]byte
	if _, err := io.ReadFull(c, header[:]); err != nil {
		return err
	}
	length := int64(binary.BigEndian.Uint32(header[:]))
	if length > maxFrame {
		return fmt.Errorf("metadata: a frame of %d bytes is larger than %d", length, maxFrame)
	}
	if err := c.SetReadDeadline(time.Now().Add(frameTimeout)); err != nil {
		return err
	}
	// ReadAll takes memory as bytes come, not as a length promises.
	b, err := io.ReadAll(io.LimitReader(c, length))
	if err != nil {
		return err
	}
	if int64(len(b)) < length {
		return io.ErrUnexpectedEOF
	}
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	return proto.Unmarshal(b, m)
}

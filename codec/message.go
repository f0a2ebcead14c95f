package codec

import (
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/proto"
)

// JSON encodes values with encoding/json: convenient, and slower than Struct by
// a factor of fifty or so. A value that cannot be marshalled is a panic, which
// the operator that emits it reports.
func JSON[T any]() Codec[T] { return jsonCodec[T]{} }

type jsonCodec[T any] struct{}

func (jsonCodec[T]) Width() int { return textWidth }

func (jsonCodec[T]) Schema() string {
	var zero T
	return fmt.Sprintf("json(%T)", zero)
}

func (jsonCodec[T]) Encode(fixed, text []byte, v T) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Errorf("codec: value of type %T cannot be written as JSON: %w", v, err))
	}
	return putBytes(fixed, text, b)
}

func (jsonCodec[T]) Decode(fixed []byte, text string, v *T) error {
	s, err := getText(fixed, text)
	if err != nil {
		return err
	}
	var fresh T
	if err := json.Unmarshal([]byte(s), &fresh); err != nil {
		return fmt.Errorf("%w: %v", ErrDecode, err)
	}
	*v = fresh
	return nil
}

// Proto encodes protobuf messages; T is a pointer such as *messages.Split.
func Proto[T proto.Message]() Codec[T] { return protoCodec[T]{} }

type protoCodec[T proto.Message] struct{}

func (protoCodec[T]) Width() int { return textWidth }

func (c protoCodec[T]) Schema() string {
	var zero T
	return c.schema(zero)
}

func (protoCodec[T]) schema(m proto.Message) string {
	return "proto(" + string(m.ProtoReflect().Descriptor().FullName()) + ")"
}

func (protoCodec[T]) Encode(fixed, text []byte, v T) []byte {
	from := len(text)
	text, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(text, v)
	if err != nil {
		panic(fmt.Errorf("codec: message %T cannot be written: %w", v, err))
	}
	setText(fixed, from, len(text)-from)
	return text
}

func (c protoCodec[T]) Decode(fixed []byte, text string, v *T) error {
	var zero T
	m, err := c.decode(fixed, text, zero)
	if err != nil {
		return err
	}
	*v = m.(T)
	return nil
}

func (protoCodec[T]) decode(fixed []byte, text string, like proto.Message) (proto.Message, error) {
	s, err := getText(fixed, text)
	if err != nil {
		return nil, err
	}
	fresh := like.ProtoReflect().New().Interface()
	if err := proto.Unmarshal([]byte(s), fresh); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrDecode, err)
	}
	return fresh, nil
}

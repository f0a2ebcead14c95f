package codec

import (
	"reflect"

	"google.golang.org/protobuf/proto"
)

// Of returns the codec of a Go type: that of the basic type, protobuf for a
// message, otherwise Struct. It fails for types that need a decision, such as
// maps and slices.
func Of[T any]() (Codec[T], error) {
	var zero T
	var found any
	switch any(zero).(type) {
	case int64:
		found = Int64()
	case uint64:
		found = Uint64()
	case float64:
		found = Float64()
	case bool:
		found = Bool()
	case string:
		found = String()
	case []byte:
		found = Bytes()
	case proto.Message:
		if reflect.TypeOf(zero).Kind() == reflect.Pointer {
			return anyProto[T]{}, nil
		}
	}
	if found != nil {
		return found.(Codec[T]), nil
	}
	return Struct[T]()
}

// anyProto is Proto for a type that is known to be a message only at run time.
type anyProto[T any] struct{}

func (anyProto[T]) Width() int     { return textWidth }
func (anyProto[T]) Schema() string { return protoCodec[proto.Message]{}.schema(zeroMessage[T]()) }

func (anyProto[T]) Encode(fixed, text []byte, v T) []byte {
	return protoCodec[proto.Message]{}.Encode(fixed, text, any(v).(proto.Message))
}

func (anyProto[T]) Decode(fixed []byte, text string, v *T) error {
	m, err := protoCodec[proto.Message]{}.decode(fixed, text, zeroMessage[T]())
	if err != nil {
		return err
	}
	*v = m.(T)
	return nil
}

func zeroMessage[T any]() proto.Message {
	var zero T
	return any(zero).(proto.Message)
}

package api

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// appendMessage appends a message as JSON: its fields under their own names and in
// their order, numbers as numbers, enums by name. A scalar is there even if it is
// zero; a message that is not set is null. Package protojson reads it.
func appendMessage(b []byte, m protoreflect.Message) ([]byte, error) {
	fields := m.Descriptor().Fields()
	b = append(b, '{')
	for i := range fields.Len() {
		f := fields.Get(i)
		if f.ContainingOneof() != nil && !m.Has(f) {
			continue
		}
		if b[len(b)-1] != '{' {
			b = append(b, ',')
		}
		b = strconv.AppendQuote(b, string(f.Name()))
		b = append(b, ':')
		var err error
		if b, err = appendField(b, m, f); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func appendField(b []byte, m protoreflect.Message, f protoreflect.FieldDescriptor) ([]byte, error) {
	v := m.Get(f)
	switch {
	case f.IsMap():
		return nil, fmt.Errorf("the field %s is a map, which no answer has", f.FullName())
	case f.IsList():
		var err error
		list := v.List()
		b = append(b, '[')
		for i := range list.Len() {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = appendValue(b, f, list.Get(i)); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	case f.Message() != nil && !m.Has(f):
		return append(b, "null"...), nil
	}
	return appendValue(b, f, v)
}

func appendValue(b []byte, f protoreflect.FieldDescriptor, v protoreflect.Value) ([]byte, error) {
	switch f.Kind() {
	case protoreflect.MessageKind:
		return appendMessage(b, v.Message())
	case protoreflect.EnumKind:
		if known := f.Enum().Values().ByNumber(v.Enum()); known != nil {
			return strconv.AppendQuote(b, string(known.Name())), nil
		}
		return strconv.AppendInt(b, int64(v.Enum()), 10), nil
	case protoreflect.BytesKind:
		return strconv.AppendQuote(b, base64.StdEncoding.EncodeToString(v.Bytes())), nil
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		if x := v.Float(); math.IsNaN(x) || math.IsInf(x, 0) {
			return append(b, `"NaN"`...), nil
		}
	}
	text, err := json.Marshal(v.Interface())
	return append(b, text...), err
}

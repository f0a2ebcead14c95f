// Package describe prints messages as one stable line, for golden files, traces
// and logs. The printers of the protobuf library vary their output on purpose.
package describe

import (
	"encoding/hex"
	"fmt"
	"sort"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxBytes is how much of a bytes field is printed.
const maxBytes = 32

// Text returns the message as `Name{field:value ...}`: fields in the order of
// their numbers, unset ones left out.
func Text(m proto.Message) string {
	if m == nil {
		return "nil"
	}
	var b strings.Builder
	message(&b, m.ProtoReflect(), true)
	return b.String()
}

func message(b *strings.Builder, m protoreflect.Message, named bool) {
	if named {
		b.WriteString(string(m.Descriptor().Name()))
	}
	b.WriteByte('{')
	var set []protoreflect.FieldDescriptor
	m.Range(func(fd protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		set = append(set, fd)
		return true
	})
	sort.Slice(set, func(i, j int) bool { return set[i].Number() < set[j].Number() })
	for i, fd := range set {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(string(fd.Name()))
		b.WriteByte(':')
		value(b, fd, m.Get(fd))
	}
	b.WriteByte('}')
}

func value(b *strings.Builder, fd protoreflect.FieldDescriptor, v protoreflect.Value) {
	switch {
	case fd.IsList():
		b.WriteByte('[')
		for i := range v.List().Len() {
			if i > 0 {
				b.WriteByte(' ')
			}
			scalar(b, fd, v.List().Get(i))
		}
		b.WriteByte(']')
	case fd.IsMap():
		var lines []string
		v.Map().Range(func(k protoreflect.MapKey, mv protoreflect.Value) bool {
			var e strings.Builder
			fmt.Fprintf(&e, "%v:", k.Interface())
			scalar(&e, fd.MapValue(), mv)
			lines = append(lines, e.String())
			return true
		})
		sort.Strings(lines)
		b.WriteString("{" + strings.Join(lines, " ") + "}")
	default:
		scalar(b, fd, v)
	}
}

func scalar(b *strings.Builder, fd protoreflect.FieldDescriptor, v protoreflect.Value) {
	switch fd.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		message(b, v.Message(), false)
	case protoreflect.EnumKind:
		if ev := fd.Enum().Values().ByNumber(v.Enum()); ev != nil {
			b.WriteString(string(ev.Name()))
		} else {
			fmt.Fprint(b, v.Enum())
		}
	case protoreflect.BytesKind:
		raw := v.Bytes()
		head := raw[:min(len(raw), maxBytes)]
		if utf8.Valid(head) {
			fmt.Fprintf(b, "%q", head)
		} else {
			b.WriteString("0x" + hex.EncodeToString(head))
		}
		if len(raw) > maxBytes {
			fmt.Fprintf(b, "..(%d bytes)", len(raw))
		}
	case protoreflect.StringKind:
		s := v.String()
		if s == "" || strings.ContainsAny(s, " {}[]\"\n") {
			fmt.Fprintf(b, "%q", s)
		} else {
			b.WriteString(s)
		}
	default:
		fmt.Fprint(b, v.Interface())
	}
}

package stream

import "cutwater/codec"

// Side names a side output of records of type S. Make it once, as a package
// variable, and use it both where it is filled and in SideOf.
type Side[S any] struct {
	name  string
	codec codec.Codec[S]
	err   error
}

// NewSide names a side output; the codec is found by codec.Of unless given.
func NewSide[S any](name string, c ...codec.Codec[S]) Side[S] {
	s := Side[S]{name: name}
	if len(c) > 0 {
		s.codec = c[0]
	} else {
		s.codec, s.err = codec.Of[S]()
	}
	return s
}

// Late is the side output of a Window that gets the records which come too late;
// T is the window's input.
func Late[T any]() Side[T] { return Side[T]{name: "late"} }

// Malformed is the side output of a source with OnMalformed(SideOutput).
func Malformed() Side[MalformedRecord] { return Side[MalformedRecord]{name: "malformed"} }

// MalformedRecord is what a source could not read, see MalformedError.
type MalformedRecord struct {
	Where   string
	Offset  int64
	Line    int64
	Problem string
	Raw     string
}

// SideOf is the stream of a side output of the operator whose main output is s.
func SideOf[T, S any](s Stream[T], which Side[S]) Stream[S] {
	for _, e := range s.ends {
		for _, have := range e.from.sides {
			if have.name != which.name {
				continue
			}
			c, ok := have.codec.(codec.Codec[S])
			if !ok && have.codec != nil { // without a codec it has been reported
				var zero S
				s.t.failf(e.from, "its side output %q does not carry %T", which.name, zero)
			}
			return Stream[S]{t: s.t, ends: []end{{e.from, which.name}}, codec: c}
		}
	}
	s.t.failf(s.ends[0].from, "it has no side output %q", which.name)
	return Stream[S]{t: s.t, ends: []end{{s.ends[0].from, which.name}}}
}

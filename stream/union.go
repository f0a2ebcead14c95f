package stream

// Union is one stream with the records of several, in no particular order; its
// watermark is the lowest of theirs. It is not an operator: the next one reads
// all of them. Their codecs must be the same.
func Union[T any](first Stream[T], more ...Stream[T]) Stream[T] {
	u := Stream[T]{t: first.t, ends: append([]end(nil), first.ends...), codec: first.codec}
	for _, s := range more {
		e := s.ends[0]
		switch {
		case s.t != first.t:
			first.t.failf(e.from, "it belongs to topology %q and is part of a union in %q", s.t.name, first.t.name)
		case s.codec != nil && first.codec != nil && s.codec.Schema() != first.codec.Schema():
			first.t.failf(e.from, "its records are encoded as %s and those of %q, which it is united with, as %s; make them the same", s.codec.Schema(), first.ends[0].from.uid, first.codec.Schema())
		}
		u.ends = append(u.ends, s.ends...)
	}
	return u
}

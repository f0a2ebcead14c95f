package stream

import (
	"fmt"
	"strings"

	"cutwater/codec"
	"cutwater/state"
)

// States is where a processor's Open declares its keyed state and its side
// outputs. The functions ValueState, ListState, MapState, ReducingState,
// AggregatingState and SideEmit take it; what they return is kept in the
// processor. Mistakes are reported by Build.
type States struct {
	node  *node
	chain *chain // nil while declaring
	scope state.Scope
	// declaring: Build wants to know what is declared, nothing can be used.
	declaring bool
	recorder  *recorder
	errs      []error
}

// declare makes handles record what they would be.
func (s *States) declare(key interface {
	Width() int
	Schema() string
}) {
	s.recorder = &recorder{}
	s.scope = state.Scope{Backend: s.recorder, Cursor: &state.Cursor{}, KeyWidth: key.Width(), KeySchema: key.Schema()}
}

// schema describes what was declared.
func (s *States) schema() string {
	if s.recorder == nil {
		return ""
	}
	return strings.Join(s.recorder.declared, "; ")
}

// ValueState declares one value per key; the codec is found by codec.Of unless
// given.
func ValueState[V any](s *States, name string, c ...codec.Codec[V]) *state.Value[V] {
	return handle(s, name, c, state.NewValue[V])
}

// ListState declares a list of values per key.
func ListState[V any](s *States, name string, c ...codec.Codec[V]) *state.List[V] {
	return handle(s, name, c, state.NewList[V])
}

// MapState declares a map per key.
func MapState[MK, V any](s *States, name string) *state.Map[MK, V] {
	keys, err := codec.Of[MK]()
	if err != nil {
		s.fail(name, err)
		return nil
	}
	return handle(s, name, nil, func(scope state.Scope, name string, values codec.Codec[V]) (*state.Map[MK, V], error) {
		return state.NewMap(scope, name, keys, values)
	})
}

// ReducingState declares one value per key that others are combined into.
func ReducingState[V any](s *States, name string, reduce func(a, b V) V, c ...codec.Codec[V]) *state.Reducing[V] {
	return handle(s, name, c, func(scope state.Scope, name string, c codec.Codec[V]) (*state.Reducing[V], error) {
		return state.NewReducing(scope, name, c, reduce)
	})
}

// AggregatingState declares one accumulator per key.
func AggregatingState[IN, ACC, OUT any](s *States, name string, f state.Aggregate[IN, ACC, OUT], c ...codec.Codec[ACC]) *state.Aggregating[IN, ACC, OUT] {
	return handle(s, name, c, func(scope state.Scope, name string, c codec.Codec[ACC]) (*state.Aggregating[IN, ACC, OUT], error) {
		return state.NewAggregating(scope, name, c, f)
	})
}

// SideEmit declares a side output and returns the function that emits to it.
func SideEmit[S any](s *States, which Side[S]) Emit[S] {
	if which.err != nil {
		s.errs = append(s.errs, fmt.Errorf("its side output %q has no codec: %w; give one to NewSide", which.name, which.err))
	}
	if s.declaring {
		for _, have := range s.node.sides {
			if have.name == which.name {
				s.errs = append(s.errs, fmt.Errorf("its side output %q is declared twice", which.name))
			}
		}
		s.node.sides = append(s.node.sides, side{which.name, which.codec})
		return nil
	}
	emit, err := emitter(s.chain, s.node, which.name, which.codec)
	if err != nil {
		s.errs = append(s.errs, err)
		return nil
	}
	c, n := s.chain, s.node
	return func(v S, ts int64) {
		emit(v, ts)
		c.at = n
	}
}

// handle makes a handle of keyed state.
func handle[V, H any](s *States, name string, given []codec.Codec[V], make func(state.Scope, string, codec.Codec[V]) (*H, error)) *H {
	if s.scope.Backend == nil {
		s.errs = append(s.errs, fmt.Errorf("its state %q is keyed and its input is not; use KeyBy and Process", name))
		return nil
	}
	var c codec.Codec[V]
	if len(given) > 0 {
		c = given[0]
	} else {
		var err error
		if c, err = codec.Of[V](); err != nil {
			s.fail(name, err)
			return nil
		}
	}
	h, err := make(s.scope, name, c)
	if err != nil {
		s.fail(name, err)
	}
	return h
}

func (s *States) fail(name string, err error) {
	s.errs = append(s.errs, fmt.Errorf("its state %q: %w", name, err))
}

// recorder is what handles see in place of a backend while Build looks at
// declarations.
type recorder struct {
	names    []string
	declared []string
}

func (r *recorder) Table(d state.Descriptor) (*state.Table, error) {
	if contains(r.names, d.Name) {
		return nil, fmt.Errorf("the name is taken by another state of the operator")
	}
	r.names = append(r.names, d.Name)
	r.declared = append(r.declared, d.Name+": "+d.Schema)
	return &state.Table{}, nil
}

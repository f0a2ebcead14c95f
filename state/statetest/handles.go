package statetest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"

	"cutwater/codec"
	"cutwater/protocol/keygroup"
	"cutwater/state"
)

// int64Codec has no text and is kept in place.
type int64Codec struct{}

func (int64Codec) Width() int     { return 8 }
func (int64Codec) HasText() bool  { return false }
func (int64Codec) Schema() string { return "int64" }
func (int64Codec) Encode(fixed, text []byte, v int64) []byte {
	binary.LittleEndian.PutUint64(fixed, uint64(v))
	return text
}
func (int64Codec) Decode(fixed []byte, _ string, v *int64) error {
	*v = int64(binary.LittleEndian.Uint64(fixed))
	return nil
}

// stringCodec has offset and length in the fixed part, and text.
type stringCodec struct{}

func (stringCodec) Width() int     { return 8 }
func (stringCodec) Schema() string { return "string" }
func (stringCodec) Encode(fixed, text []byte, v string) []byte {
	binary.LittleEndian.PutUint32(fixed, uint32(len(text)))
	binary.LittleEndian.PutUint32(fixed[4:], uint32(len(v)))
	return append(text, v...)
}
func (stringCodec) Decode(fixed []byte, text string, v *string) error {
	from, n := int(binary.LittleEndian.Uint32(fixed)), int(binary.LittleEndian.Uint32(fixed[4:]))
	if from > len(text) || n > len(text)-from {
		return errors.New("a string past the text")
	}
	*v = text[from : from+n]
	return nil
}

var (
	_ codec.Codec[int64]  = int64Codec{}
	_ codec.Codec[string] = stringCodec{}
)

// handles: typed state does what its Flink namesake does, per key and namespace,
// for keys of fixed and of varying width, before and after a restore.
func handles(t *testing.T, open Open) {
	for _, fixed := range []bool{true, false} {
		for _, namespaced := range []bool{true, false} {
			t.Run(fmt.Sprintf("fixed=%v,namespaced=%v", fixed, namespaced), func(t *testing.T) {
				handlesOf(t, open, fixed, namespaced)
			})
		}
	}
}

type handleSet struct {
	cursor  *state.Cursor
	fixed   bool
	number  *state.Value[int64]
	text    *state.Value[string]
	list    *state.List[string]
	numbers *state.List[int64]
	m       *state.Map[string, int64]
	names   *state.Map[int64, string]
	largest *state.Reducing[int64]
	mean    *state.Aggregating[int64, string, int]
}

func must[H any](h H, err error) H {
	if err != nil {
		panic(err)
	}
	return h
}

func declareHandles(b state.Backend, fixed, namespaced bool) *handleSet {
	c := &state.Cursor{}
	s := state.Scope{Backend: b, Cursor: c, KeySchema: "k", Namespaced: namespaced}
	if fixed {
		s.KeyWidth = 8
	}
	return &handleSet{
		cursor: c, fixed: fixed,
		number:  must(state.NewValue(s, "number", int64Codec{})),
		text:    must(state.NewValue(s, "text", stringCodec{})),
		list:    must(state.NewList(s, "list", stringCodec{})),
		numbers: must(state.NewList(s, "numbers", int64Codec{})),
		m:       must(state.NewMap(s, "map", stringCodec{}, int64Codec{})),
		names:   must(state.NewMap(s, "names", int64Codec{}, stringCodec{})),
		largest: must(state.NewReducing(s, "largest", int64Codec{}, func(a, b int64) int64 { return max(a, b) })),
		mean: must(state.NewAggregating(s, "concat", stringCodec{}, state.Aggregate[int64, string, int]{
			Create: func() string { return ">" },
			Add:    func(acc *string, in int64) { *acc += fmt.Sprint(in) },
			Result: func(acc *string) int { return len(*acc) },
		})),
	}
}

// key makes a key and namespace current, and announces others, which must not
// change anything: more than are served at once, known, unknown and evicted ones.
func (s *handleSet) key(i int, namespace int64) {
	var ahead [state.AheadAtOnce + 1]uint64
	for j := range ahead {
		s.cursor.Key = keygroup.AppendInt(s.cursor.Key[:0], int64(i+j))
		ahead[j] = keygroup.Hash(s.cursor.Key)
	}
	s.cursor.Ahead(ahead[:])
	if s.fixed {
		s.cursor.Key = keygroup.AppendInt(s.cursor.Key[:0], int64(i))
	} else {
		s.cursor.Key = fmt.Append(s.cursor.Key[:0], i)
	}
	s.cursor.Hash, s.cursor.Namespace = keygroup.Hash(s.cursor.Key), namespace
}

func handlesOf(t *testing.T, open Open, fixed, namespaced bool) {
	b := open(t, everything())
	s := declareHandles(b, fixed, namespaced)
	for i := range 50 {
		s.key(i, int64(i%2))
		s.number.Set(int64(i))
		s.number.Modify(func(v *int64, existed bool) {
			if !existed {
				t.Fatalf("key %d: the number is gone", i)
			}
			*v *= 2
		})
		s.text.Set(fmt.Sprint("text ", i))
		for n := range 5 {
			s.list.Add(fmt.Sprint(i, "/", n))
			s.numbers.Add(int64(i + n))
			s.m.Put(fmt.Sprint("k", n), int64(i*n))
			s.names.Put(int64(n), fmt.Sprint("name ", n))
			s.largest.Add(int64((n * 3) % 7))
			s.mean.Add(int64(n))
		}
		s.m.Put("k1", -1)
		if !s.m.Remove("k0") || s.m.Remove("k0") {
			t.Fatalf("key %d: remove", i)
		}
	}
	check := func(s *handleSet) {
		t.Helper()
		for i := range 50 {
			s.key(i, int64(i%2))
			checkHandles(t, s, i)
			if namespaced {
				s.key(i, int64(1-i%2))
				if _, ok := s.number.Get(); ok || s.m.Len() != 0 || s.list.Get() != nil {
					t.Fatalf("key %d: the other namespace is not empty", i)
				}
			}
		}
	}
	check(s)
	r := restored(t, open, everything(), write(t, seal(t, b, 1, state.SealOptions{})))
	s = declareHandles(r, fixed, namespaced)
	check(s)
	for i := range 50 {
		s.key(i, int64(i%2))
		for k := range s.m.All() {
			s.m.Remove(k)
		}
		s.names.Clear()
		s.number.Clear()
		s.text.Clear()
		s.list.Set(nil)
		s.numbers.Set([]int64{4, 5})
		s.largest.Clear()
		s.mean.Clear()
		_, number := s.number.Get()
		_, largest := s.largest.Get()
		_, mean := s.mean.Get()
		if s.m.Len() != 0 || s.names.Len() != 0 || number || largest || mean || !slices.Equal(s.numbers.Get(), []int64{4, 5}) {
			t.Fatalf("key %d: clear left something", i)
		}
	}
	closeAll(t, b, r)
}

func checkHandles(t *testing.T, s *handleSet, i int) {
	t.Helper()
	if v, ok := s.number.Get(); !ok || v != int64(2*i) {
		t.Fatalf("key %d: number %d %v", i, v, ok)
	}
	if v, ok := s.text.Get(); !ok || v != fmt.Sprint("text ", i) {
		t.Fatalf("key %d: text %q %v", i, v, ok)
	}
	var list []string
	for n := range 5 {
		list = append(list, fmt.Sprint(i, "/", n))
	}
	if got := s.list.Get(); !slices.Equal(got, list) {
		t.Fatalf("key %d: list %v", i, got)
	}
	if got := s.numbers.Get(); len(got) != 5 || got[4] != int64(i+4) {
		t.Fatalf("key %d: numbers %v", i, got)
	}
	var pairs []string
	for k, v := range s.m.All() {
		pairs = append(pairs, fmt.Sprint(k, "=", v))
	}
	want := []string{"k4=" + fmt.Sprint(4*i), "k1=-1", "k2=" + fmt.Sprint(2*i), "k3=" + fmt.Sprint(3*i)}
	if !slices.Equal(pairs, want) || s.m.Len() != 4 {
		t.Fatalf("key %d: map %v, want %v", i, pairs, want)
	}
	if v, ok := s.names.Get(3); !ok || v != "name 3" || s.names.Contains(5) {
		t.Fatalf("key %d: name %q %v", i, v, ok)
	}
	if v, ok := s.largest.Get(); !ok || v != 6 {
		t.Fatalf("key %d: largest %d %v", i, v, ok)
	}
	if v, ok := s.mean.Get(); !ok || v != len(">01234") {
		t.Fatalf("key %d: aggregate %d %v", i, v, ok)
	}
}

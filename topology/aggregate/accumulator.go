package aggregate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"cutwater/topology/expression"
)

// Accumulator holds the intermediate results of a set of aggregates.
type Accumulator struct {
	Cells []uint64
	Texts []string
}

// Codec encodes the accumulators of a set: cells, then offset<<32|length of each
// text.
type Codec struct {
	cells, texts int
	schema       string
}

var errCorrupt = errors.New("aggregate: the bytes are not an accumulator of these aggregates")

// Codec returns the codec of the set's accumulators.
func (s *Set) Codec() Codec {
	kinds := make([]string, len(s.calls))
	for i, c := range s.calls {
		kinds[i] = c.name + " " + expression.KindName(c.kind)
	}
	return Codec{s.cells, s.texts, fmt.Sprintf("aggregates{%s}", strings.Join(kinds, "; "))}
}

// Width is 8 bytes for each cell and each text.
func (c Codec) Width() int { return 8 * (c.cells + c.texts) }

// HasText reports whether there are minima or maxima of strings; without them
// state updates accumulators in place.
func (c Codec) HasText() bool { return c.texts > 0 }

// Encode implements codec.Codec.
func (c Codec) Encode(fixed, text []byte, a Accumulator) []byte {
	for i := range c.cells {
		binary.LittleEndian.PutUint64(fixed[8*i:], a.Cells[i])
	}
	for i := range c.texts {
		s := a.Texts[i]
		binary.LittleEndian.PutUint64(fixed[8*(c.cells+i):], uint64(len(text))<<32|uint64(len(s)))
		text = append(text, s...)
	}
	return text
}

// Decode implements codec.Codec; it reuses the memory of *a.
func (c Codec) Decode(fixed []byte, text string, a *Accumulator) error {
	if len(fixed) != c.Width() {
		return errCorrupt
	}
	if cap(a.Cells) < c.cells || cap(a.Texts) < c.texts {
		*a = Accumulator{make([]uint64, c.cells), make([]string, c.texts)}
	}
	a.Cells, a.Texts = a.Cells[:c.cells], a.Texts[:c.texts]
	for i := range a.Cells {
		a.Cells[i] = binary.LittleEndian.Uint64(fixed[8*i:])
	}
	for i := range a.Texts {
		at := binary.LittleEndian.Uint64(fixed[8*(c.cells+i):])
		from, length := at>>32, at&0xffffffff
		if from+length > uint64(len(text)) {
			return errCorrupt
		}
		a.Texts[i] = text[from : from+length]
	}
	return nil
}

// Schema names the aggregates and their kinds: others do not fit the state.
func (c Codec) Schema() string { return c.schema }

package datagen

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"

	"cutwater/codec"
	"cutwater/messages"
	"cutwater/storage/vfs"
	"cutwater/stream"
	"cutwater/stream/row"
)

// Config describes a source of made-up rows.
type Config struct {
	// Schema lists the fields of the rows.
	Schema *row.Schema
	// Rows is how many there are; 0 means that they never end.
	Rows int64
	// Seed chooses the random values.
	Seed uint64
	// StartMs is the timestamp of row 0, StepMs what each row adds.
	StartMs, StepMs int64
	// Fields names the generators, as `field: name(arguments); ...`. They are
	// sequence(first), uniform(low, high) and choice(a, b, ...); a field without
	// one is a sequence.
	Fields string
}

// splitRows is the length of the ranges of a bounded source.
const splitRows = 100_000

// Source makes rows. It is safe for concurrent use.
type Source struct {
	config     Config
	generators []generator
}

// New checks the configuration and returns its source.
func New(c Config) (*Source, error) {
	switch {
	case c.Schema == nil || len(c.Schema.Fields) == 0:
		return nil, fmt.Errorf("datagen source: the schema has no fields; list them with their types")
	case c.Rows < 0:
		return nil, fmt.Errorf("datagen source: rows %d is negative; leave it out for rows without end", c.Rows)
	case c.StepMs < 0:
		return nil, fmt.Errorf("datagen source: step %d ms is negative; timestamps only advance", c.StepMs)
	}
	calls, err := parseGenerators(c.Fields)
	if err != nil {
		return nil, fmt.Errorf("datagen source: fields: %w", err)
	}
	s := &Source{config: c}
	for _, f := range c.Schema.Fields {
		g, err := newGenerator(f, calls[f.Name], c.StartMs, c.StepMs)
		if err != nil {
			return nil, fmt.Errorf("datagen source: %w", err)
		}
		s.generators = append(s.generators, g)
		delete(calls, f.Name)
	}
	for part := range strings.SplitSeq(c.Fields, ";") { // in the order of the text
		field, _, _ := strings.Cut(part, ":")
		field = strings.TrimSpace(field)
		if _, left := calls[field]; left {
			return nil, fmt.Errorf("datagen source: fields: the schema has no field %q; add it or remove its generator", field)
		}
	}
	return s, nil
}

// Bounded reports whether Rows is set.
func (s *Source) Bounded() bool { return s.config.Rows > 0 }

// Codec encodes the rows.
func (s *Source) Codec() codec.Codec[row.Row] { return row.Codec(s.config.Schema) }

// Schema lists the fields of the rows.
func (s *Source) Schema() *row.Schema { return s.config.Schema }

// payload is a split: rows First, First+Stride, ... below End; End 0 means no
// end. Its JSON is part of checkpoints.
type payload struct {
	First  uint64 `json:"first"`
	End    uint64 `json:"end,omitempty"`
	Stride uint64 `json:"stride"`
}

// Discover cuts the rows into splits.
func (s *Source) Discover(_ context.Context, _ vfs.FS, parallelism int) (*messages.SplitsDiscovered, error) {
	found := &messages.SplitsDiscovered{}
	add := func(p payload, group string) error {
		content, err := json.Marshal(p)
		if err != nil {
			return fmt.Errorf("datagen source: describe a split: %w", err)
		}
		found.Splits = append(found.Splits, &messages.Split{
			Id: fmt.Sprintf("rows@%d", p.First), Group: group, Ordinal: uint64(len(found.Splits)), Payload: content})
		return nil
	}
	if !s.Bounded() {
		for i := range uint64(max(1, parallelism)) {
			if err := add(payload{First: i, Stride: uint64(max(1, parallelism))}, fmt.Sprintf("rows@%d", i)); err != nil {
				return nil, err
			}
		}
		return found, nil
	}
	rows := uint64(s.config.Rows)
	for first := uint64(0); first < rows; first += splitRows {
		if err := add(payload{First: first, End: min(rows, first+splitRows), Stride: 1}, "rows"); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// Open continues a split at its position.
func (s *Source) Open(_ context.Context, _ vfs.FS, split *messages.Split) (stream.SplitReader[row.Row], error) {
	r := &reader{source: s, cells: make([]uint64, len(s.generators))}
	if err := json.Unmarshal(split.Payload, &r.split); err != nil || r.split.Stride == 0 {
		return nil, stream.NoRestart(fmt.Errorf("datagen source: split %q is not one of this source; start a new job", split.Id))
	}
	r.next = r.split.First
	if len(split.Position) > 0 {
		if len(split.Position) != 8 {
			return nil, stream.NoRestart(fmt.Errorf("datagen source: split %q has a position that is not one of this source; start a new job", split.Id))
		}
		r.next = binary.LittleEndian.Uint64(split.Position)
	}
	return r, nil
}

// reader makes the rows of one split.
type reader struct {
	source *Source
	split  payload
	next   uint64
	cells  []uint64
	text   []byte
	// texts holds the text of many rows, so that it costs few allocations.
	texts strings.Builder
}

// textsSize is the size of one allocation of text.
const textsSize = 64 << 10

// Next makes a row.
func (r *reader) Next(v *row.Row) (stream.ReadStatus, error) {
	if r.split.End > 0 && r.next >= r.split.End {
		return stream.ReadEnd, nil
	}
	r.text = r.text[:0]
	for i := range r.source.generators {
		g := &r.source.generators[i]
		x := random(r.source.config.Seed, r.next, uint64(i))
		if g.cell != nil {
			r.cells[i] = g.cell(r.next, x)
			continue
		}
		from := len(r.text)
		r.text = g.text(r.text, r.next, x)
		r.cells[i] = uint64(from)<<32 | uint64(len(r.text)-from)
	}
	*v = row.Row{Cells: r.cells, Text: r.keep()}
	r.next += r.split.Stride
	return stream.ReadRecord, nil
}

// keep returns the row's text as a string.
func (r *reader) keep() string {
	if len(r.text) == 0 {
		return ""
	}
	if r.texts.Cap()-r.texts.Len() < len(r.text) {
		r.texts.Reset()
		r.texts.Grow(max(textsSize, len(r.text)))
	}
	at := r.texts.Len()
	r.texts.Write(r.text)
	return r.texts.String()[at:]
}

// Position is the number of the next row.
func (r *reader) Position() []byte { return binary.LittleEndian.AppendUint64(nil, r.next) }

// BytesRead is 0: nothing is read.
func (r *reader) BytesRead() uint64 { return 0 }

// Close does nothing.
func (r *reader) Close() error { return nil }

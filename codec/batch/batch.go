// Package batch is the layout of RecordBatch.data: how records are gathered
// into a batch and read from it.
//
//	count x ( timestamp int64 | key hash uint64, keyed edges only | fixed part )
//	text region
package batch

import (
	"encoding/binary"

	"cutwater/messages"
)

const (
	timestampWidth = 8
	hashWidth      = 8
)

// Builder gathers the records of one channel. The zero value is not usable: see
// Init.
type Builder struct {
	fixed, text []byte
	width       int // of a record; 0 until Init
	keyed       bool
}

// Init prepares the builder for records of a codec of the given width, with key
// hashes if keyed.
func (b *Builder) Init(width int, keyed bool) {
	b.width, b.keyed = width+timestampWidth, keyed
	if keyed {
		b.width += hashWidth
	}
}

// Next adds a record and returns its fixed part, to be filled, and the text so
// far, to be extended and handed to SetText. Both are valid until the next call.
func (b *Builder) Next(timestampMs int64, hash uint64) (fixed, text []byte) {
	if b.keyed {
		return b.NextKeyed(timestampMs, hash), b.text
	}
	return b.NextFixed(timestampMs), b.text
}

// NextFixed is Next for codecs whose records have no text, on edges without keys.
func (b *Builder) NextFixed(timestampMs int64) (fixed []byte) {
	f := b.next()
	binary.LittleEndian.PutUint64(f, uint64(timestampMs))
	return f[timestampWidth:]
}

// NextKeyed is Next for codecs whose records have no text, on edges with keys.
func (b *Builder) NextKeyed(timestampMs int64, hash uint64) (fixed []byte) {
	f := b.next()
	binary.LittleEndian.PutUint64(f, uint64(timestampMs))
	binary.LittleEndian.PutUint64(f[timestampWidth:], hash)
	return f[timestampWidth+hashWidth:]
}

// next is the room of one more record. It is small enough that the compiler puts
// it into its callers, and they are into theirs.
func (b *Builder) next() []byte {
	at := len(b.fixed)
	if cap(b.fixed)-at < b.width {
		b.grow()
	}
	b.fixed = b.fixed[:at+b.width]
	return b.fixed[at:]
}

func (b *Builder) grow() {
	next := make([]byte, len(b.fixed), max(2*cap(b.fixed), 16*b.width))
	copy(next, b.fixed)
	b.fixed = next
}

// SetText stores the text that the codec extended.
func (b *Builder) SetText(text []byte) { b.text = text }

// Len is the number of records gathered.
func (b *Builder) Len() int { return len(b.fixed) / max(b.width, 1) }

// Size is the number of bytes that the batch would have.
func (b *Builder) Size() int { return len(b.fixed) + len(b.text) }

// FixedSize is Size for codecs whose records have no text.
func (b *Builder) FixedSize() int { return len(b.fixed) }

// Cut moves the gathered records into m, whose Data is overwritten from its
// start, and empties the builder.
func (b *Builder) Cut(m *messages.RecordBatch) {
	m.Count, m.FixedWidth = uint32(b.Len()), uint32(b.width)
	m.Data = append(append(m.Data[:0], b.fixed...), b.text...)
	b.fixed, b.text = b.fixed[:0], b.text[:0]
}

// View reads a batch. It is valid for as long as the batch is held.
type View struct {
	fixed []byte
	// Text is the text region, a copy of its own: strings may outlive the batch.
	Text  string
	width int // of a record
	head  int // of what stands before its fixed part
	count int
}

// Open checks the batch's structure and returns a view of it. Width and keyed
// must be those of its Builder; ok is false if the batch does not fit them.
func Open(m *messages.RecordBatch, width int, keyed bool) (v View, ok bool) {
	head := timestampWidth
	if keyed {
		head += hashWidth
	}
	w := head + width
	n := int(m.Count)
	if int(m.FixedWidth) != w || n < 0 || n > len(m.Data)/w {
		return View{}, false
	}
	v = View{fixed: m.Data[:n*w], width: w, head: head, count: n}
	if rest := m.Data[n*w:]; len(rest) > 0 {
		v.Text = string(rest)
	}
	return v, true
}

// Len is the number of records.
func (v *View) Len() int { return v.count }

// Record returns the timestamp and the fixed part of record i.
func (v *View) Record(i int) (timestampMs int64, fixed []byte) {
	f := v.fixed[i*v.width:][:v.width]
	return int64(binary.LittleEndian.Uint64(f)), f[v.head:]
}

// Hash returns the key's hash of record i of a keyed edge.
func (v *View) Hash(i int) uint64 {
	return binary.LittleEndian.Uint64(v.fixed[i*v.width+timestampWidth:])
}

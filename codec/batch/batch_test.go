package batch_test

import (
	"fmt"
	"testing"

	"cutwater/codec"
	"cutwater/codec/batch"
	"cutwater/messages"
)

// cut makes a batch of these texts, with timestamps 0, 1, .. and hashes that are
// their complements.
func cut(texts []string, keyed bool) *messages.RecordBatch {
	c := codec.String()
	var b batch.Builder
	b.Init(c.Width(), keyed)
	for i, s := range texts {
		fixed, text := b.Next(int64(i), ^uint64(i))
		b.SetText(c.Encode(fixed, text, s))
	}
	m := &messages.RecordBatch{}
	b.Cut(m)
	return m
}

// What was gathered is read, with and without keys; a builder that was cut is empty
// and can be used again, and overwrites the data that it is given.
func TestRoundTrip(t *testing.T) {
	c := codec.String()
	for _, keyed := range []bool{false, true} {
		var b batch.Builder
		b.Init(c.Width(), keyed)
		m := &messages.RecordBatch{}
		for round := range 3 {
			n := []int{100, 0, 7}[round]
			for i := range n {
				fixed, text := b.Next(int64(-i), uint64(i))
				b.SetText(c.Encode(fixed, text, fmt.Sprint("text ", i)))
				if b.Len() != i+1 || b.Size() < b.FixedSize() {
					t.Fatalf("%d records and %d bytes after record %d", b.Len(), b.Size(), i)
				}
			}
			size := b.Size()
			b.Cut(m)
			if b.Len() != 0 || b.Size() != 0 || len(m.Data) != size {
				t.Fatalf("cut: %d records stay, %d bytes of %d went", b.Len(), len(m.Data), size)
			}
			v, ok := batch.Open(m, c.Width(), keyed)
			if !ok || v.Len() != n {
				t.Fatalf("the batch has %d records, ok %t", v.Len(), ok)
			}
			for i := range n {
				ts, fixed := v.Record(i)
				var s string
				if err := c.Decode(fixed, v.Text, &s); err != nil || s != fmt.Sprint("text ", i) || ts != int64(-i) {
					t.Errorf("record %d is %q at %d: %v", i, s, ts, err)
				}
				if keyed && v.Hash(i) != uint64(i) {
					t.Errorf("record %d has the hash %d", i, v.Hash(i))
				}
			}
		}
	}
}

// A batch that another codec or another kind of edge wrote is not opened.
func TestOpenRefuses(t *testing.T) {
	m := cut([]string{"a", "b"}, true)
	w := codec.String().Width()
	if _, ok := batch.Open(m, w, false); ok {
		t.Error("a batch with keys was opened as one without")
	}
	if _, ok := batch.Open(m, w+1, true); ok {
		t.Error("a batch of another width was opened")
	}
	m.Count++
	m.Data = m.Data[:2*m.FixedWidth]
	if _, ok := batch.Open(m, w, true); ok {
		t.Error("a batch with fewer records than it says was opened")
	}
}

// Whatever stands in a batch, all its records can be read without a panic, or it is
// not opened; and written again they are read as the same.
func FuzzOpen(f *testing.F) {
	for _, keyed := range []bool{false, true} {
		m := cut([]string{"a", "", "ccc"}, keyed)
		f.Add(m.Data, m.Count, m.FixedWidth, keyed)
	}
	f.Add([]byte{}, uint32(1<<31), uint32(16), false)
	f.Add([]byte("text"), uint32(0), uint32(16), false)
	f.Fuzz(func(t *testing.T, data []byte, count, fixedWidth uint32, keyed bool) {
		c := codec.String()
		v, ok := batch.Open(&messages.RecordBatch{Data: data, Count: count, FixedWidth: fixedWidth}, c.Width(), keyed)
		if !ok {
			return
		}
		if v.Len() != int(count) {
			t.Fatalf("%d records of %d", v.Len(), count)
		}
		var b batch.Builder
		b.Init(c.Width(), keyed)
		for i := range v.Len() {
			r, err := recordOf(&v, i, keyed)
			if err != nil {
				return
			}
			fixed, text := b.Next(r.timestampMs, r.hash)
			b.SetText(c.Encode(fixed, text, r.text))
		}
		m := &messages.RecordBatch{}
		b.Cut(m)
		again, ok := batch.Open(m, c.Width(), keyed)
		if !ok || again.Len() != v.Len() {
			t.Fatalf("%d records were written, %d are read", v.Len(), again.Len())
		}
		for i := range v.Len() {
			want, _ := recordOf(&v, i, keyed)
			if got, err := recordOf(&again, i, keyed); got != want || err != nil {
				t.Errorf("record %d is %v and was %v: %v", i, got, want, err)
			}
		}
	})
}

type record struct {
	timestampMs int64
	hash        uint64
	text        string
}

func recordOf(v *batch.View, i int, keyed bool) (r record, err error) {
	var fixed []byte
	if r.timestampMs, fixed = v.Record(i); keyed {
		r.hash = v.Hash(i)
	}
	return r, codec.String().Decode(fixed, v.Text, &r.text)
}

package statetest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"cutwater/messages"
	"cutwater/state"
)

// model: whatever happens in whatever order, a table holds what a Go map holds,
// and every snapshot restores to what the map held at its seal.
func model(t *testing.T, open Open) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t, open)
		defer func() { closeAll(t, m.backend) }()
		steps := rapid.IntRange(5, 60).Draw(t, "steps")
		for range steps {
			m.step()
		}
		m.compare("at the end", m.backend, m.maps)
		for len(m.open) > 0 {
			m.finish(0)
		}
	})
}

// contents is what the tables hold.
type contents [4]map[string]string

// descriptors are one table of each layout.
var descriptors = [4]state.Descriptor{counts, lists, windows, words}

type modelState struct {
	t          *rapid.T
	openFunc   Open
	backend    state.Backend
	tables     [4]*state.Table
	maps       contents
	checkpoint uint64
	open       []*openSeal
	written    []*openSeal
}

// openSeal is a snapshot on its way.
type openSeal struct {
	sealed *state.Sealed
	maps   contents
	file   *messages.Segment
}

func newModel(t *rapid.T, open Open) *modelState {
	m := &modelState{t: t, openFunc: open, backend: open(t, everything())}
	for i := range m.maps {
		m.maps[i] = map[string]string{}
	}
	m.declare()
	return m
}

func (m *modelState) declare() {
	for i, d := range descriptors {
		m.tables[i] = table(m.t, m.backend, d)
	}
}

func entryName(hash uint64, key []byte, namespace int64) string {
	return fmt.Sprintf("%016x %q %d", hash, key, namespace)
}

func (m *modelState) step() {
	which := rapid.IntRange(0, 3).Draw(m.t, "table")
	from := rapid.IntRange(0, 600).Draw(m.t, "from")
	n := rapid.SampledFrom([]int{1, 3, 20, 300}).Draw(m.t, "n")
	switch rapid.SampledFrom([]string{
		"set", "set", "set", "append", "append", "delete", "delete", "seal", "seal", "write", "decide", "restore",
	}).Draw(m.t, "action") {
	case "set":
		for i := from; i < from+n; i++ {
			m.set(which, i)
		}
	case "append":
		for i := from; i < from+n; i++ {
			m.append(1+which%2, i)
		}
	case "delete":
		for i := from; i < from+n; i++ {
			m.delete(which, i)
		}
	case "seal":
		m.seal()
	case "write":
		if len(m.open) > 0 {
			m.finish(rapid.IntRange(0, len(m.open)-1).Draw(m.t, "which"))
		}
	case "decide":
		m.decide()
	case "restore":
		m.restore()
	}
	m.spot(which, from)
}

// entry is the i-th entry of a table.
func (m *modelState) entry(which, i int) (hash uint64, key []byte, namespace int64) {
	if which >= 2 {
		h, k := textKey(i / 3)
		return h, k, int64(i % 3)
	}
	h, k := intKey(i)
	return h, k, 0
}

func (m *modelState) set(which, i int) {
	h, k, ns := m.entry(which, i)
	t, name := m.tables[which], entryName(h, k, ns)
	if which == 0 {
		v, existed := t.Update(h, k, ns)
		old, want := m.maps[0][name]
		if existed != want || existed && old != string(v) {
			m.t.Fatalf("update %s: %q existed %v, want %q %v", name, v, existed, old, want)
		}
		binary.LittleEndian.PutUint64(v, binary.LittleEndian.Uint64(v)+uint64(i)+1)
		m.maps[0][name] = string(v)
		return
	}
	value := bytes.Repeat([]byte{byte('a' + i%26)}, int(h%97))
	if which == 3 {
		value = fmt.Appendf(nil, "%03d", i)
	}
	t.Put(h, k, ns, value)
	m.maps[which][name] = string(value)
}

func (m *modelState) append(which, i int) {
	h, k, ns := m.entry(which, i)
	more := fmt.Appendf(nil, "+%d", i)
	m.tables[which].Append(h, k, ns, more)
	m.maps[which][entryName(h, k, ns)] += string(more)
}

func (m *modelState) delete(which, i int) {
	h, k, ns := m.entry(which, i)
	name := entryName(h, k, ns)
	_, want := m.maps[which][name]
	if got := m.tables[which].Delete(h, k, ns); got != want {
		m.t.Fatalf("delete %s: %v, want %v", name, got, want)
	}
	delete(m.maps[which], name)
}

// spot looks one entry up.
func (m *modelState) spot(which, i int) {
	h, k, ns := m.entry(which, i)
	want, wantOk := m.maps[which][entryName(h, k, ns)]
	if got, ok := m.tables[which].Get(h, k, ns); ok != wantOk || string(got) != want {
		m.t.Fatalf("get %s: %q %v, want %q %v", entryName(h, k, ns), got, ok, want, wantOk)
	}
}

func (m *modelState) seal() {
	m.checkpoint++
	o := state.SealOptions{
		Incremental: rapid.IntRange(0, 3).Draw(m.t, "incremental") > 0,
		Savepoint:   rapid.IntRange(0, 5).Draw(m.t, "savepoint") == 0,
	}
	s := &openSeal{sealed: seal(m.t, m.backend, m.checkpoint, o)}
	for i := range m.maps {
		s.maps[i] = maps.Clone(m.maps[i])
	}
	m.open = append(m.open, s)
	if len(m.open) > 4 {
		m.finish(0)
	}
}

// finish writes an open snapshot, or gives it up, and checks what it restores to.
func (m *modelState) finish(i int) {
	s := m.open[i]
	m.open = slices.Delete(m.open, i, i+1)
	if rapid.IntRange(0, 9).Draw(m.t, "give up") == 0 {
		s.sealed.Release()
		m.backend.Abort(s.sealed.Checkpoint)
		return
	}
	segments := s.sealed.Before
	if s.sealed.Empty {
		s.sealed.Release()
	} else {
		s.file = write(m.t, s.sealed)
		segments = append(slices.Clone(segments), s.file)
	}
	r := restored(m.t, m.openFunc, everything(), segments...)
	m.compare(fmt.Sprintf("checkpoint %d, base %v, after %d segments", s.sealed.Checkpoint, s.sealed.Base, len(s.sealed.Before)), r, s.maps)
	closeAll(m.t, r)
	m.written = append(m.written, s)
}

// decide confirms or aborts a written checkpoint.
func (m *modelState) decide() {
	if len(m.written) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.written)-1).Draw(m.t, "written")
	s := m.written[i]
	m.written = slices.Delete(m.written, i, i+1)
	if rapid.Bool().Draw(m.t, "confirm") {
		m.backend.Confirm(s.sealed.Checkpoint)
	} else {
		m.backend.Abort(s.sealed.Checkpoint)
	}
}

// restore goes on with what a written snapshot holds, as after a failure.
func (m *modelState) restore() {
	if len(m.written) == 0 {
		return
	}
	s := m.written[len(m.written)-1]
	segments := s.sealed.Before
	if s.file != nil {
		segments = append(slices.Clone(segments), s.file)
	}
	for _, o := range m.open {
		o.sealed.Release()
	}
	closeAll(m.t, m.backend)
	m.backend = restored(m.t, m.openFunc, everything(), segments...)
	m.open, m.written = nil, nil
	m.declare()
	for i := range m.maps {
		m.maps[i] = maps.Clone(s.maps[i])
	}
}

func (m *modelState) compare(what string, b state.Backend, want contents) {
	for i, d := range descriptors {
		t := table(m.t, b, d)
		var all []string
		for name, value := range want[i] {
			all = append(all, fmt.Sprintf("%s = %q", name, value))
		}
		slices.Sort(all)
		same(m.t, what+", "+d.Name, content(t), all)
		if t.Len() != len(want[i]) {
			m.t.Fatalf("%s: %s has length %d, want %d", what, d.Name, t.Len(), len(want[i]))
		}
	}
}

// concurrentWrite: a seal is written on another goroutine while the table grows,
// shrinks and is sealed again; the race detector watches.
func concurrentWrite(t *testing.T, open Open) {
	b := open(t, everything())
	w := table(t, b, windows)
	var writers sync.WaitGroup
	type result struct {
		want, got []string
	}
	results := make([]result, 4)
	for round := range results {
		for i := round * 700; i < round*700+2000; i++ {
			h, k := textKey(i)
			if i%7 == round {
				w.Delete(h, k, 0)
			} else {
				w.Append(h, k, 0, fmt.Appendf(nil, "%d.%d ", round, i))
			}
		}
		results[round].want = content(w)
		s := seal(t, b, uint64(round+1), state.SealOptions{})
		writers.Go(func() {
			r := restored(t, open, everything(), write(t, s))
			results[round].got = content(table(t, r, windows))
			closeAll(t, r)
		})
	}
	for i := range 3000 {
		h, k := textKey(i)
		w.Put(h, k, 0, []byte("later"))
	}
	writers.Wait()
	for round, r := range results {
		same(t, fmt.Sprint("seal ", round+1), r.got, r.want)
	}
	closeAll(t, b)
}

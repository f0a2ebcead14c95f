package statetest

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cutwater/protocol/keygroup"
	"cutwater/state"
)

// modelStates are one table of each layout.
var modelStates = []state.Descriptor{
	{Name: "fixed", Kind: state.ValueKind, KeyWidth: 8, ValueWidth: 8},
	{Name: "text", Kind: state.ListKind},
	{Name: "windows", Kind: state.ReducingKind, KeyWidth: 8, Namespaced: true},
	{Name: "words", Kind: state.ValueKind, ValueWidth: 3, Namespaced: true},
}

// modelKey is an entry of the model: state, key and namespace.
type modelKey struct {
	state     int
	key       string
	namespace int64
}

type contents map[modelKey]string

// undecided is a snapshot that was sealed.
type undecided struct {
	checkpoint uint64
	sealed     *state.Sealed
	want       contents
	options    state.SealOptions
}

// model compares a backend with a Go map under random operations, and what its
// snapshots restore with the map as it was at the seal.
func model(t *testing.T, fresh Fresh) {
	rapid.Check(t, func(r *rapid.T) {
		b := fresh(t, 0, MaxParallelism-1)
		defer func() {
			if err := b.Close(); err != nil {
				r.Error(err)
			}
		}()
		m := &machine{t: t, fresh: fresh, backend: b, now: contents{}}
		for _, d := range modelStates {
			m.tables = append(m.tables, table(r, b, d))
		}
		r.Repeat(map[string]func(*rapid.T){
			"put": m.put, "update": m.update, "append": m.append, "delete": m.delete, "churn": m.churn,
			"seal": m.seal, "finish": m.finish, "": m.check,
		})
		for len(m.undecided) > 0 {
			m.finish(r)
		}
		m.compare(r, m.tables, m.now)
	})
}

type machine struct {
	t          *testing.T
	fresh      Fresh
	backend    state.Backend
	tables     []*state.Table
	now        contents
	checkpoint uint64
	undecided  []undecided
}

func (m *machine) key(r *rapid.T) (k modelKey, hash uint64, key []byte) {
	k.state = rapid.IntRange(0, len(modelStates)-1).Draw(r, "state")
	d := &modelStates[k.state]
	i := rapid.Int64Range(0, 40).Draw(r, "key")
	if key = keygroup.AppendInt(nil, i); d.KeyWidth == 0 {
		key = key[:i%9] // several of the same, one of them empty
		key = append(key, bytes.Repeat([]byte{byte(i)}, int(i%5))...)
	}
	k.key = string(key)
	if d.Namespaced {
		k.namespace = rapid.Int64Range(-2, 2).Draw(r, "namespace")
	}
	return k, keygroup.Hash(key), key
}

func value(r *rapid.T, d *state.Descriptor) []byte {
	if d.ValueWidth > 0 {
		return rapid.SliceOfN(rapid.Byte(), d.ValueWidth, d.ValueWidth).Draw(r, "value")
	}
	return rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(r, "value")
}

func (m *machine) put(r *rapid.T) {
	k, hash, key := m.key(r)
	v := value(r, &modelStates[k.state])
	m.tables[k.state].Put(hash, key, k.namespace, v)
	m.now[k] = string(v)
}

func (m *machine) update(r *rapid.T) {
	k, hash, key := m.key(r)
	d := &modelStates[k.state]
	if d.ValueWidth == 0 {
		return
	}
	got, existed := m.tables[k.state].Update(hash, key, k.namespace)
	want, ok := m.now[k]
	if !ok {
		want = string(make([]byte, d.ValueWidth))
	}
	if existed != ok || string(got) != want {
		r.Fatalf("Update(%v) = %x, %v; want %x, %v", k, got, existed, want, ok)
	}
	copy(got, value(r, d))
	m.now[k] = string(got)
}

func (m *machine) append(r *rapid.T) {
	k, hash, key := m.key(r)
	d := &modelStates[k.state]
	if d.ValueWidth > 0 {
		return
	}
	v := value(r, d)
	m.tables[k.state].Append(hash, key, k.namespace, v)
	m.now[k] += string(v)
}

func (m *machine) delete(r *rapid.T) {
	k, hash, key := m.key(r)
	_, want := m.now[k]
	if got := m.tables[k.state].Delete(hash, key, k.namespace); got != want {
		r.Fatalf("Delete(%v) = %v, want %v", k, got, want)
	}
	delete(m.now, k)
}

// churn puts or deletes a range of keys, so that chunks split and are rebuilt.
func (m *machine) churn(r *rapid.T) {
	from, n := rapid.Int64Range(100, 600).Draw(r, "from"), rapid.Int64Range(1, 400).Draw(r, "n")
	remove := rapid.Bool().Draw(r, "remove")
	for i := from; i < from+n; i++ {
		hash, key := intKey(i)
		k := modelKey{key: string(key)}
		if remove {
			m.tables[0].Delete(hash, key, 0)
			delete(m.now, k)
			continue
		}
		m.tables[0].Put(hash, key, 0, key)
		m.now[k] = string(key)
	}
}

func (m *machine) seal(r *rapid.T) {
	if len(m.undecided) == 4 {
		return
	}
	m.checkpoint++
	o := state.SealOptions{Incremental: rapid.IntRange(0, 3).Draw(r, "incremental") > 0}
	o.Savepoint = !o.Incremental && rapid.Bool().Draw(r, "savepoint")
	s := seal(r, m.backend, m.checkpoint, o)
	m.undecided = append(m.undecided, undecided{m.checkpoint, s, maps.Clone(m.now), o})
}

// finish writes or releases any of the undecided snapshots, and confirms or
// aborts its checkpoint.
func (m *machine) finish(r *rapid.T) {
	if len(m.undecided) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.undecided)-1).Draw(r, "which")
	u := m.undecided[i]
	m.undecided = slices.Delete(m.undecided, i, i+1)
	if rapid.IntRange(0, 3).Draw(r, "abort") == 0 {
		u.sealed.Release()
		m.backend.Abort(u.checkpoint)
		return
	}
	var files [][]byte
	for _, s := range u.sealed.Before {
		files = append(files, s.GetHandle().GetInline())
	}
	if u.sealed.Base != (len(u.sealed.Before) == 0) {
		r.Fatalf("base %v with %d segments before it", u.sealed.Base, len(u.sealed.Before))
	}
	if u.sealed.Empty {
		u.sealed.Release()
	} else {
		file := write(r, u.sealed)
		files = append(files, file)
		u.sealed.Recorded(inline(file, u.sealed.Base))
	}
	m.backend.Confirm(u.checkpoint)
	m.restore(r, files, u.want)
}

func (m *machine) restore(r *rapid.T, files [][]byte, want contents) {
	b := m.fresh(m.t, 0, MaxParallelism-1)
	for _, file := range files {
		load(r, b, file)
	}
	var tables []*state.Table
	for _, d := range modelStates {
		tables = append(tables, table(r, b, d))
	}
	m.compare(r, tables, want)
	if err := b.Close(); err != nil {
		r.Error(err)
	}
}

// check is cheap and runs after every step.
func (m *machine) check(r *rapid.T) {
	n := 0
	for _, t := range m.tables {
		n += t.Len()
	}
	if n != len(m.now) {
		r.Fatalf("%d entries, want %d", n, len(m.now))
	}
}

func (m *machine) compare(r *rapid.T, tables []*state.Table, want contents) {
	got := contents{}
	for i, t := range tables {
		t.Each(func(hash uint64, key []byte, namespace int64, value []byte) bool {
			if hash != keygroup.Hash(key) {
				r.Fatalf("the hash of %x is %x", key, hash)
			}
			k := modelKey{i, string(key), namespace}
			if _, twice := got[k]; twice {
				r.Fatalf("%v is there twice", k)
			}
			got[k] = string(value)
			return true
		})
	}
	if !maps.Equal(got, want) {
		r.Fatalf("%d entries that differ from the %d of the model", len(got), len(want))
	}
}

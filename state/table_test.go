package state

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"testing"

	"cutwater/protocol/keygroup"
)

func allGroups() Groups { return Groups{MaxParallelism: 128, First: 0, Last: 127} }

func mustTable(t testing.TB, b Backend, d Descriptor) *Table {
	t.Helper()
	table, err := b.Table(d)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func counters(t testing.TB) (*Tables, *Table) {
	b := NewTables(allGroups(), nil, 0)
	return b, mustTable(t, b, Descriptor{Name: "counts", Kind: ValueKind, KeyWidth: 8, ValueWidth: 16})
}

// One hot key with very many namespaces costs directory levels, not a directory
// that doubles once for every bit of the common prefix.
func TestHotKeyWithManyNamespaces(t *testing.T) {
	b := NewTables(allGroups(), nil, 0)
	table := mustTable(t, b, Descriptor{Name: "windows", Kind: ValueKind, KeyWidth: 8, ValueWidth: 8, Namespaced: true})
	key := keygroup.AppendInt(nil, 42)
	hash := keygroup.Hash(key)
	const n = 50_000
	for i := range int64(n) {
		v, existed := table.Update(hash, key, i)
		if existed {
			t.Fatalf("namespace %d was there", i)
		}
		binary.LittleEndian.PutUint64(v, uint64(i))
	}
	for i := range int64(n) {
		v, ok := table.Get(hash, key, i)
		if !ok || binary.LittleEndian.Uint64(v) != uint64(i) {
			t.Fatalf("namespace %d: %v, %v", i, v, ok)
		}
	}
	indexes := 0
	var walk func(*node)
	walk = func(n *node) {
		indexes += len(n.kids)
		for _, s := range n.subs {
			if s != nil {
				walk(s)
			}
		}
	}
	walk(table.root)
	if indexes > 3<<maxBits {
		t.Errorf("the directory has %d indexes", indexes)
	}
}

// Keys whose 64-bit hashes collide share one chunk that grows beyond the usual
// size instead of splitting for ever.
func TestEqualHashes(t *testing.T) {
	b := NewTables(allGroups(), nil, 0)
	table := mustTable(t, b, Descriptor{Name: "names", Kind: ValueKind, ValueWidth: 8})
	const n = 1000
	for i := range n {
		table.Update(7, fmt.Append(nil, i), 0)
	}
	if table.Len() != n {
		t.Fatalf("%d entries, want %d", table.Len(), n)
	}
	for i := range n {
		if _, ok := table.Get(7, fmt.Append(nil, i), 0); !ok {
			t.Fatalf("key %d is gone", i)
		}
	}
}

// Where no delta can need them, deletes leave no tombstones: a table that turns
// over for ever stays as large as what it holds.
func TestTurnover(t *testing.T) {
	_, table := counters(t)
	key := make([]byte, 0, 8)
	const live = 1000
	for i := range int64(200_000) {
		key = keygroup.AppendInt(key[:0], i)
		table.Update(keygroup.Hash(key), key, 0)
		if i >= live {
			key = keygroup.AppendInt(key[:0], i-live)
			if !table.Delete(keygroup.Hash(key), key, 0) {
				t.Fatalf("key %d was not there", i-live)
			}
		}
	}
	slots := 0
	for p, first := uint64(0), true; first || p != 0; first = false {
		c := table.root.find(p)
		slots += int(c.mask()) + 1
		p = c.after(p)
	}
	if table.Len() != live || slots > 8*live {
		t.Errorf("%d entries in %d slots", table.Len(), slots)
	}
}

// A restore brings entries in the order of their hashes. They must not crowd in
// the first slots of the chunks, nor make more chunks than in any other order.
func TestLoadInOrder(t *testing.T) {
	const n = 100_000
	backend, table := counters(t)
	key := make([]byte, 0, 8)
	for i := range int64(n) {
		key = keygroup.AppendInt(key[:0], i)
		table.Update(keygroup.Hash(key), key, 0)
	}
	sealed, err := backend.Seal(1, SealOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer sealed.Release()
	var file bytes.Buffer
	if _, err := sealed.Write(t.Context(), &file); err != nil {
		t.Fatal(err)
	}
	restored := NewTables(allGroups(), nil, 0)
	if err := restored.Load(t.Context(), bytes.NewReader(file.Bytes())); err != nil {
		t.Fatal(err)
	}
	again := restored.lookup("counts")
	slots, moves := 0, 0
	for p, first := uint64(0), true; first || p != 0; first = false {
		c := again.root.find(p)
		slots += int(c.mask()) + 1
		for i := range c.mask() + 1 {
			if s := c.slots[int(i)*again.stride:][:again.stride]; le.Uint32(s) != 0 {
				moves += int((i - c.of(again.placeOf(s))) & c.mask())
			}
		}
		p = c.after(p)
	}
	if again.Len() != n || slots > 4*n || moves > 3*n {
		t.Errorf("%d entries in %d slots, together %d slots away from where they belong", again.Len(), slots, moves)
	}
}

// An update of an entry that is there allocates nothing.
func TestUpdateDoesNotAllocate(t *testing.T) {
	_, table := counters(t)
	key := keygroup.AppendInt(nil, 1)
	hash := keygroup.Hash(key)
	table.Update(hash, key, 0)
	if n := testing.AllocsPerRun(100, func() {
		v, _ := table.Update(hash, key, 0)
		v[0]++
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

const benchKeys = 1 << 20

func filled(b *testing.B) (*Tables, *Table) {
	backend, table := counters(b)
	key := make([]byte, 0, 8)
	for i := range int64(benchKeys) {
		key = keygroup.AppendInt(key[:0], i)
		table.Update(keygroup.Hash(key), key, 0)
	}
	return backend, table
}

// mix spreads the test's keys; all three contestants pay for it.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// BenchmarkUpdate compares a table with Go's map and with a hand-written table
// that can do nothing else, in one run.
func BenchmarkUpdate(b *testing.B) {
	type value struct{ count, _ uint64 }
	b.Run("table", func(b *testing.B) {
		_, table := counters(b)
		key := make([]byte, 8)
		for i := range uint64(benchKeys) {
			binary.LittleEndian.PutUint64(key, i)
			table.Update(keygroup.Hash(key), key, 0)
		}
		b.ReportAllocs()
		b.ResetTimer()
		for i := range uint64(b.N) {
			k := mix(i) % benchKeys
			binary.LittleEndian.PutUint64(key, k)
			v, _ := table.Update(keygroup.Hash(key), key, 0)
			binary.LittleEndian.PutUint64(v, binary.LittleEndian.Uint64(v)+1)
		}
	})
	b.Run("map", func(b *testing.B) {
		m := make(map[uint64]*value)
		for i := range uint64(benchKeys) {
			m[i] = new(value)
		}
		b.ResetTimer()
		for i := range uint64(b.N) {
			m[mix(i)%benchKeys].count++
		}
	})
	b.Run("mapvalue", func(b *testing.B) {
		m := make(map[uint64]value)
		for i := range uint64(benchKeys) {
			m[i] = value{}
		}
		b.ResetTimer()
		for i := range uint64(b.N) {
			k := mix(i) % benchKeys
			v := m[k]
			v.count++
			m[k] = v
		}
	})
	b.Run("hand", func(b *testing.B) {
		type slot struct {
			key   uint64
			used  bool
			value value
		}
		const mask = 2*benchKeys - 1
		slots := make([]slot, mask+1)
		at := func(k uint64) *slot {
			for i := mix(k) & mask; ; i = (i + 1) & mask {
				if s := &slots[i]; !s.used || s.key == k {
					return s
				}
			}
		}
		for i := range uint64(benchKeys) {
			*at(i) = slot{key: i, used: true}
		}
		b.ResetTimer()
		for i := range uint64(b.N) {
			at(mix(i)%benchKeys).value.count++
		}
	})
}

// BenchmarkWrite is the asynchronous part of a full snapshot at 2^20 keys, but
// for the disk.
func BenchmarkWrite(b *testing.B) {
	backend, _ := filled(b)
	b.ResetTimer()
	for range b.N {
		s, err := backend.Seal(1, SealOptions{})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.Write(b.Context(), io.Discard); err != nil {
			b.Fatal(err)
		}
		s.Release()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchKeys, "ns/entry")
}

// BenchmarkLoad is the restore of such a snapshot, but for the disk. Entries come
// in order, so that each chunk fills from its first slot.
func BenchmarkLoad(b *testing.B) {
	backend, _ := filled(b)
	s, err := backend.Seal(1, SealOptions{})
	if err != nil {
		b.Fatal(err)
	}
	var file bytes.Buffer
	if _, err := s.Write(b.Context(), &file); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for range b.N {
		restored := NewTables(allGroups(), nil, 0)
		if err := restored.Load(b.Context(), bytes.NewReader(file.Bytes())); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchKeys, "ns/entry")
}

package keygroup_test

import (
	"encoding/hex"
	"math"
	"testing"

	"github.com/cespare/xxhash/v2"
	"pgregory.net/rapid"

	"cutwater/protocol/keygroup"
)

// The hash never changes: keys that were written by an older version are found.
// The first three are well-known vectors of XXH64; the others were recorded here.
func TestHashGolden(t *testing.T) {
	for _, test := range []struct {
		key  string
		want uint64
	}{
		{"", 0xef46db3751d8e999},
		{"a", 0xd24ec4f1a98c6e5b},
		{"abc", 0x44bc2cf5ad770999},
		{"ORD", 0x15a9790f4b1cd862},
		{"a key of more than thirty-two bytes", 0x42a42f4807147f58},
	} {
		if got := keygroup.Hash([]byte(test.key)); got != test.want {
			t.Errorf("Hash(%q) = %#x, want %#x", test.key, got, test.want)
		}
	}
}

// The key group of a hash never changes either.
// The short way for integer keys is the same hash.
func TestHashOfEightBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SliceOfN(rapid.Byte(), 8, 8).Draw(t, "key")
		if got, want := keygroup.Hash(key), xxhash.Sum64(key); got != want {
			t.Fatalf("Hash(%x) = %#x, want %#x", key, got, want)
		}
	})
}

func TestOfGolden(t *testing.T) {
	for _, test := range []struct {
		hash           uint64
		maxParallelism int
		want           int
	}{
		{0, 128, 0},
		{math.MaxUint64, 128, 127},
		{math.MaxUint64, 1, 0},
		{math.MaxUint64, keygroup.MaxParallelismLimit, keygroup.MaxParallelismLimit - 1},
		{1 << 63, 128, 64},
		{1<<63 - 1, 128, 63},
		{1 << 63, 3, 1},
		// Only the top 24 bits count.
		{0x555555_ffffffffff, 3, 0},
		{0x555556_0000000000, 3, 1},
	} {
		if got := keygroup.Of(test.hash, test.maxParallelism); got != test.want {
			t.Errorf("Of(%#x, %d) = %d, want %d", test.hash, test.maxParallelism, got, test.want)
		}
	}
}

// The ranges are Flink's: nearly equal shares, in order.
func TestRangeGolden(t *testing.T) {
	for _, test := range []struct{ subtask, parallelism, maxParallelism, first, last int }{
		{0, 1, 128, 0, 127},
		{0, 3, 128, 0, 42},
		{1, 3, 128, 43, 85},
		{2, 3, 128, 86, 127},
		{0, 4, 10, 0, 2},
		{1, 4, 10, 3, 4},
		{2, 4, 10, 5, 7},
		{3, 4, 10, 8, 9},
		{127, 128, 128, 127, 127},
	} {
		first, last := keygroup.Range(test.subtask, test.parallelism, test.maxParallelism)
		if first != test.first || last != test.last {
			t.Errorf("Range(%d, %d, %d) = %d..%d, want %d..%d",
				test.subtask, test.parallelism, test.maxParallelism, first, last, test.first, test.last)
		}
	}
}

// Default maximum parallelism is Flink's: 1.5 times, a power of two, within bounds.
func TestDefaultMaxParallelism(t *testing.T) {
	for _, test := range []struct{ parallelism, want int }{
		{1, 128}, {85, 128}, {86, 256}, {128, 256}, {171, 256}, {172, 512}, {20000, 32768}, {32768, 32768},
	} {
		if got := keygroup.DefaultMaxParallelism(test.parallelism); got != test.want {
			t.Errorf("DefaultMaxParallelism(%d) = %d, want %d", test.parallelism, got, test.want)
		}
	}
}

// Canonical bytes never change, and what is equal has equal bytes: -0.0 and 0.0,
// and every NaN.
func TestCanonicalBytesGolden(t *testing.T) {
	signalling := math.Float64frombits(0xfff4000000000001)
	for _, test := range []struct {
		name string
		got  []byte
		want string
	}{
		{"int 1", keygroup.AppendInt(nil, 1), "0100000000000000"},
		{"int -2", keygroup.AppendInt(nil, -2), "feffffffffffffff"},
		{"int after a prefix", keygroup.AppendInt([]byte{7}, 256), "070001000000000000"},
		{"float 1.5", keygroup.AppendFloat(nil, 1.5), "000000000000f83f"},
		{"float 0.0", keygroup.AppendFloat(nil, 0), "0000000000000000"},
		{"float -0.0", keygroup.AppendFloat(nil, math.Copysign(0, -1)), "0000000000000000"},
		{"float -1.5", keygroup.AppendFloat(nil, -1.5), "000000000000f8bf"},
		{"float NaN", keygroup.AppendFloat(nil, math.NaN()), "010000000000f87f"},
		{"float another NaN", keygroup.AppendFloat(nil, signalling), "010000000000f87f"},
		{"float +Inf", keygroup.AppendFloat(nil, math.Inf(1)), "000000000000f07f"},
	} {
		if got := hex.EncodeToString(test.got); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// Each key group lies in the range of its owner, and the ranges of all subtasks
// cover every key group once (scenario 49).
func TestRangeOfOwner(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		maxParallelism := rapid.IntRange(1, keygroup.MaxParallelismLimit).Draw(t, "maxParallelism")
		parallelism := rapid.IntRange(1, maxParallelism).Draw(t, "parallelism")
		group := keygroup.Of(rapid.Uint64().Draw(t, "hash"), maxParallelism)
		owner := keygroup.Owner(group, parallelism, maxParallelism)
		if first, last := keygroup.Range(owner, parallelism, maxParallelism); group < first || group > last {
			t.Fatalf("key group %d is outside of %d..%d, the range of its owner %d", group, first, last, owner)
		}
		next := 0
		for subtask := range parallelism {
			first, last := keygroup.Range(subtask, parallelism, maxParallelism)
			if first != next || last < first {
				t.Fatalf("subtask %d has %d..%d; the ones before it end at %d", subtask, first, last, next-1)
			}
			next = last + 1
		}
		if next != maxParallelism {
			t.Fatalf("the last range ends at %d of %d", next-1, maxParallelism)
		}
	})
}

// Hash order is key group order, from the first key group to the last.
func TestHashOrderIsKeyGroupOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		maxParallelism := rapid.IntRange(1, keygroup.MaxParallelismLimit).Draw(t, "maxParallelism")
		low, high := rapid.Uint64().Draw(t, "low"), rapid.Uint64().Draw(t, "high")
		low, high = min(low, high), max(low, high)
		if a, b := keygroup.Of(low, maxParallelism), keygroup.Of(high, maxParallelism); a > b {
			t.Fatalf("%#x is of key group %d, and %#x of %d", low, a, high, b)
		}
		if a, b := keygroup.Of(0, maxParallelism), keygroup.Of(math.MaxUint64, maxParallelism); a != 0 || b != maxParallelism-1 {
			t.Fatalf("of %d key groups the first hash is of %d and the last of %d", maxParallelism, a, b)
		}
	})
}

// A namespace moves an entry within its key group only, and nearby namespaces of a
// key are far apart.
func TestNamespacedKeepsKeyGroup(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hash := rapid.Uint64().Draw(t, "hash")
		namespace := rapid.Int64().Draw(t, "namespace")
		maxParallelism := rapid.IntRange(1, keygroup.MaxParallelismLimit).Draw(t, "maxParallelism")
		namespaced := keygroup.Namespaced(hash, namespace)
		if keygroup.Of(namespaced, maxParallelism) != keygroup.Of(hash, maxParallelism) {
			t.Fatalf("namespace %d moves %#x to %#x, of another key group", namespace, hash, namespaced)
		}
		if namespaced == keygroup.Namespaced(hash, namespace+1) {
			t.Fatalf("namespaces %d and %d of %#x collide", namespace, namespace+1, hash)
		}
	})
}

// Namespaced never changes: windows that were stored by an older version are found.
func TestNamespacedGolden(t *testing.T) {
	for _, test := range []struct {
		hash      uint64
		namespace int64
		want      uint64
	}{
		{0, 0, 0},
		{0x0123456789abcdef, 0, 0x012345e4ebb5112c},
		{0x0123456789abcdef, 1700000000000, 0x012345778b12998a},
		{math.MaxUint64, -1, 0xffffff771b652c20},
	} {
		if got := keygroup.Namespaced(test.hash, test.namespace); got != test.want {
			t.Errorf("Namespaced(%#x, %d) = %#x, want %#x", test.hash, test.namespace, got, test.want)
		}
	}
}

// Hashing, key group and owner of a key cost no allocation.
func TestNoAllocation(t *testing.T) {
	key := make([]byte, 0, 16)
	sink := 0
	n := testing.AllocsPerRun(100, func() {
		key = keygroup.AppendFloat(keygroup.AppendInt(key[:0], 42), 1.5)
		hash := keygroup.Namespaced(keygroup.Hash(key), 7)
		sink += keygroup.Owner(keygroup.Of(hash, 128), 4, 128)
	})
	if n != 0 {
		t.Errorf("%v allocations per key", n)
	}
}

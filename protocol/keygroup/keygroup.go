// Package keygroup divides keys into key groups and key groups among subtasks.
//
// A key group is the smallest share of keyed state that moves when a job is
// rescaled. Every user of key groups goes through this package: the router of a
// keyed edge, the tables, the segment files and restore; were they to disagree,
// a record would be processed where its state is not.
//
// The ranges follow Flink's KeyGroupRangeAssignment. The key group itself is
// taken from the top bits of the key's hash, so that tables and segments in hash
// order are in key group order as well.
package keygroup

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/cespare/xxhash/v2"
)

const (
	// MaxParallelismLimit is the largest maximum parallelism.
	MaxParallelismLimit = 1 << 15
	// minDefault is the smallest default maximum parallelism.
	minDefault = 128
	// groupBits is how many top bits of a hash decide its key group.
	groupBits = 24
)

// Hash returns the hash of a key's canonical bytes: XXH64 with seed 0. It serves
// key groups, tables and segments, and never changes.
func Hash(key []byte) uint64 {
	if len(key) == 8 {
		return hash8(binary.LittleEndian.Uint64(key))
	}
	return xxhash.Sum64(key)
}

// hash8 is XXH64 of 8 bytes, the width of integer keys, without the call.
func hash8(v uint64) uint64 {
	const (
		prime1 = 0x9E3779B185EBCA87
		prime2 = 0xC2B2AE3D27D4EB4F
		prime3 = 0x165667B19E3779F9
		prime4 = 0x85EBCA77C2B2AE63
		prime5 = 0x27D4EB2F165667C5
	)
	h := bits.RotateLeft64(v*prime2, 31) * prime1
	h = bits.RotateLeft64(h^(prime5+8), 27)*prime1 + prime4
	h = (h ^ h>>33) * prime2
	h = (h ^ h>>29) * prime3
	return h ^ h>>32
}

// Of returns the key group of a hash, in [0, maxParallelism).
func Of(hash uint64, maxParallelism int) int {
	return int(hash >> (64 - groupBits) * uint64(maxParallelism) >> groupBits)
}

// Range returns the key groups of a subtask, both ends included:
// [ceil(i*M/P), floor(((i+1)*M-1)/P)].
func Range(subtask, parallelism, maxParallelism int) (first, last int) {
	first = (subtask*maxParallelism + parallelism - 1) / parallelism
	last = ((subtask+1)*maxParallelism - 1) / parallelism
	return first, last
}

// Owner returns the subtask whose Range contains the key group.
func Owner(group, parallelism, maxParallelism int) int {
	return group * parallelism / maxParallelism
}

// DefaultMaxParallelism is Flink's: 1.5 times the parallelism, rounded up to a
// power of two, within [128, 32768].
func DefaultMaxParallelism(parallelism int) int {
	want := parallelism + parallelism/2
	m := minDefault
	for m < want && m < MaxParallelismLimit {
		m *= 2
	}
	return m
}

// Namespaced returns the hash under which an entry of a key's namespace (such as
// a window's start) is stored: the bits that decide the key group stay.
func Namespaced(hash uint64, namespace int64) uint64 {
	const keep = ^uint64(0) &^ (1<<(64-groupBits) - 1)
	z := hash ^ uint64(namespace)*0x9E3779B97F4A7C15
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return hash&keep | (z^z>>31)&^keep
}

// AppendInt appends the canonical bytes of an integer key: 8 bytes, little endian.
func AppendInt(key []byte, v int64) []byte {
	return binary.LittleEndian.AppendUint64(key, uint64(v))
}

// AppendFloat appends the canonical bytes of a float key: -0.0 is 0.0, and every
// NaN is the same NaN.
func AppendFloat(key []byte, v float64) []byte {
	if v == 0 {
		v = 0 // also turns -0.0 into 0.0
	}
	bits := math.Float64bits(v)
	if v != v {
		bits = 0x7FF8000000000001
	}
	return binary.LittleEndian.AppendUint64(key, bits)
}

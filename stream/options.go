package stream

import (
	"strings"

	"cutwater/codec"
)

// Option changes how an operator is declared. An option that does not fit the
// operator is an error of Build.
type Option func(*options)

type options struct {
	parallelism    uint32
	maxParallelism uint32
	neverChain     bool
	declared       string
	codec          any // codec.Codec of the output
	state          any // codec.Codec of the accumulator
	eventTime      any // func(T) int64
	outOfOrderMs   int64
	idlenessMs     int64
	rate           float64
	malformed      MalformedPolicy
	latenessMs     int64
	skipFailed     bool
	// names of the options that only some operators take, in the order given
	special []string
}

// Parallelism is the operator's number of subtasks; without it, the topology's.
func Parallelism(n int) Option { return func(o *options) { o.parallelism = uint32(max(n, 0)) } }

// MaxParallelism is the operator's number of key groups, which bounds its
// parallelism for the life of the job.
func MaxParallelism(n int) Option { return func(o *options) { o.maxParallelism = uint32(max(n, 0)) } }

// NeverChain keeps the operator in a task of its own.
func NeverChain() Option { return func(o *options) { o.neverChain = true } }

// DeclaredAt says where the operator was declared, instead of the line of Go
// that calls: for topologies that are read from files.
func DeclaredAt(position string) Option { return func(o *options) { o.declared = position } }

// WithCodec is the codec of the records that the operator emits, for types that
// codec.Of does not know or encodes in another way than wanted.
func WithCodec[T any](c codec.Codec[T]) Option { return func(o *options) { o.codec = c } }

// WithState is the codec of what Window, Aggregate and Reduce keep per key, for
// types that codec.Of does not know.
func WithState[A any](c codec.Codec[A]) Option {
	return func(o *options) { o.state, o.special = c, append(o.special, "WithState") }
}

// SkipFailed lets TryMap, Aggregate and Window leave out the records for which their
// function returns an error, instead of failing. They are counted and reported as
// events of the kind "failed"; one that is read again after a failure counts again.
// An Aggregator whose Add fails must leave the accumulator as it was; a window whose
// parts cannot be merged has no result, and counts as one record. A panic fails the
// task all the same.
func SkipFailed() Option {
	return func(o *options) { o.skipFailed, o.special = true, append(o.special, "SkipFailed") }
}

// takes checks that only these special options were given.
func (t *Topology) takes(n *node, names ...string) {
	for _, s := range n.options.special {
		if !contains(names, s) {
			t.failf(n, "%s is not an option of a %s", s, n.kind)
		}
	}
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

const packagePath = "cutwater/stream."

// isOurs reports whether a function belongs to this package, tests excepted.
func isOurs(function string) bool {
	return strings.HasPrefix(function, packagePath) && !strings.HasPrefix(function, packagePath+"Test") &&
		!strings.HasPrefix(function, packagePath+"Benchmark")
}

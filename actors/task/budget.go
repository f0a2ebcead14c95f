package task

import "sync/atomic"

// DefaultChannelMemoryBytes is what a node lends to its channels if it is not told
// otherwise.
const DefaultChannelMemoryBytes = 64 << 20

// Budget is the memory that a node lends to the output channels of all its tasks.
// A channel may always have one batch outstanding; every further one, up to its
// window, is borrowed until the receiver has consumed it. So a few channels get
// all that they can use, many share, and none waits for another to end: with one
// batch each, every channel goes on (Flink: exclusive and floating buffers). It is
// safe for concurrent use; a nil Budget lends without limit.
type Budget struct {
	limit int64
	lent  atomic.Int64
}

// NewBudget returns a budget of so many bytes; 0 means DefaultChannelMemoryBytes.
func NewBudget(bytes int64) *Budget {
	if bytes <= 0 {
		bytes = DefaultChannelMemoryBytes
	}
	return &Budget{limit: bytes}
}

// Lent is how many bytes are borrowed now.
func (b *Budget) Lent() int64 { return b.lent.Load() }

// borrow takes n bytes, unless that exceeds the budget.
func (b *Budget) borrow(n int) bool {
	if b == nil {
		return true
	}
	if b.lent.Add(int64(n)) > b.limit {
		b.lent.Add(-int64(n))
		return false
	}
	return true
}

// repay gives back what was borrowed.
func (b *Budget) repay(n int) {
	if b != nil && n > 0 {
		b.lent.Add(-int64(n))
	}
}

package task

import (
	"sync"
	"sync/atomic"

	"cutwater/messages"
)

// Pool recycles record batches within a process. A batch has one reference for
// each holder; whoever drops the last one gives it back, so a holder may read
// Data until it calls Release and not a moment longer.
type Pool struct{ batches sync.Pool }

// poison overwrites freed batches; race builds set it, so that a use after
// Release shows at once.
var poison = false

// Get returns an empty batch with one reference.
func (p *Pool) Get() *messages.RecordBatch {
	b, _ := p.batches.Get().(*messages.RecordBatch)
	if b == nil {
		b = &messages.RecordBatch{}
	}
	b.References = 1
	return b
}

// Retain adds a holder.
func Retain(b *messages.RecordBatch) { atomic.AddUint32(&b.References, 1) }

// Release drops one reference. A batch that came from another process has none
// and is simply left to the garbage collector.
func (p *Pool) Release(b *messages.RecordBatch) {
	for {
		n := atomic.LoadUint32(&b.References)
		if n == 0 {
			return
		}
		if atomic.CompareAndSwapUint32(&b.References, n, n-1) {
			if n == 1 {
				p.free(b)
			}
			return
		}
	}
}

func (p *Pool) free(b *messages.RecordBatch) {
	if poison {
		for i := range b.Data {
			b.Data[i] = 0xDB
		}
	}
	data := b.Data[:0]
	if cap(data) > maxPooledBytes {
		data = nil
	}
	b.Reset()
	b.Data = data
	p.batches.Put(b)
}

// maxPooledBytes keeps the odd huge batch from staying in memory for ever.
const maxPooledBytes = 256 << 10

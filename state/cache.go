package state

import (
	"fmt"
)

// Pager keeps evicted chunks as pages. Load may run on any goroutine; the rest
// is called by the backend's owner, one call at a time.
type Pager interface {
	// Apply writes new pages and deletes others, all at once. It must not keep
	// the pages' bytes.
	Apply(put []Page, free []uint64) error
	// Load returns a page that the caller may keep.
	Load(id uint64) ([]byte, error)
	// Close deletes everything.
	Close() error
}

// Page is the bytes of an evicted chunk. An id is never used again, so a page
// never changes: a seal finds what it saw until the last seal that can see the
// page is released, and only then is the page deleted.
type Page struct {
	ID   uint64
	Data []byte
}

// ScratchError says that evicted state could not be written or read back. The
// tables cannot go on: they panic with it in the task, which fails and restarts
// from its last checkpoint; Sealed.Write returns it.
type ScratchError struct {
	State string
	Err   error
}

// Error names the state and the cause.
func (e *ScratchError) Error() string {
	return fmt.Sprintf("state %s: the scratch file failed: %v; "+
		"free or replace the disk under the data directory, or use the heap backend", e.State, e.Err)
}

// Unwrap returns the cause.
func (e *ScratchError) Unwrap() error { return e.Err }

// cache bounds the bytes of resident chunks. What seals hold beyond that, at
// most as much again for each live seal, is theirs and goes when they do.
type cache struct {
	backend  *Tables
	pager    Pager
	limit    int
	resident int
	lastPage uint64
	freed    []uint64
	// hand is where the clock stands: a table and a placement in it.
	table int
	place uint64
}

// evictAtOnce bounds the pages that one operation may have to write.
const evictAtOnce = 64

func newCache(backend *Tables, p Pager, limit int64) *cache {
	return &cache{backend: backend, pager: p, limit: int(limit)}
}

// get returns the chunk of a placement and makes it resident. Only here chunks
// are evicted, so those of the operation that follows stay.
func (h *cache) get(t *Table, p uint64) *chunk {
	if h.resident > h.limit {
		h.evict()
	}
	c := t.root.find(p)
	c.recent = true
	if c.slots != nil {
		return c
	}
	d := *c
	var err error
	if d.slots, d.arena, err = h.load(&t.layout, c); err != nil {
		panic(err)
	}
	d.owner, d.frozen = 0, 0
	t.replace(p, &d)
	h.count(&d)
	return &d
}

// load reads an evicted chunk.
func (h *cache) load(l *layout, c *chunk) (slots, arena []byte, err error) {
	b, err := h.pager.Load(c.page)
	if err != nil {
		return nil, nil, &ScratchError{l.Name, err}
	}
	n := (int(c.mask()) + 1) * l.stride
	if len(b) != n+c.arenaLen {
		return nil, nil, &ScratchError{l.Name, fmt.Errorf("page %d has %d bytes, want %d", c.page, len(b), n+c.arenaLen)}
	}
	return b[:n:n], b[n:], nil
}

func (h *cache) count(c *chunk) {
	size := len(c.slots) + cap(c.arena)
	h.resident += size - c.resident
	c.resident = size
}

func (h *cache) uncount(c *chunk) {
	h.resident -= c.resident
	c.resident = 0
}

// evict passes the clock's hand over the chunks and takes from memory those not
// used since it last came by, until a tenth of the limit is free. Unchanged ones
// have their page already.
func (h *cache) evict() {
	var put []Page
	goal, circles := h.limit-h.limit/10, 0
	for h.resident > goal && len(put) < evictAtOnce && circles < 3 {
		t := h.backend.tables[h.table]
		p, c := h.place, t.root.find(h.place)
		if h.place = c.after(p); h.place == 0 {
			if h.table++; h.table == len(h.backend.tables) {
				h.table, circles = 0, circles+1
			}
		}
		switch {
		case c.slots == nil:
		case c.recent:
			c.recent = false
		default:
			put = h.drop(t, p, c, put)
		}
	}
	h.backend.reap(reapAtOnce)
	if len(put) == 0 && len(h.freed) < evictAtOnce {
		return
	}
	if err := h.pager.Apply(put, h.freed); err != nil {
		panic(&ScratchError{h.backend.tables[h.table].Name, err})
	}
	h.freed = h.freed[:0]
}

// drop leaves of a resident chunk only where its page is.
func (h *cache) drop(t *Table, p uint64, c *chunk, put []Page) []Page {
	stub := *c
	if c.page == 0 {
		h.lastPage++
		stub.page = h.lastPage
		b := make([]byte, 0, len(c.slots)+len(c.arena))
		put = append(put, Page{stub.page, append(append(b, c.slots...), c.arena...)})
	}
	stub.slots, stub.arena, stub.arenaLen, stub.owner, stub.resident = nil, nil, len(c.arena), 0, 0
	t.replace(p, &stub)
	h.uncount(c)
	t.discard(c, 0) // its page is the stub's now
	return put
}

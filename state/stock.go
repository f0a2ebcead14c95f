package state

// stock is memory for the slots of chunks that a table will soon copy, mapped by
// whoever writes the seal that makes it copy them. A copy into memory that the
// process has never touched costs the task several times the copy itself: the machine
// maps it page by page, and the garbage collector has the task pay for it with
// marking. Only a table's first seals need it; later ones find what the earlier left
// (see spare.go). Writers fill it, one or several at a time, and the task takes.
type stock [sizeClasses]chan *chunk

const (
	// stockChunks is how many chunks of a size a writer keeps ready, stockBytes how
	// many bytes. It tops them up for each chunk that it reads.
	stockChunks, stockBytes = 256, 2 << 20

	pageSize = 4 << 10
)

// stockFor is nil for tables too small to need a stock, and for those whose memory
// is bounded.
func (t *Table) stockFor() *stock {
	if t.stock == nil && t.backend.cache == nil && t.count > 2*stockChunks*maxSlots {
		t.stock = new(stock)
		for class := range t.stock {
			t.stock[class] = make(chan *chunk, max(1, min(stockChunks, stockBytes>>class/t.stride)))
		}
	}
	return t.stock
}

// fill maps as many of a size as were taken.
func (s *stock) fill(class, bytes int) {
	if s == nil || class < 0 {
		return
	}
	for of := s[class]; len(of) < cap(of); {
		c := &chunk{slots: make([]byte, bytes)}
		for i := 0; i < bytes; i += pageSize {
			c.slots[i] = 0
		}
		select {
		case of <- c:
		default: // another writer was faster
			return
		}
	}
}

// take returns an empty chunk if none of that size is there.
func (s *stock) take(class int) *chunk {
	if s != nil {
		select {
		case c := <-s[class]:
			return c
		default:
		}
	}
	return new(chunk)
}

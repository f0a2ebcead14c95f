package state

// Table maps (key, namespace) to a value. Entries lie flat in chunks of 256
// slots, placed by the top bits of their hash, so slot order is key group order.
// Slices that it returns are views, valid until the next call on the backend.
type Table struct{}

// Get returns the value of the key, or ok false.
func (t *Table) Get(hash uint64, key []byte, namespace int64) (value []byte, ok bool) { panic("stub") }

// Update returns the value of a fixed-width entry for writing in place, made and
// zeroed if it was not there; the entry counts as changed.
func (t *Table) Update(hash uint64, key []byte, namespace int64) (value []byte, existed bool) {
	panic("stub")
}

// Put sets the value; a variable-width value is copied.
func (t *Table) Put(hash uint64, key []byte, namespace int64, value []byte) { panic("stub") }

// Append adds bytes to the end of a variable-width value, amortised O(len(more)).
func (t *Table) Append(hash uint64, key []byte, namespace int64, more []byte) { panic("stub") }

// Delete removes the entry and reports whether it was there.
func (t *Table) Delete(hash uint64, key []byte, namespace int64) bool { panic("stub") }

// Len is the number of entries (for the bolt backend, an upper bound).
func (t *Table) Len() int { panic("stub") }

// Each calls f for every entry in table order until it returns false; f must not
// change the backend.
func (t *Table) Each(f func(hash uint64, key []byte, namespace int64, value []byte) bool) {
	panic("stub")
}

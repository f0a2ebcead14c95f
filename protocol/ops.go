package protocol

// Ops numbers the operations of a machine and of the machines inside it, so that
// an answer finds its asker. The zero value starts at 1.
type Ops struct{ last uint64 }

// Next returns a fresh operation id.
func (o *Ops) Next() uint64 {
	o.last++
	return o.last
}

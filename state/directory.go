package state

// A table's directory is a radix tree of extendible-hashing directories. A node
// covers all placements with one prefix and is indexed by the bits after it, up
// to maxBits of them; several indexes lead to one chunk while the chunk's own
// prefix is shorter. A node that is full in this sense lets a single crowded
// index become a node of its own, so that many entries with a long common
// prefix (the windows or timers of one hot key) cost a level, not a directory
// doubled over and over.
//
// A seal keeps the root. The first change after it copies the nodes on its way
// down, 320 KiB each at most, so nothing has to be copied at the seal itself. The
// next copy goes where an older one was, once no seal reads that.
type node struct {
	// gen is the generation in which the node may be changed in place.
	gen uint32
	// skip is the length of the prefix, bits the number of bits indexed by.
	skip, bits uint8
	// kids, ways and subs have 1<<bits elements; where kids has no chunk, subs has
	// a node. Subs is nil while there are none at all.
	kids []*chunk
	ways []way
	subs []*node
}

// way repeats what a look-up needs of a chunk, which saves it a cache miss; two
// of them fill a cache line.
type way struct {
	slots []byte // nil: no chunk, or an evicted one
	owner uint32
	homes
}

// maxBits keeps the copy of a node below a tenth of a millisecond and still leads
// 1e6 entries to their chunks in one step.
const maxBits = 13

func newNode(gen uint32, skip uint8, c *chunk) *node {
	n := &node{gen: gen, skip: skip, bits: 1, kids: make([]*chunk, 2), ways: make([]way, 2)}
	n.put(0, c)
	if c.depth > skip {
		n.put(1, c)
	}
	return n
}

func (n *node) index(p uint64) uint64 { return p << (n.skip & 63) >> (-n.bits & 63) }

// find returns the chunk of a placement.
func (n *node) find(p uint64) *chunk {
	for {
		i := n.index(p)
		if c := n.kids[i]; c != nil {
			return c
		}
		n = n.subs[i]
	}
}

// look returns the way to the chunk of a placement. No chunk may be evicted.
func (n *node) look(p uint64) *way {
	for {
		i := n.index(p)
		if w := &n.ways[i]; w.slots != nil {
			return w
		}
		n = n.subs[i]
	}
}

// put makes index i lead to c, and with it all that c is for.
func (n *node) put(i uint64, c *chunk) {
	span := uint64(1) << (n.skip + n.bits - c.depth)
	first := i &^ (span - 1)
	for j := range span {
		n.kids[first+j], n.ways[first+j] = c, way{c.slots, c.owner, c.homes}
	}
}

// copy makes to a copy of the node, in the slices that it has.
func (n *node) copy(to *node, gen uint32) {
	kids, ways, subs := append(to.kids[:0], n.kids...), append(to.ways[:0], n.ways...), append(to.subs[:0], n.subs...)
	if *to = *n; n.subs == nil {
		subs = nil
	}
	to.gen, to.kids, to.ways, to.subs = gen, kids, ways, subs
}

// clear empties the node so that it keeps nothing but its slices.
func (n *node) clear() {
	clear(n.kids)
	clear(n.ways)
	clear(n.subs)
}

// double lets the node index by one more bit.
func (n *node) double() {
	kids, ways := make([]*chunk, 2*len(n.kids)), make([]way, 2*len(n.ways))
	for i, c := range n.kids {
		kids[2*i], kids[2*i+1] = c, c
		ways[2*i], ways[2*i+1] = n.ways[i], n.ways[i]
	}
	n.kids, n.ways, n.bits = kids, ways, n.bits+1
	// A node with subs never doubles: it has had maxBits since the first.
}

// leaf returns the node and the index that lead to the chunk of a placement,
// every node on the way owned by the present generation.
func (t *Table) leaf(p uint64) (*node, uint64) {
	n := t.ownNode(&t.root)
	for {
		i := n.index(p)
		if n.kids[i] != nil {
			return n, i
		}
		n = t.ownNode(&n.subs[i])
	}
}

func (t *Table) ownNode(at **node) *node {
	n := *at
	if n.gen != t.gen {
		if t.backend.sealed() {
			c := t.spareNode
			if c == nil {
				c = new(node)
			}
			t.spareNode = nil
			n.copy(c, t.gen)
			t.backend.dropped.push(dropped{table: t, node: n, gen: t.gen})
			*at, n = c, c
		}
		n.gen = t.gen
	}
	return n
}

// replace puts c in the place of the chunk of placement p.
func (t *Table) replace(p uint64, c *chunk) {
	n, i := t.leaf(p)
	n.put(i, c)
}

// split puts two chunks of half the range in the place of the chunk of placement
// p. The caller has filled them; their depth is one more.
func (t *Table) split(p uint64, low, high *chunk) {
	n, i := t.leaf(p)
	old := n.kids[i]
	if old.depth == n.skip+n.bits {
		if n.bits < maxBits && n.skip+n.bits < 64 && n.subs == nil {
			n.double()
		} else {
			sub := newNode(t.gen, n.skip+n.bits, old)
			if n.subs == nil {
				n.subs = make([]*node, len(n.kids))
			}
			n.kids[i], n.ways[i], n.subs[i] = nil, way{}, sub
			n = sub
		}
	}
	bit := uint64(1) << (63 - old.depth)
	n.put(n.index(p&^bit), low)
	n.put(n.index(p|bit), high)
}

// after returns the first placement behind the chunk's range, 0 at the end.
func (c *chunk) after(p uint64) uint64 {
	if c.depth == 0 {
		return 0
	}
	return (p>>(64-c.depth) + 1) << (64 - c.depth)
}

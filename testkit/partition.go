package testkit

// Sever lets nothing pass from one node to another any more, or lets it pass again.
// What is on its way is lost. In a cluster gossip may miss the other node, and a
// connection be told to be lost, late or not at all.
func (w *World) Sever(from, to *Node, cut bool) {
	if w.severed[[2]*Node{from, to}] == cut {
		return
	}
	verb := "SEVER"
	if cut {
		w.severed[[2]*Node{from, to}] = true
	} else {
		verb = "JOIN"
		delete(w.severed, [2]*Node{from, to})
	}
	w.note("%s %s > %s", verb, from.ID, to.ID)
	if cut && w.plane != nil {
		w.plane.separated(from, to)
	}
}

// reaches reports whether what one node sends arrives at another.
func (w *World) reaches(from, to *Node) bool {
	return from == to || !from.cut && !to.cut && !w.severed[[2]*Node{from, to}]
}

// joined reports whether two nodes reach each other.
func (w *World) joined(a, b *Node) bool { return w.reaches(a, b) && w.reaches(b, a) }

// PartitionPair cuts two nodes off from each other, and nobody else, for a while.
func (w *World) PartitionPair(a, b *Node, ms int64) {
	w.happened(PairPartitioned)
	w.separate(a, b, ms)
}

// PartitionOneWay lets nothing pass from one node to another for a while; what the
// other one sends arrives.
func (w *World) PartitionOneWay(from, to *Node, ms int64) {
	w.happened(OneWayPartitioned)
	w.Sever(from, to, true)
	w.After(ms, func() { w.Sever(from, to, false) })
}

// PartitionFlapping cuts two nodes off from each other again and again.
func (w *World) PartitionFlapping(a, b *Node, times int) {
	w.happened(FlappingPartition)
	at := int64(0)
	for range times {
		down, up := int64(20+w.rng.IntN(1000)), int64(20+w.rng.IntN(500))
		w.After(at, func() { w.separate(a, b, down) })
		at += down + up
	}
}

func (w *World) separate(a, b *Node, ms int64) {
	w.Sever(a, b, true)
	w.Sever(b, a, true)
	w.After(ms, func() {
		w.Sever(a, b, false)
		w.Sever(b, a, false)
	})
}

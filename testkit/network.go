package testkit

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"cutwater/actors/system"
	"cutwater/messages"
	"cutwater/protocol"
)

// network carries messages between nodes. A data channel keeps its order; whatever
// else happens to it breaks the transport's promise and must be noticed. Control
// messages may be dropped, repeated or overtaken at any time.
type network struct{ world *World }

// Send implements system.Transport.
func (t network) Send(from, to protocol.Address, m proto.Message) {
	w := t.world
	source, target := w.node(system.NodeOf(from)), w.node(system.NodeOf(to))
	if source == nil || target == nil || source.halted || !w.reaches(source, target) {
		return
	}
	if w.planted.lose != nil && w.planted.lose(to, m) {
		return
	}
	if w.encode {
		m = reencode(m)
	}
	arrival := w.nowUs + 50 + int64(w.rng.IntN(1000))
	if !ordered(m) {
		t.control(arrival, source, target, to, m)
		return
	}
	link := [2]string{string(from), string(to)}
	arrival = max(arrival, w.links[link]+1)
	if inBand(m) {
		switch {
		case w.inject(DataLost, w.faults.LoseData):
			return
		case w.inject(DataReordered, w.faults.ReorderData):
			t.deliver(arrival+int64(w.rng.IntN(20_000)), source, target, to, m)
			return
		case w.inject(DataDuplicated, w.faults.DuplicateData):
			arrival++
			t.deliver(arrival-1, source, target, to, proto.Clone(m))
		}
	} else if w.inject(CreditLost, w.faults.LoseCredit) {
		return
	}
	w.links[link] = arrival
	t.deliver(arrival, source, target, to, m)
}

func (t network) control(arrival int64, source, target *Node, to protocol.Address, m proto.Message) {
	w := t.world
	if w.inject(ControlDropped, w.faults.DropControl) {
		return
	}
	if w.inject(ControlDelayed, w.faults.DelayControl) {
		arrival += int64(w.rng.IntN(200_000))
	}
	t.deliver(arrival, source, target, to, m)
	if w.inject(ControlDuplicated, w.faults.DuplicateControl) {
		t.deliver(arrival+int64(w.rng.IntN(20_000)), source, target, to, proto.Clone(m))
	}
}

func (t network) deliver(atUs int64, source, target *Node, to protocol.Address, m proto.Message) {
	life := target.life
	t.world.at(atUs, func() {
		if target.lives(life) && t.world.reaches(source, target) {
			target.sys.Deliver(to, m)
		}
	})
}

// inBand reports whether a message is numbered on a data channel.
func inBand(m proto.Message) bool {
	_, ok := m.(interface{ GetSeq() uint64 })
	return ok
}

// ordered reports whether a message belongs to a data channel: it is in band, or
// tells its sender what the receiver has room for.
func ordered(m proto.Message) bool {
	switch m.(type) {
	case *messages.Credit, *messages.ChannelRequest:
		return true
	}
	return inBand(m)
}

// reencode sends a message through its wire form.
func reencode(m proto.Message) proto.Message {
	if b, ok := m.(*messages.RecordBatch); ok {
		b.References = 0 // holders in this process do not travel
	}
	raw, err := proto.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("testkit: %T does not encode: %v", m, err))
	}
	decoded := m.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(raw, decoded); err != nil {
		panic(fmt.Sprintf("testkit: %T does not decode: %v", m, err))
	}
	return decoded
}

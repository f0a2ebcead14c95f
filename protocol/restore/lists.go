package restore

import "cutwater/messages"

// namedList is one list state of an operator with the items of every old
// subtask; has tells an empty list from none.
type namedList struct {
	name  string
	mode  messages.RedistributionMode
	items [][][]byte // by old subtask
	has   []bool     // by old subtask
}

// redistribute returns the list state of every new subtask (Flink's
// RoundRobinOperatorStateRepartitioner). Lists are in the order in which the old
// subtasks name them first.
func (a *assigner) redistribute(s *messages.OperatorState, parallelism int) [][]*messages.OperatorList {
	shares := make([][]*messages.OperatorList, parallelism)
	give := func(subtask int, l *namedList, items [][]byte) {
		shares[subtask] = append(shares[subtask], &messages.OperatorList{Name: l.name, Mode: l.mode, Items: items})
	}
	start := 0
	for _, l := range a.collect(s) {
		switch l.mode {
		case messages.RedistributionMode_UNION:
			var all [][]byte
			for _, items := range l.items {
				all = append(all, items...)
			}
			for i := range shares {
				give(i, l, all)
			}
		case messages.RedistributionMode_BROADCAST:
			// Copies are equal; whoever had one keeps it if nothing changed.
			unchanged := parallelism == len(l.items)
			var copies [][][]byte
			for old, has := range l.has {
				if has {
					copies = append(copies, l.items[old])
				}
			}
			for i := range shares {
				if unchanged && l.has[i] {
					give(i, l, l.items[i])
				} else {
					give(i, l, copies[i%len(copies)])
				}
			}
		default:
			if parallelism == len(l.items) {
				for i := range shares {
					if l.has[i] {
						give(i, l, l.items[i])
					}
				}
				continue
			}
			start = deal(l, parallelism, start, give)
		}
	}
	return shares
}

// deal gives each subtask a run of the items, the first ones one more if they do
// not divide evenly. It begins with the subtask start and returns the subtask
// after the last one that got one more, with which the next list begins, so that
// many short lists spread evenly.
func deal(l *namedList, parallelism, start int, give func(int, *namedList, [][]byte)) (next int) {
	var all [][]byte
	for _, items := range l.items {
		all = append(all, items...)
	}
	each, more := len(all)/parallelism, len(all)%parallelism
	next = (start + more) % parallelism
	for i := range parallelism {
		n := each
		if i < more {
			n++
		}
		if n > 0 {
			give((start+i)%parallelism, l, all[:n:n])
			all = all[n:]
		}
	}
	return next
}

// collect gathers the lists of an operator over its old subtasks.
func (a *assigner) collect(s *messages.OperatorState) []*namedList {
	var lists []*namedList
	byName := make(map[string]*namedList)
	for _, e := range s.Subtasks {
		if e.GetState().GetLists() == nil {
			continue
		}
		content := a.lists[subtaskOf{s.Uid, e.Subtask}]
		if content == nil {
			a.bad.report(s.Uid, "the list state of subtask %d was not read with the checkpoint: the checkpoint is damaged; restore another one", e.Subtask)
			continue
		}
		for _, in := range content.Lists {
			l := byName[in.Name]
			if l == nil {
				l = &namedList{name: in.Name, mode: in.Mode, items: make([][][]byte, s.Parallelism), has: make([]bool, s.Parallelism)}
				byName[in.Name] = l
				lists = append(lists, l)
			}
			if l.mode != in.Mode {
				a.bad.report(s.Uid, "its list state %q is %s in one subtask and %s in subtask %d: the checkpoint is damaged; restore another one",
					in.Name, l.mode, in.Mode, e.Subtask)
				continue
			}
			l.has[e.Subtask] = true
			l.items[e.Subtask] = append(l.items[e.Subtask], in.Items...)
		}
	}
	return lists
}

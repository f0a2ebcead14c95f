// Package split is the enumerator of a source: it knows the splits that nobody
// reads yet and hands them to the subtasks that ask (Flink's SplitEnumerator).
//
// Its state is the list of unassigned splits, and whether discovery has run;
// that is what a checkpoint keeps. A split that was assigned belongs to the
// reader's own state. So the coordinator must hold assignments back between the
// enumerator's snapshot and the subtask's: otherwise a split would be in both or
// in neither (the event gate of package protocol/checkpoint does it).
//
// Conversations:
//
//   - DiscoverSplits is answered by SplitsDiscovered, once in the life of a job.
//     Requests that come earlier wait.
//   - SplitRequest is answered by SplitAssignment: one split, or no more for
//     ever. Both may be repeated. Requests are numbered per subtask and attempt;
//     a request that is repeated gets the answer that it got, and an older one
//     none: its sender has gone on.
//
// A coordinator that takes running tasks over makes the enumerator anew: from the
// state in the newest completed checkpoint, or from discovery, without the splits that
// the readers say they got since ([Received], [Enumerator.TakeOut]). That is exact,
// because of the gate: what left the enumerator before its snapshot was with its
// reader before the barrier, and what left it later comes behind.
//
// A subtask that restarts while others go on gets again what it got behind the
// checkpoint that it is restored from ([Enumerator.Reset]).
//
// Splits go out in the order of discovery, save that splits of one group go out
// in ascending ordinal: whoever reads a group's splits in the order in which they
// were given sees the group's records in order.
package split

import (
	"fmt"
	"sort"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
)

// Enumerator hands out the splits of one source. One coordinator uses it, one
// call at a time. The splits given to it are not changed by it, and must not be
// by others.
type Enumerator struct {
	uid        string
	discovered bool
	totalBytes uint64
	unassigned []*messages.Split
	// kept are those of unassigned that wait for one subtask, by id.
	kept  map[string]int
	given given
	// subtasks holds the last request of each subtask.
	subtasks []conversation
}

// conversation is a subtask's last request and its answer, nil while it waits.
type conversation struct {
	request *messages.SplitRequest
	answer  *messages.SplitAssignment
}

// New returns the enumerator of the source with this uid, before discovery.
func New(uid string, parallelism int) *Enumerator {
	return &Enumerator{uid: uid, subtasks: make([]conversation, parallelism),
		kept: make(map[string]int), given: given{subtasks: make([][]givenSplit, parallelism)}}
}

// NeedsDiscovery reports that the splits are not known yet: neither discovered
// nor restored.
func (e *Enumerator) NeedsDiscovery() bool { return !e.discovered }

// Discovered takes the result of discovery and answers the requests that waited,
// in the order of subtasks. A repeated result is ignored.
func (e *Enumerator) Discovered(d *messages.SplitsDiscovered) []*messages.SplitAssignment {
	if e.discovered {
		return nil
	}
	e.discovered = true
	e.totalBytes = d.GetTotalBytes()
	e.unassigned = inGroupOrder(append(e.unassigned, d.GetSplits()...))
	var answers []*messages.SplitAssignment
	for i := range e.subtasks {
		if c := &e.subtasks[i]; c.request != nil && c.answer == nil {
			answers = append(answers, e.answer(i))
		}
	}
	return answers
}

// Request answers a subtask's request: with one assignment, or with none while
// the request waits for discovery or if it is out of date. A subtask outside the
// source's parallelism or another source's uid gets no answer.
func (e *Enumerator) Request(r *messages.SplitRequest) []*messages.SplitAssignment {
	subtask := r.GetTask().GetSubtask()
	if r.GetUid() != e.uid || int64(subtask) >= int64(len(e.subtasks)) {
		return nil
	}
	c := &e.subtasks[subtask]
	switch compare(r, c.request) {
	case older:
		return nil
	case repeated:
		if c.answer == nil {
			return nil // it still waits
		}
		return []*messages.SplitAssignment{proto.CloneOf(c.answer)}
	}
	c.request, c.answer = r, nil
	if !e.discovered {
		return nil
	}
	return []*messages.SplitAssignment{e.answer(int(subtask))}
}

// AddBack takes splits back that were assigned to a reader which is gone, with
// the positions to continue from. They go out before all others. Subtasks that
// were told that there are no more splits do not ask again.
func (e *Enumerator) AddBack(splits []*messages.Split) {
	e.unassigned = inGroupOrder(append(append([]*messages.Split(nil), splits...), e.unassigned...))
}

// Unassigned is the number of splits that nobody reads yet.
func (e *Enumerator) Unassigned() int { return len(e.unassigned) }

// UnassignedBytes is the size of the splits that nobody reads yet.
func (e *Enumerator) UnassignedBytes() uint64 {
	sum := uint64(0)
	for _, s := range e.unassigned {
		sum += s.SizeBytes
	}
	return sum
}

// TotalBytes is the size of all splits that were discovered, 0 if unknown.
func (e *Enumerator) TotalBytes() uint64 { return e.totalBytes }

// Snapshot returns the state for a checkpoint. It shares the splits, which do not
// change.
func (e *Enumerator) Snapshot() *messages.EnumeratorState {
	state := &messages.EnumeratorState{
		Unassigned: append([]*messages.Split(nil), e.unassigned...),
		Discovered: e.discovered,
		TotalBytes: e.totalBytes,
	}
	for _, s := range e.unassigned {
		if subtask, ok := e.kept[s.Id]; ok {
			state.Kept = append(state.Kept, &messages.KeptSplit{Id: s.Id, Subtask: uint32(subtask)})
		}
	}
	return state
}

// Restore replaces the state by that of a checkpoint and forgets all requests: it
// is for a new attempt, whose subtasks ask anew.
func (e *Enumerator) Restore(s *messages.EnumeratorState) {
	e.discovered = s.GetDiscovered()
	e.totalBytes = s.GetTotalBytes()
	e.unassigned = inGroupOrder(append([]*messages.Split(nil), s.GetUnassigned()...))
	clear(e.subtasks)
	clear(e.given.subtasks)
	clear(e.kept)
	for _, k := range s.GetKept() {
		if int64(k.Subtask) < int64(len(e.subtasks)) { // else its reader is gone: anybody may have it
			e.kept[k.Id] = int(k.Subtask)
		}
	}
}

// String describes the enumerator in one line.
func (e *Enumerator) String() string {
	waiting := 0
	for _, c := range e.subtasks {
		if c.request != nil && c.answer == nil {
			waiting++
		}
	}
	return fmt.Sprintf("source %s: discovered=%v unassigned=%d waiting=%d",
		e.uid, e.discovered, len(e.unassigned), waiting)
}

// answer assigns the next split to the subtask that asked. The message is a copy,
// so that the reader may work on the split and a repetition is still the same.
func (e *Enumerator) answer(subtask int) *messages.SplitAssignment {
	c := &e.subtasks[subtask]
	a := &messages.SplitAssignment{
		Fence:  c.request.Fence,
		Task:   c.request.Task,
		Uid:    e.uid,
		Number: c.request.Number,
	}
	a.Split = e.next(subtask)
	a.NoMoreSplits = a.Split == nil
	a.UnassignedLowMs, a.HasUnassignedLow = low(e.forSubtask(subtask))
	c.answer = a
	return proto.CloneOf(a)
}

// low is the smallest of the timestamps that splits have reached. There is none if
// there is no split, or if one of them was never read: then nothing bounds its
// timestamps.
func low(splits []*messages.Split) (timestampMs int64, ok bool) {
	for i, s := range splits {
		if !s.HasMaxTimestamp {
			return 0, false
		}
		if i == 0 || s.MaxTimestampMs < timestampMs {
			timestampMs = s.MaxTimestampMs
		}
	}
	return timestampMs, len(splits) > 0
}

// age is how a request relates to the last one of its subtask.
type age uint8

const (
	older age = iota
	repeated
	newer
)

func compare(r, last *messages.SplitRequest) age {
	was, is := last.GetFence().GetAttempt(), r.GetFence().GetAttempt()
	switch {
	case last == nil || is > was || is == was && r.Number > last.Number:
		return newer
	case is == was && r.Number == last.Number:
		return repeated
	}
	return older
}

// inGroupOrder rearranges splits of the same group among the places that they
// have, so that their ordinals ascend. Splits without a group stay.
func inGroupOrder(splits []*messages.Split) []*messages.Split {
	places := make(map[string][]int)
	for i, s := range splits {
		if s.Group != "" {
			places[s.Group] = append(places[s.Group], i)
		}
	}
	for _, at := range places { // the groups' places are disjoint
		group := make([]*messages.Split, len(at))
		for i, place := range at {
			group[i] = splits[place]
		}
		sort.SliceStable(group, func(i, j int) bool { return group[i].Ordinal < group[j].Ordinal })
		for i, place := range at {
			splits[place] = group[i]
		}
	}
	return splits
}

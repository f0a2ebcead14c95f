package split

import "cutwater/messages"

// Received is a reader's own account of the splits that it was given and that may be
// in no completed checkpoint. A coordinator that takes the job over needs it, because
// the enumerator's memory died with the one before. The zero value is that of a reader
// which has nothing.
//
// A split is noted with the newest checkpoint whose barrier the reader had passed when
// it came. Barriers are passed in ascending order, so the split is behind the barrier
// of checkpoint n if, and only if, that number is n or more.
type Received struct {
	splits []*messages.ReceivedSplit // behind never falls
	// dropped: splits up to this behind could not be kept.
	dropped   uint64
	truncated bool
}

// maxReceived bounds the account. Who has more of them in no checkpoint is deployed
// anew.
const maxReceived = 10_000

// Add notes a split that came when this checkpoint's barrier was the newest that the
// reader had passed, 0 for none.
func (r *Received) Add(id string, behind uint64) {
	if len(r.splits) == maxReceived {
		r.dropped, r.truncated = r.splits[0].Behind, true
		r.splits = append(r.splits[:0], r.splits[1:]...)
	}
	r.splits = append(r.splits, &messages.ReceivedSplit{Id: id, Behind: behind})
}

// Completed forgets what the checkpoint, which has completed, holds.
func (r *Received) Completed(checkpoint uint64) {
	n := 0
	for n < len(r.splits) && r.splits[n].Behind < checkpoint {
		n++
	}
	r.splits = append(r.splits[:0], r.splits[n:]...)
	r.truncated = r.truncated && r.dropped >= checkpoint
}

// Report enters the account into the task's. The entries are shared and do not change.
func (r *Received) Report(a *messages.TaskAccount) {
	a.Received = append([]*messages.ReceivedSplit(nil), r.splits...)
	a.ReceivedTruncated = r.truncated
}

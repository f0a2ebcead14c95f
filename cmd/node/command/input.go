package command

import (
	"fmt"
	"time"

	"cutwater/messages"
)

// rateWindow is how long the reading speed is averaged.
const rateWindow = 2 * time.Second

// input adds up what the sources of a job report.
type input struct {
	attempt uint64
	readers map[string]*messages.SourceProgress // of the attempt, by source task
	// earlier is what was read by attempts that failed.
	earlierRecords, earlierBytes uint64

	sampled time.Time // when the speed was last computed
	sample  uint64    // the records at that time
	speed   float64   // records per second
}

// report takes in what one source task has read.
func (i *input) report(s *messages.SourceProgress) {
	attempt := s.Fence.GetEpoch()<<32 | uint64(s.Fence.GetAttempt())
	switch {
	case attempt < i.attempt:
		return
	case attempt > i.attempt:
		i.earlierRecords, i.earlierBytes, _ = i.sums()
		i.attempt, i.readers = attempt, map[string]*messages.SourceProgress{}
	}
	i.readers[fmt.Sprintf("%s/%d", s.Uid, s.Task.GetSubtask())] = s
}

// sums are the records and bytes read, also by attempts before, and what is left
// of the splits that are being read.
func (i *input) sums() (records, bytes, remaining uint64) {
	records, bytes = i.earlierRecords, i.earlierBytes
	for _, s := range i.readers { // sums do not depend on the order
		records += s.Records
		bytes += s.Bytes
		remaining += s.RemainingBytes
	}
	return records, bytes, remaining
}

// percent is how much of a bounded input was read, also before this run, given
// the sizes of all splits and of those that nobody reads yet. It is not known if
// the sources did not say how much there is.
func (i *input) percent(totalBytes, unassignedBytes uint64) (percent float64, known bool) {
	if totalBytes == 0 || len(i.readers) == 0 {
		return 0, false
	}
	_, _, remaining := i.sums()
	left := min(remaining+unassignedBytes, totalBytes)
	return 100 * float64(totalBytes-left) / float64(totalBytes), true
}

// rate is the number of records per second, lately.
func (i *input) rate(now time.Time) float64 {
	records, _, _ := i.sums()
	if i.sampled.IsZero() {
		i.sampled, i.sample = now, records
	}
	if passed := now.Sub(i.sampled); passed >= rateWindow || i.speed == 0 && passed > 0 {
		i.speed = float64(records-min(i.sample, records)) / passed.Seconds()
		i.sampled, i.sample = now, records
	}
	return i.speed
}

package checkpoint

import (
	"maps"
	"slices"

	"cutwater/messages"
)

// SweepBefore describes what may be deleted of the job's checkpoint directory: what
// attempts before this one left, save what a checkpoint names or can come to name.
// The owner has it carried out when the metadata store has just confirmed that this
// coordinator is the job's, while tasks of this attempt run or have ended.
//
// The sweep takes its time, and the world does not wait. Whatever happens meanwhile,
// nothing goes that is needed:
//
//  1. A pending checkpoint completes: its id is in Keep. Its files are new ones of
//     the running attempt, which is not swept, or shared ones of the registry:
//     goneFile refuses an acknowledgement that names others.
//  2. A retained checkpoint is subsumed: what the newer ones share with it is in the
//     registry since it completed, or since it was restored. What one shares that
//     could not be read then, the sweep reads itself, or deletes nothing.
//  3. A checkpoint begins: its id is above Newest, and its files are as in 1.
//  4. The attempt fails, and the next one restores: from a checkpoint of 1, 2 or 3.
//  5. Another coordinator takes over: from the same, because the record lists only
//     what this one knew or has completed since, and goes on with higher ids and a
//     higher epoch.
//  6. A task of an earlier attempt still writes: what the sweep meets of it goes, and
//     its write fails; what it writes later is swept by the next attempt. Its
//     acknowledgement is refused either way, being of another attempt.
//  7. The attempt was deployed in an earlier epoch, whose files count as older, and taken
//     over: what its tasks wrote then is in the registry, or belongs to a checkpoint that
//     they gave up. What they write now carries this epoch.
//  8. A coordinator of an earlier epoch still publishes a checkpoint: the metadata
//     store refuses to record it, and its directory is swept by the next attempt.
func (c *Coordinator) SweepBefore(attempt uint32) *messages.SweepCheckpoints {
	keep := ids(c.store.list)
	for _, p := range c.pending {
		keep = append(keep, p.id)
	}
	slices.Sort(keep)
	s := &messages.SweepCheckpoints{Fence: c.fence(attempt), Incarnation: c.config.Incarnation, Newest: c.newest, Keep: keep}
	for _, path := range slices.Sorted(maps.Keys(c.registry.files)) {
		s.Shared = append(s.Shared, c.registry.files[path].handle)
	}
	return s
}

package testkit

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"

	"cutwater/messages"
	"cutwater/storage"
	"cutwater/storage/filestore"
	"cutwater/storage/vfs"
)

// cleaned runs the world on after the job's end is on record, until its coordinator
// has deleted what it deletes, or died over it.
func (sim *simulation) cleaned() error {
	// The disk's time is that of its last change.
	const mark = "/ended"
	if err := vfs.WriteFile(sim.world.Disk(), mark, nil); err != nil {
		return err
	}
	info, err := sim.world.Disk().Stat(mark)
	if err != nil {
		return err
	}
	sim.endedAt = info.ModTime()
	sim.world.Run(maxSteps, func() bool { return !sim.coordinated() })
	return nil
}

// coordinated reports whether anybody coordinates the job.
func (sim *simulation) coordinated() bool {
	if sim.plane != nil {
		return sim.plane.coordinates(jobID)
	}
	return sim.host.lives()
}

// root is the job's checkpoint directory.
const root = "/checkpoints/" + jobID

// retained returns the paths of all that retained checkpoints refer to, and their
// directories.
func (sim *simulation) retained() (map[string]bool, error) {
	store := filestore.New(filestore.Options{FS: sim.world.Disk(), Dir: "/checkpoints", Job: jobID})
	names := map[string]bool{}
	for _, c := range sim.record().Completed {
		m, err := store.Load(context.Background(), c)
		if err != nil {
			return nil, fmt.Errorf("invariant broken: %w", err)
		}
		names[path.Join(root, c.Location)] = true
		names[path.Join(root, c.Location, storage.MetadataName)] = true
		storage.EachHandle(m, func(h *messages.StateHandle) {
			if f := h.GetFile(); f != nil {
				names[path.Join(root, f.GetPath())] = true
			}
		})
	}
	return names, nil
}

// checkRetained: what was deleted so far, subsumed or swept, was nothing that a
// retained checkpoint refers to.
func (sim *simulation) checkRetained() error {
	names, err := sim.retained()
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if _, missing := sim.world.Disk().Stat(name); missing != nil {
			return fmt.Errorf("invariant broken: a checkpoint is retained, and its %s is gone", name)
		}
	}
	return err
}

// checkLeftovers: a job whose last sweep succeeded leaves nothing that no retained
// checkpoint refers to. The shared directory itself may stay, and what was written
// after the end: by tasks of an earlier attempt whose node has not heard of it.
func (sim *simulation) checkLeftovers() error {
	if !sim.rules.sweptLast || sim.plane == nil && !sim.host.job.Done() {
		return nil // its coordinator died over it, or the disk refused
	}
	if sim.world.Faults[PowerFailure] > sim.rules.sweptOutages {
		return nil // what was deleted, and not synced, may be back
	}
	names, err := sim.retained()
	if err != nil {
		return err
	}
	names[root+"/shared"] = true
	for _, pattern := range []string{root + "/*", root + "/*/*"} {
		found, err := sim.world.Disk().Glob(pattern)
		if err != nil {
			return err
		}
		for _, name := range found {
			info, err := sim.world.Disk().Stat(name)
			if err != nil {
				return err
			}
			if !names[name] && info.ModTime().Before(sim.endedAt) {
				return fmt.Errorf("invariant broken: the job has ended and swept its checkpoint directory, and left %s", name)
			}
		}
	}
	sim.noticed[foundClean]++
	return nil
}

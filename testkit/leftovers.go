package testkit

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"cutwater/messages"
	"cutwater/storage"
	"cutwater/storage/filestore"
)

// cleaned runs the world on after the job's end is on record, until its coordinator
// has deleted what it deletes, or died over it.
func (sim *simulation) cleaned() {
	n := sim.world.node("n1")
	life := n.life
	sim.world.Run(maxSteps, func() bool { return sim.job.Done() || !n.lives(life) })
}

// leftovers returns the files of the job's checkpoint directory that no retained
// checkpoint refers to. The shared directory itself may stay.
func (sim *simulation) leftovers() ([]string, error) {
	const root = "/checkpoints/" + jobID
	disk := sim.world.Disk()
	store := filestore.New(filestore.Options{FS: disk, Dir: "/checkpoints", Job: jobID})
	keep := map[string]bool{root + "/shared": true}
	for _, c := range sim.record().Completed {
		keep[path.Join(root, c.Location)] = true
		keep[path.Join(root, c.Location, storage.MetadataName)] = true
		m, err := store.Load(context.Background(), c)
		if err != nil {
			return nil, err
		}
		storage.EachHandle(m, func(h *messages.StateHandle) {
			if f := h.GetFile(); f != nil {
				keep[path.Join(root, f.GetPath())] = true
			}
		})
	}
	var left []string
	for _, pattern := range []string{root + "/*", root + "/*/*"} {
		names, err := disk.Glob(pattern)
		if err != nil {
			return nil, err
		}
		left = append(left, slices.DeleteFunc(names, func(name string) bool { return keep[name] })...)
	}
	return left, nil
}

// checkLeftovers: a job whose last sweep succeeded leaves nothing that no retained
// checkpoint refers to.
func (sim *simulation) checkLeftovers() error {
	if !sim.rules.sweptLast || !sim.job.Done() {
		return nil // its coordinator died over it, or the disk refused
	}
	left, err := sim.leftovers()
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("invariant broken: the job has ended and swept its checkpoint directory, and left are\n%s", strings.Join(left, "\n"))
	}
	sim.noticed[foundClean]++
	return nil
}

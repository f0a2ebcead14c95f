package testkit

import (
	"errors"
	"fmt"
	"io/fs"

	"cutwater/storage/vfs"
)

// copiesDir is where a node keeps copies of state files. The disk is one for all nodes,
// but this part of it is the node's own; it outlives the node's starts.
func copiesDir(n *Node) string { return "/local/" + n.ID }

// copies lists the copies that a node has.
func (n *Node) copies() []string {
	found, err := n.world.disk.Glob(copiesDir(n) + "/*/*/*")
	if err != nil {
		panic(err) // a bad pattern
	}
	return found
}

// damageCopies damages copies of state files now and then, for as long as there are
// random faults: a copy loses its end or the whole of itself, or has a byte that is not
// what was written.
func (w *World) damageCopies() {
	for _, n := range w.nodes {
		if found := n.copies(); len(found) > 0 && w.inject(CopyDamaged, 0.5) {
			if err := w.damage(found[w.Random(len(found))]); err != nil && !errors.Is(err, fs.ErrNotExist) {
				w.Fail(err)
			}
		}
	}
	if w.ElapsedMs() < w.faults.UntilMs {
		w.After(int64(20+w.Random(200)), w.damageCopies)
	}
}

func (w *World) damage(file string) error {
	content, err := vfs.ReadFile(w.disk, file)
	if err != nil {
		return err
	}
	switch at := w.Random(len(content) + 1); {
	case w.Random(4) == 0:
		return w.disk.Remove(file)
	case w.Random(2) == 0 || at == len(content):
		content = content[:at]
	default:
		content[at] ^= byte(1 + w.Random(255))
	}
	return vfs.WriteFile(w.disk, file, content)
}

// checkCopies runs a cluster on until its nodes have swept what they kept of the jobs,
// which have ended.
func (sim *simulation) checkCopies() error {
	left := func() (all []string) {
		for _, n := range sim.world.nodes {
			all = append(all, n.copies()...)
		}
		return all
	}
	const patienceMs = 60_000
	end := sim.world.ElapsedMs() + patienceMs
	sim.world.Run(maxSteps, func() bool { return len(left()) == 0 || sim.world.ElapsedMs() > end })
	if all := left(); len(all) > 0 && sim.world.Err() == nil {
		return fmt.Errorf("%d ms after the jobs have ended nodes keep copies: %v", patienceMs, all)
	}
	return sim.world.Err()
}

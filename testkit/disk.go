package testkit

import (
	"syscall"

	"cutwater/storage/vfs"
)

// openDisk puts a node's random disk faults before the file system that all nodes
// share. Syncs that lie are not among them: no program can survive those.
func (n *Node) openDisk() {
	w := n.world
	n.disk = vfs.Faulty(&folders{w.disk, n}, vfs.Plan{
		Seed: w.rng.Uint64(),
		Slow: func(vfs.Op, string) { w.slowUs += int64(w.rng.IntN(200_000)) },
		Hit:  n.diskFault,
	})
	n.setDiskFaults()
	if end := w.faults.UntilMs; end > w.ElapsedMs() {
		life := n.life
		w.After(end-w.ElapsedMs(), func() {
			if n.lives(life) {
				n.setDiskFaults()
			}
		})
	}
}

// setDiskFaults arms what can go wrong now.
func (n *Node) setDiskFaults() {
	w := n.world
	var faults []vfs.Fault
	if w.full {
		faults = append(faults, vfs.Fault{Kind: vfs.Full})
	}
	add := func(kind vfs.FaultKind, op vfs.Op, path string, chance float64) {
		if chance > 0 && (w.faults.UntilMs == 0 || w.ElapsedMs() < w.faults.UntilMs) {
			faults = append(faults, vfs.Fault{Kind: kind, Op: op, Path: path, Chance: chance, Err: syscall.EIO})
		}
	}
	add(vfs.Halt, "", "", w.faults.CrashInWork)
	add(vfs.Slow, "", "", w.faults.DiskSlow)
	// Rare operations, which matter most, fail more often.
	add(vfs.TornWrite, vfs.OpWrite, "", 4*w.faults.DiskFails)
	add(vfs.Fail, vfs.OpWrite, "", 4*w.faults.DiskFails)
	add(vfs.Fail, vfs.OpSync, "", 2*w.faults.DiskFails)
	add(vfs.Fail, vfs.OpLink, "", 4*w.faults.DiskFails)
	add(vfs.Fail, "", "", w.faults.DiskFails)
	add(vfs.Flip, vfs.OpRead, "/checkpoints/*/*/*", w.faults.DiskFlips)
	n.disk.SetFaults(faults...)
}

// diskFault counts a fault; one that halts the disk is the node's death, as soon
// as the step in hand is over.
func (n *Node) diskFault(kind vfs.FaultKind, op vfs.Op, _ string) {
	w := n.world
	switch kind {
	case vfs.Halt:
		w.happened(CrashInWork)
		n.halted = true
		w.dying = append(w.dying, n)
		w.outage = w.outage || w.rng.IntN(2) == 0
	case vfs.TornWrite:
		w.happened(DiskWriteTorn)
	case vfs.Full:
		w.happened(DiskFull)
	case vfs.Flip:
		w.happened(DiskBitFlipped)
	case vfs.Slow:
		w.happened(DiskSlow)
	case vfs.Fail:
		switch op {
		case vfs.OpRead:
			w.happened(DiskReadFailed)
		case vfs.OpWrite:
			w.happened(DiskWriteFailed)
		case vfs.OpSync, vfs.OpSyncDir:
			w.happened(DiskSyncFailed)
		case vfs.OpLink:
			w.happened(DiskLinkFailed)
		default:
			w.happened(DiskOtherFailed)
		}
	}
}

// DiskFull lets every write fail with ENOSPC, or ends that.
func (w *World) DiskFull(full bool) {
	w.full = full
	for _, n := range w.nodes {
		if n.alive && !n.halted {
			n.setDiskFaults()
		}
	}
}

// PowerFailure ends all nodes at once, and what the disk had not been told to
// keep may be lost or torn. They come back after seeded times.
func (w *World) PowerFailure() {
	w.happened(PowerFailure)
	for _, n := range w.nodes {
		n.crash(int64(50 + w.rng.IntN(1000)))
	}
	w.disk.Crash(w.rng.Uint64())
}

// bury ends the nodes that died during the step.
func (w *World) bury() {
	if len(w.dying) == 0 {
		return
	}
	dead, outage := w.dying, w.outage
	w.dying, w.outage = nil, false
	if outage {
		w.PowerFailure()
		return
	}
	for _, n := range dead {
		n.crash(int64(50 + w.rng.IntN(1000)))
	}
}

// takeSlow returns and clears what the disk has added.
func (w *World) takeSlow() int64 {
	us := w.slowUs
	w.slowUs = 0
	return us
}

package testkit

import (
	"math/rand/v2"
	"sort"
)

// The kinds of faults that a World injects, as World.Faults counts them.
const (
	ControlDropped      = "control dropped"
	ControlDelayed      = "control delayed"
	ControlDuplicated   = "control duplicated"
	DataLost            = "data lost"
	DataDuplicated      = "data duplicated"
	DataReordered       = "data reordered"
	CreditLost          = "credit lost"
	Partitioned         = "partition"
	NodeCrash           = "node crash"
	NodeLoss            = "node loss"
	CoordinatorLost     = "coordinator lost"
	CrashInWork         = "crash between two disk operations"
	PowerFailure        = "power failure"
	SlowTask            = "slow task"
	SlowWork            = "slow work"
	MetadataUnknown     = "metadata unknown"
	MetadataUnavailable = "metadata unavailable"
	DiskReadFailed      = "disk: read failed"
	DiskWriteFailed     = "disk: write failed"
	DiskWriteTorn       = "disk: write torn"
	DiskSyncFailed      = "disk: sync failed"
	DiskLinkFailed      = "disk: link failed"
	DiskOtherFailed     = "disk: other operation failed"
	DiskBitFlipped      = "disk: bit flipped"
	DiskSlow            = "disk: slow"
	DiskFull            = "disk: full"
)

// FaultKinds lists every kind.
func FaultKinds() []string {
	return []string{
		ControlDropped, ControlDelayed, ControlDuplicated, DataLost, DataDuplicated, DataReordered, CreditLost, Partitioned,
		NodeCrash, NodeLoss, CoordinatorLost, CrashInWork, PowerFailure, SlowTask, SlowWork, MetadataUnknown, MetadataUnavailable,
		DiskReadFailed, DiskWriteFailed, DiskWriteTorn, DiskSyncFailed, DiskLinkFailed, DiskOtherFailed, DiskBitFlipped, DiskSlow, DiskFull,
	}
}

// Faults are the probabilities of injected faults, each per opportunity.
type Faults struct {
	// DropControl loses a control message between two nodes.
	DropControl float64
	// DuplicateControl delivers one twice.
	DuplicateControl float64
	// DelayControl delivers one late (up to 200 ms), behind younger ones.
	DelayControl float64
	// LoseData loses a message of a data channel between two nodes: a batch, a
	// barrier, a watermark, an end.
	LoseData float64
	// DuplicateData delivers one twice.
	DuplicateData float64
	// ReorderData delivers one late (up to 20 ms), behind younger ones.
	ReorderData float64
	// LoseCredit loses what a receiver gives back, or that it is there.
	LoseCredit float64
	// SlowTask lets a mailbox wait for up to 20 ms before its next turn.
	SlowTask float64
	// SlowWork makes work on the executor take up to 500 ms.
	SlowWork float64
	// MetadataUnknown loses the metadata store's answer, or the command with it.
	MetadataUnknown float64
	// MetadataUnavailable lets it refuse a command.
	MetadataUnavailable float64
	// DiskFails lets an operation on the file system fail; a write may have stored a
	// part. Writes, syncs and links fail up to five times as often.
	DiskFails float64
	// DiskFlips returns one bit of a checkpoint's file wrong; it is right on disk.
	DiskFlips float64
	// DiskSlow makes an operation take up to 200 ms.
	DiskSlow float64
	// CrashInWork ends the node before an operation on the file system, whatever it
	// is in the middle of. In half of the cases the power fails for all nodes.
	CrashInWork float64
	// GossipLate lets a node of a cluster hear up to 3 s late of another one.
	GossipLate float64
	// UntilMs is when random faults end, in virtual milliseconds since the
	// beginning; 0 means never. From then on a job has no excuse not to end.
	UntilMs int64
}

// RandomFaults are faults as a seed chooses them: each kind with a chance of one
// half, so that runs differ in what goes wrong and rare faults meet alone.
func RandomFaults(seed uint64) Faults {
	rng := rand.New(rand.NewPCG(seed, 0x6661756c))
	some := func(p float64) float64 {
		if rng.IntN(2) == 0 {
			return 0
		}
		return p
	}
	return Faults{
		DropControl: some(0.02), DuplicateControl: some(0.02), DelayControl: some(0.02),
		LoseData: some(0.003), DuplicateData: some(0.003), ReorderData: some(0.004), LoseCredit: some(0.006),
		SlowTask: some(0.02), SlowWork: some(0.03),
		MetadataUnknown: some(0.05), MetadataUnavailable: some(0.03),
		DiskFails: some(0.003), DiskFlips: some(0.01), DiskSlow: some(0.01), CrashInWork: some(0.002),
		GossipLate: some(0.2),
		UntilMs:    20_000,
	}
}

// Disasters is a Plan: coordinators are lost, nodes crash, some of them for long, are cut off or lose
// power, and the disk fills up, at seeded times.
func Disasters(w *World) {
	at := func(f func()) { // soon, so that it meets the work, or later, among what follows
		w.After(int64(10+w.Random([]int{150, 1000}[w.Random(2)])), f)
	}
	node := func() *Node { return w.nodes[w.Random(len(w.nodes))] }
	for range w.Random(3) {
		at(func() { node().CrashFor(int64(50 + w.Random(1000))) })
	}
	for range w.Random(3) {
		at(w.LoseCoordinator)
	}
	switch w.Random(8) {
	case 0:
		at(func() { node().LoseFor(int64(12_000 + w.Random(15_000))) })
	case 1:
		at(func() { w.PowerFailure() })
	case 2:
		at(func() {
			n := node()
			n.Partition(true)
			w.After(int64(10+w.Random(14_000)), func() { n.Partition(false) })
		})
	case 3:
		at(func() {
			w.DiskFull(true)
			w.After(int64(10+w.Random(3_000)), func() { w.DiskFull(false) })
		})
	}
}

func (w *World) chance(p float64) bool { return p > 0 && w.rng.Float64() < p }

// inject decides whether a random fault happens, and counts it.
func (w *World) inject(kind string, p float64) bool {
	if w.faults.UntilMs > 0 && w.ElapsedMs() >= w.faults.UntilMs || !w.chance(p) {
		return false
	}
	w.happened(kind)
	return true
}

// happened counts a fault and traces it.
func (w *World) happened(kind string) {
	w.Faults[kind]++
	w.note("FAULT %s", kind)
}

// sortedKeys returns the keys of a count in order.
func sortedKeys(m map[string]int) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

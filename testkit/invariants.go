package testkit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sort"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"cutwater/cluster/metadata"
	"cutwater/messages"
	"cutwater/protocol"
	"cutwater/protocol/checkpoint"
	"cutwater/protocol/job"
	machine "cutwater/protocol/metadata"
	"cutwater/storage/vfs"
)

// invariants hold a simulated job to what must be true at all times:
//
//  1. An epoch is given out once, and epochs grow.
//  2. Checkpoint ids grow, whoever allocates or triggers them.
//  3. A checkpoint is completed at most once, and only after the metadata store
//     recorded it; only then is anybody notified.
//  4. A job restores its newest completed checkpoint, and starts empty only if it
//     never completed one. An end that is on record stays.
//  5. A visible file is whole, belongs to a completed checkpoint, and neither
//     changes nor goes away. All visible rows together are expected ones.
//  6. No assertion fails, except those that guard channels against injected faults.
//  7. No queue grows beyond its bound.
//  8. All that retained checkpoints refer to is there, whatever was subsumed or swept;
//     the sweep behind the job's end leaves nothing else that was written before.
type invariants struct {
	sim   *simulation
	world *World
	out   string
	over  bool // the job's end is on record
	// commanded: the metadata of a cluster may have changed in this step.
	commanded bool
	cluster   clusterRules

	epoch     uint64
	allocated uint64
	triggered uint64
	recorded  map[uint64]bool
	newest    uint64 // of recorded
	completed map[uint64]bool
	longest   int  // queue that was seen
	sweptLast bool // the sweep behind the job's end succeeded
	// sweptOutages are the power failures before the last sweep.
	sweptOutages int

	changed  time.Time // of the output folder when it was looked at last
	outages  int
	files    map[string]visible
	expected map[string]int // rows that may still appear; nil: any
}

// visible is a file of the output folder.
type visible struct {
	size     int64
	modified time.Time
	rows     []string
}

func newInvariants(sim *simulation) *invariants {
	i := &invariants{sim: sim, world: sim.world, out: sim.scenario.Out,
		recorded: map[uint64]bool{}, completed: map[uint64]bool{}, files: map[string]visible{}}
	i.expected = count(sim.scenario.Expected)
	sim.world.Watch(i.message)
	sim.world.Check(i.step)
	return i
}

// count is nil for nil.
func count(rows []string) map[string]int {
	if rows == nil {
		return nil
	}
	m := map[string]int{}
	for _, r := range rows {
		m[r]++
	}
	return m
}

func (i *invariants) broken(format string, args ...any) {
	i.world.Fail(fmt.Errorf("invariant broken: "+format, args...))
}

// witness sees what the metadata store really does, whatever it answers.
type witness struct {
	metadata.Store
	rules *invariants
}

// Propose implements metadata.Store.
func (w witness) Propose(ctx context.Context, c *messages.MetadataCommand) (*messages.MetadataResult, error) {
	r, err := w.Store.Propose(ctx, c)
	if applied := r.GetOutcome() == messages.MetadataOutcome_APPLIED; applied && c.GetStartEpoch() != nil {
		w.rules.epochGiven(r.Epoch)
	}
	w.rules.recordChanged()
	return r, err
}

func (i *invariants) epochGiven(epoch uint64) {
	if epoch <= i.epoch {
		i.broken("epoch %d was given out after epoch %d", epoch, i.epoch)
	}
	i.epoch = epoch
}

// recordChanged looks at the job's record after a command.
func (i *invariants) recordChanged() {
	r := i.sim.record()
	if r.LastCheckpoint < i.allocated {
		i.broken("the last checkpoint id went back from %d to %d", i.allocated, r.LastCheckpoint)
	}
	i.allocated = r.LastCheckpoint
	for _, c := range r.Completed {
		if !i.recorded[c.Checkpoint] {
			if c.Checkpoint < i.newest {
				i.broken("checkpoint %d was recorded after checkpoint %d", c.Checkpoint, i.newest)
			}
			i.recorded[c.Checkpoint], i.newest = true, c.Checkpoint
		}
	}
	ended := machine.Ended(r.Status)
	if i.over && !ended {
		i.broken("the job had ended and is %v again", r.Status)
	}
	i.over = ended
}

// event looks at what a coordinator says. One that does not lead any more may do what it
// knows to be right; but it can complete nothing, and may delete nothing that is needed.
func (i *invariants) event(e protocol.Event, leads bool) {
	switch e := e.(type) {
	case checkpoint.Completed:
		if i.completed[e.Checkpoint] {
			i.broken("checkpoint %d was completed twice", e.Checkpoint)
		}
		i.completed[e.Checkpoint] = true
		if !i.recorded[e.Checkpoint] && e.Type != messages.CheckpointType_SAVEPOINT {
			i.broken("checkpoint %d was completed before its completion was recorded", e.Checkpoint)
		}
		i.retained()
	case job.Swept:
		if leads && e.Last {
			i.sweptLast, i.sweptOutages = i.over, i.world.Faults[PowerFailure]
		}
		i.retained()
	}
	if !leads {
		return
	}
	switch e := e.(type) {
	case checkpoint.Triggered:
		if e.Checkpoint <= i.triggered {
			i.broken("checkpoint %d was triggered after checkpoint %d", e.Checkpoint, i.triggered)
		}
		i.triggered = e.Checkpoint
	case job.Restoring:
		if e.Checkpoint != i.newest {
			i.broken("checkpoint %d is restored, but the newest completed one is %d", e.Checkpoint, i.newest)
		}
	case job.Adopted:
		if e.Checkpoint != i.newest {
			i.broken("tasks were taken over behind checkpoint %d, but the newest completed one is %d", e.Checkpoint, i.newest)
		}
	case job.SweepFailed:
		i.sweptLast = false
	case job.StartingEmpty:
		if i.newest != 0 {
			i.broken("the job starts empty, but checkpoint %d is completed", i.newest)
		}
	}
}

// retained looks at what was deleted so far.
func (i *invariants) retained() {
	if err := i.sim.checkRetained(); err != nil {
		i.world.Fail(err)
	}
}

// channelGuards are the assertions that notice a channel's broken promise.
var channelGuards = []string{"records were lost or repeated on the way", "exceeds what is outstanding"}

// message looks at what is delivered.
func (i *invariants) message(to protocol.Address, m proto.Message) {
	if i.sim.plane != nil {
		i.clusterMessage(to, m)
	}
	switch m := m.(type) {
	case *messages.NotifyCheckpointComplete:
		if m.Fence.GetJob() == jobID && !i.recorded[m.Checkpoint] {
			i.broken("%s is notified of checkpoint %d, whose completion is not recorded", to, m.Checkpoint)
		}
	case *messages.NewCoordinator:
		if m.Fence.GetJob() == jobID && m.Completed != 0 && !i.recorded[m.Completed] {
			i.broken("%s is told of checkpoint %d, whose completion is not recorded", to, m.Completed)
		}
	case *messages.TaskStateChanged:
		f := m.GetFailure()
		if f == nil || !strings.HasSuffix(string(to), "|taskmanager") { // told once there
			return
		}
		for _, guard := range channelGuards {
			if strings.Contains(f.Message, guard) && i.channelsHit() {
				i.sim.noticed[gapNoticed]++
				return
			}
		}
		if strings.Contains(f.Message, "assertion failed") {
			i.broken("task %s/%d: %s\n%s", m.Task.GetVertex(), m.Task.GetSubtask(), f.Message, f.Stack)
		}
	}
}

// channelsHit reports whether a channel was broken on purpose. A crash does it too:
// a Deploy whose answer was lost is sent again, and starts the task a second time
// on a node that has come back meanwhile; the numbers of its messages show it.
func (i *invariants) channelsHit() bool {
	f := i.world.Faults
	return f[PairPartitioned]+f[OneWayPartitioned]+f[FlappingPartition]+f[DataLost]+f[DataDuplicated]+f[DataReordered]+f[Partitioned]+f[NodeCrash]+f[NodeLoss]+f[CrashInWork]+f[PowerFailure] > 0
}

// maxQueued bounds every mailbox: what the credits of a task's channels allow, and
// control mail besides.
const maxQueued = 500

// step looks at the output folder and, every few steps, at the queues: what is too
// long stays so for a while.
func (i *invariants) step() {
	if i.commanded {
		i.commanded = false
		i.recordChanged()
	}
	if i.world.Steps()%32 == 0 {
		for _, n := range i.world.nodes {
			if who, waiting := n.sys.LongestQueue(); waiting > i.longest {
				if i.longest = waiting; waiting > maxQueued {
					i.broken("%d messages wait for %s", waiting, who)
				}
			}
		}
	}
	if outages := i.world.Faults[PowerFailure]; outages != i.outages {
		i.outages = outages
		i.forget() // names that were not synced may be gone
	}
	if info, err := i.world.Disk().Stat(i.out); err == nil && !info.ModTime().Equal(i.changed) {
		i.changed = info.ModTime()
		if err := i.look(); err != nil {
			i.world.Fail(err)
		}
	}
}

// forget starts to look at the output folder anew.
func (i *invariants) forget() {
	i.changed = time.Time{}
	clear(i.files)
	i.expected = count(i.sim.scenario.Expected)
}

// look compares the output folder with what was seen there before.
func (i *invariants) look() error {
	disk := i.world.Disk()
	entries, err := disk.ReadDir(i.out)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // no sink has started yet
	}
	if err != nil {
		return err
	}
	seen := 0
	for _, e := range entries {
		if e.IsDir() || !strings.HasPrefix(e.Name(), "part-") {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		was, known := i.files[e.Name()]
		if !known {
			rows, err := i.appeared(e.Name())
			if err != nil {
				return err
			}
			i.files[e.Name()] = visible{info.Size(), info.ModTime(), rows}
		} else if was.size != info.Size() || !was.modified.Equal(info.ModTime()) {
			return fmt.Errorf("invariant broken: the visible file %s was changed", e.Name())
		}
		seen++
	}
	if seen < len(i.files) {
		return fmt.Errorf("invariant broken: of %d visible files %d are gone", len(i.files), len(i.files)-seen)
	}
	return nil
}

// appeared checks a file that has become visible and returns its rows.
func (i *invariants) appeared(name string) ([]string, error) {
	stem := strings.TrimSuffix(name, path.Ext(name))
	id, err := strconv.ParseUint(stem[strings.LastIndexByte(stem, '-')+1:], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("invariant broken: the visible file %s carries no checkpoint id", name)
	}
	if id > i.newest { // what an aborted checkpoint prepared goes with the next one that completes
		return nil, fmt.Errorf("invariant broken: %s is visible, but no checkpoint from %d on is completed", name, id)
	}
	content, err := vfs.ReadFile(i.world.Disk(), path.Join(i.out, name))
	if err != nil {
		return nil, err
	}
	text, whole := strings.CutSuffix(string(content), "\n")
	if !whole {
		return nil, fmt.Errorf("invariant broken: the last row of %s is torn", name)
	}
	rows := strings.Split(text, "\n")[1:] // the first is the header
	if i.expected == nil {
		return rows, nil
	}
	for _, r := range rows {
		if i.expected[r]--; i.expected[r] < 0 {
			return nil, fmt.Errorf("invariant broken: %s holds a row that is not expected, or not once more: %s", name, r)
		}
	}
	return rows, nil
}

// end reads everything again, as it is after a power failure, and returns the
// committed rows, sorted: what a job has finished stays.
func (i *invariants) end() ([]string, error) {
	i.world.Disk().Crash(i.world.rng.Uint64())
	i.forget()
	if err := i.look(); err != nil {
		return nil, err
	}
	rows := []string{}
	for _, f := range i.files {
		rows = append(rows, f.rows...)
	}
	sort.Strings(rows)
	if i.sim.scenario.Expected != nil && i.sim.record().Status == messages.JobStatus_FINISHED {
		if diff := Diff(rows, i.sim.scenario.Expected); diff != "" {
			return rows, errors.New("the committed rows differ:\n" + diff)
		}
	}
	return rows, nil
}

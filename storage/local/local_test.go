package local

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"testing"

	"cutwater/messages"
	"cutwater/storage"
	"cutwater/storage/filestore"
	"cutwater/storage/storagetest"
	"cutwater/storage/vfs"
)

const job1, job2 = storagetest.Job, storagetest.OtherJob

// node is a node with copies beside a checkpoint directory that all nodes see.
type node struct {
	t      *testing.T
	fs     vfs.FS
	copies *Copies
	events []string
}

func newNode(t *testing.T, fsys vfs.FS) *node {
	return &node{t: t, fs: fsys, copies: New(fsys, "/local")}
}

func (n *node) open(job string, subtask uint32) *Store {
	s := filestore.New(filestore.Options{FS: n.fs, Dir: "/checkpoints", Job: job, Epoch: 3, InlineThreshold: 100})
	return n.copies.Open(s, job, &messages.TaskId{Vertex: "v", Subtask: subtask}, func(what, detail string) {
		n.events = append(n.events, what+": "+detail)
	})
}

// write stores the keyed state of a checkpoint.
func (n *node) write(s *Store, checkpoint uint64, size int) *messages.Segment {
	n.t.Helper()
	h, err := s.Write(context.Background(), storagetest.File(checkpoint, 0, keyed, ""), storagetest.Content(size, byte(checkpoint)))
	if err != nil {
		n.t.Fatal(err)
	}
	return &messages.Segment{Handle: h, Created: checkpoint}
}

// read opens a state and reads it whole; it is what was written.
func (n *node) read(s *Store, h *messages.StateHandle, checkpoint uint64, size int) (copied bool, err error) {
	r, err := s.Open(context.Background(), h)
	if err != nil {
		return false, err
	}
	content, err := io.ReadAll(r)
	if closed := r.Close(); err == nil {
		err = closed
	}
	var want bytes.Buffer
	_ = storagetest.Content(size, byte(checkpoint))(&want)
	if err == nil && !bytes.Equal(content, want.Bytes()) {
		n.t.Fatalf("read %d bytes that were not written, and no error", len(content))
	}
	return IsCopy(r), err
}

// taken says what a checkpoint names.
func taken(segments ...*messages.Segment) *messages.TaskSnapshot {
	return &messages.TaskSnapshot{Operators: []*messages.OperatorSubtaskState{{Keyed: &messages.KeyedState{Segments: segments}}}}
}

// copied lists the copies of the node: the checkpoint of each, or its whole name.
func (n *node) copied() string {
	n.t.Helper()
	files, err := n.fs.Glob("/local/*/*/*")
	if err != nil {
		n.t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		w, ok := storage.WriterOf(path.Base(f))
		name := fmt.Sprint(w.Checkpoint)
		if !ok {
			name = path.Base(f)
		}
		names = append(names, fmt.Sprintf("%s/%s", path.Base(path.Dir(f)), name))
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A store with copies is a store: it keeps the whole contract.
func TestConformance(t *testing.T) {
	storagetest.Run(t, func(fsys vfs.FS, job string, epoch uint64) storage.Store {
		s := filestore.New(filestore.Options{FS: fsys, Dir: "/checkpoints", Job: job, Epoch: epoch})
		return New(fsys, "/local").Open(s, job, &messages.TaskId{Vertex: "v"}, func(what, detail string) { t.Errorf("%s: %s", what, detail) })
	})
}

// What is copied is read from the copy, also by the next process of the node; small
// state, list state and savepoints are not copied.
func TestReadsCopy(t *testing.T) {
	n := newNode(t, vfs.Mem())
	s := n.open(job1, 0)
	sizes := []int{101, bufferBytes - 1, bufferBytes, 3*bufferBytes + 1}
	var all []*messages.Segment
	for i, size := range sizes {
		all = append(all, n.write(s, uint64(i+1), size))
	}
	if got := n.copied(); got != "v-0/1 v-0/2 v-0/3 v-0/4" {
		t.Fatalf("copies: %s", got)
	}
	small := n.write(s, 5, 100)
	lists, err := s.Write(context.Background(), storagetest.File(6, 0, "lists", ""), storagetest.Content(200, 6))
	must(t, err)
	savepoint, err := s.Write(context.Background(), storagetest.File(7, 0, keyed, "/savepoints"), storagetest.Content(200, 7))
	must(t, err)
	if got := n.copied(); got != "v-0/1 v-0/2 v-0/3 v-0/4" {
		t.Fatalf("copies: %s", got)
	}
	s.Close()
	must(t, n.fs.RemoveAll("/checkpoints/"+job1+"/chk-1"))
	s = newNode(t, n.fs).open(job1, 0)
	for i, size := range sizes {
		if copied, err := n.read(s, all[i].Handle, uint64(i+1), size); err != nil || !copied {
			t.Errorf("%d bytes: read a copy %v, %v", size, copied, err)
		}
	}
	for i, h := range []*messages.StateHandle{small.Handle, lists, savepoint} {
		if copied, err := n.read(s, h, uint64(i+5), 100+100*min(i, 1)); err != nil || copied {
			t.Errorf("state %d: read a copy %v, %v", i+5, copied, err)
		}
	}
}

// A copy that is missing, cut off, too long, of another content or unreadable is not
// used, is counted and told, and what is read then is exact.
func TestDamagedCopies(t *testing.T) {
	const size = 2*bufferBytes + 5
	replace := func(change func(content []byte) []byte) func(t *testing.T, f vfs.FS, where string) {
		return func(t *testing.T, f vfs.FS, where string) {
			content, err := vfs.ReadFile(f, where)
			must(t, err)
			must(t, vfs.WriteFile(f, where, change(content)))
		}
	}
	for _, c := range []struct {
		name    string
		damage  func(t *testing.T, f vfs.FS, where string)
		fault   *vfs.Fault // while it is read
		atEnd   bool       // found at the end of the file only
		damaged uint64
	}{
		{"it is missing", func(t *testing.T, f vfs.FS, where string) { must(t, f.Remove(where)) }, nil, false, 0},
		{"it is empty", replace(func(c []byte) []byte { return nil }), nil, false, 1},
		{"it is torn", replace(func(c []byte) []byte { return c[:len(c)/2] }), nil, false, 1},
		{"it is too long", replace(func(c []byte) []byte { return append(c, 0) }), nil, false, 1},
		{"its first byte is another", replace(func(c []byte) []byte { c[0]++; return c }), nil, true, 1},
		{"its last bit is another", replace(func(c []byte) []byte { c[len(c)-1] ^= 1; return c }), nil, true, 1},
		{"it cannot be opened", nil, &vfs.Fault{Kind: vfs.Fail, Op: vfs.OpOpen}, false, 1},
		{"it cannot be read", nil, &vfs.Fault{Kind: vfs.Fail, Op: vfs.OpRead}, true, 1},
		{"it cannot be read to its end", nil, &vfs.Fault{Kind: vfs.Fail, Op: vfs.OpRead, Nth: 3}, true, 1},
		{"a bit flips while it is read", nil, &vfs.Fault{Kind: vfs.Flip, Op: vfs.OpRead, Nth: 2}, true, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			disk := vfs.Faulty(vfs.Mem(), vfs.Plan{Seed: 1})
			n := newNode(t, disk)
			s := n.open(job1, 0)
			h := n.write(s, 1, size).Handle
			where := path.Join(s.dir(), nameOf(h))
			if c.damage != nil {
				c.damage(t, disk, where)
			}
			if c.fault != nil {
				c.fault.Path = where
				disk.SetFaults(*c.fault)
			}
			copied, err := n.read(s, h, 1, size)
			if c.atEnd {
				if err == nil || !copied {
					t.Fatalf("the damage was not noticed: %v", err)
				}
				s.Drop(h, err)
				copied, err = n.read(s, h, 1, size)
			}
			if err != nil || copied {
				t.Fatalf("read a copy %v, %v", copied, err)
			}
			if n.copies.Damaged() != c.damaged || uint64(len(n.events)) != c.damaged {
				t.Errorf("%d were counted, and told was %q", n.copies.Damaged(), n.events)
			}
			disk.SetFaults()
			if got := n.copied(); got != "" {
				t.Errorf("it is still there: %s", got)
			}
		})
	}
}

// Whatever fails while a copy is written, the state of the checkpoint is written, no
// part of a copy is left, and what was dropped is counted, and told once.
func TestUnwritableCopies(t *testing.T) {
	for _, fault := range []vfs.Fault{
		{Kind: vfs.Full},
		{Kind: vfs.Full, Bytes: bufferBytes + 3},
		{Kind: vfs.Fail, Op: vfs.OpMkdir},
		{Kind: vfs.Fail, Op: vfs.OpCreate},
		{Kind: vfs.Fail, Op: vfs.OpWrite, Nth: 1},
		{Kind: vfs.TornWrite, Op: vfs.OpWrite, Nth: 2},
		{Kind: vfs.Fail, Op: vfs.OpClose, Nth: 1},
		{Kind: vfs.Fail, Op: vfs.OpRename},
	} {
		t.Run(fmt.Sprintf("%s %s %d", fault.Kind, fault.Op, fault.Nth+int(fault.Bytes)), func(t *testing.T) {
			disk := vfs.Faulty(vfs.Mem(), vfs.Plan{Seed: 1})
			n := newNode(t, disk)
			s := n.open(job1, 0)
			for _, pattern := range []string{"/local/*/*/*", "/local/*/*"} {
				fault := fault
				fault.Path = pattern
				disk.SetFaults(fault)
				for checkpoint := uint64(1); checkpoint <= 2; checkpoint++ {
					h := n.write(s, checkpoint, 3*bufferBytes).Handle
					must(t, s.Verify(context.Background(), h))
					_, err := n.read(s, h, checkpoint, 3*bufferBytes)
					must(t, err)
				}
			}
			if n.copies.Dropped() == 0 || len(n.events) != 1 || !strings.Contains(n.events[0], "local copy dropped") {
				t.Errorf("%d were dropped, and told was %q", n.copies.Dropped(), n.events)
			}
			if temporary, _ := n.fs.Glob("/local/*/*/.tmp-*"); len(temporary) > 0 {
				t.Errorf("left behind: %v", temporary)
			}
		})
	}
}

// A checkpoint that fails, or that is cancelled while it is written, leaves no copy.
func TestFailedCheckpoint(t *testing.T) {
	n := newNode(t, vfs.Mem())
	s := n.open(job1, 0)
	ctx, cancel := context.WithCancel(context.Background())
	_, err := s.Write(ctx, storagetest.File(1, 0, keyed, ""), func(w io.Writer) error {
		err := storagetest.Content(3*bufferBytes, 1)(w)
		cancel()
		return err
	})
	if got := n.copied(); err == nil || got != "" || n.copies.Dropped() != 0 {
		t.Fatalf("%v; copies: %s, %d dropped", err, got, n.copies.Dropped())
	}
}

// Kept is what the newest completed checkpoint names, older segments included, and what
// later ones have written; aborted ones go at once, and what a dead process was writing.
func TestBounded(t *testing.T) {
	n := newNode(t, vfs.Mem())
	s := n.open(job1, 0)
	step := func(what, want string) {
		t.Helper()
		if got := n.copied(); got != want {
			t.Fatalf("%s: copies of %s, want %s", what, got, want)
		}
	}
	base := n.write(s, 1, 200)
	s.Taken(1, taken(base))
	s.Completed(1)
	s.Tidy()
	step("a base", "v-0/1")
	two, three := n.write(s, 2, 200), n.write(s, 3, 200)
	s.Taken(2, taken(base, two))
	s.Taken(3, taken(base, three))
	step("two are pending", "v-0/1 v-0/2 v-0/3")
	s.Aborted(2)
	s.Tidy()
	step("one is aborted", "v-0/1 v-0/3")
	must(t, vfs.WriteFile(n.fs, s.dir()+"/.tmp-e1-a1-c2-keyed-x-v-0.9", nil))
	four := n.write(s, 4, 200)
	s.Completed(3)
	s.Tidy()
	step("the other completes", "v-0/1 v-0/3 v-0/4")
	s.Completed(7)
	s.Tidy()
	step("a savepoint completes", "v-0/1 v-0/3 v-0/4")
	eight := n.write(s, 8, 200)
	s.Taken(8, taken(base, three, eight))
	must(t, s.Discard(context.Background(), four.Handle))
	step("a snapshot is discarded", "v-0/1 v-0/3 v-0/8")
	nine, ten := n.write(s, 9, 200), n.write(s, 10, 200)
	s.Taken(9, taken(nine))
	s.Taken(10, taken(base, three, ten))
	s.Completed(9)
	s.Tidy()
	step("a full one completes, and an increment on older ones is pending", "v-0/1 v-0/10 v-0/3 v-0/9")
	s.Aborted(10)
	s.Tidy()
	step("that is aborted", "v-0/9")
	s.Taken(11, taken(nine))
	s.Completed(11)
	s.Tidy()
	step("nothing has changed since", "v-0/9")
	if len(n.events) > 0 {
		t.Errorf("told was %q", n.events)
	}
}

// What cannot be deleted is told once, and deleted behind a later checkpoint.
func TestUndeletable(t *testing.T) {
	disk := vfs.Faulty(vfs.Mem(), vfs.Plan{Seed: 1})
	n := newNode(t, disk)
	s := n.open(job1, 0)
	for checkpoint, op := range []vfs.Op{vfs.OpReadDir, vfs.OpRemove} {
		s.Taken(uint64(checkpoint+1), taken(n.write(s, uint64(checkpoint+1), 200)))
		disk.SetFaults(vfs.Fault{Kind: vfs.Fail, Op: op})
		s.Completed(uint64(checkpoint + 1))
		s.Tidy()
		disk.SetFaults()
	}
	if got := n.copied(); got != "v-0/1 v-0/2" || len(n.events) != 1 || !strings.Contains(n.events[0], "local copies left behind") {
		t.Fatalf("copies: %s, told was %q", got, n.events)
	}
	s.Taken(3, taken(n.write(s, 3, 200)))
	s.Completed(3)
	s.Tidy()
	if got := n.copied(); got != "v-0/3" {
		t.Fatalf("copies: %s", got)
	}
}

// The copies of a task that has left the node go when a later checkpoint completes
// without it; those of one that may come back stay, as do those of other jobs.
func TestTasksThatLeft(t *testing.T) {
	n := newNode(t, vfs.Mem())
	stays, leaves, other := n.open(job1, 0), n.open(job1, 1), n.open(job2, 1)
	for _, s := range []*Store{stays, leaves, other} {
		s.Taken(1, taken(n.write(s, 1, 200)))
		s.Completed(1)
		s.Tidy()
	}
	leaves.Close()
	leaves.Close() // a second time is nothing
	stays.Taken(2, taken(n.write(stays, 2, 200)))
	must(t, vfs.WriteFile(n.fs, leaves.dir()+"/e1-a1-c2-keyed-x-v-1", nil)) // it had written its part
	stays.Completed(2)
	stays.Tidy()
	if got := n.copied(); got != "v-0/2 v-1/1 v-1/1 v-1/2" {
		t.Fatalf("when the task may come back there were copies of %s", got)
	}
	stays.Taken(3, taken(n.write(stays, 3, 200)))
	stays.Completed(3)
	stays.Tidy()
	if got := n.copied(); got != "v-0/3 v-1/1" {
		t.Fatalf("when it is gone there are copies of %s", got)
	}
}

// A sweep deletes the copies of jobs that need none, but for those of which tasks run.
func TestSweep(t *testing.T) {
	n := newNode(t, vfs.Mem())
	must(t, n.copies.Sweep(func(string) bool { t.Error("there is no job"); return false }))
	runs, ended, needed := n.open(job1, 0), n.open(job2, 1), n.open(strings.Repeat("a", 32), 2)
	for _, s := range []*Store{runs, ended, needed} {
		n.write(s, 1, 200)
	}
	ended.Close()
	needed.Close()
	must(t, n.copies.Sweep(func(job string) bool { return job == needed.job }))
	if got := n.copied(); got != "v-0/1 v-2/1" {
		t.Fatalf("copies of %s", got)
	}
}

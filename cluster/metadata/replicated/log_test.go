package replicated

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	bolt "go.etcd.io/bbolt"

	"cutwater/cluster/metadata"
	"cutwater/cluster/metadata/metadatatest"
	"cutwater/messages"
)

func rawEntry(index uint64, data []byte) *raft.Log {
	return &raft.Log{Index: index, Term: 1, Type: raft.LogCommand, Data: data}
}

func entryOf(t *testing.T, index uint64, c *messages.MetadataCommand) *raft.Log {
	body, err := encodeCommand(c)
	if err != nil {
		t.Fatal(err)
	}
	return rawEntry(index, body)
}

func openTestLog(t *testing.T, dir string) *logFile {
	t.Helper()
	l, err := openLog(dir, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func closeTestLog(t *testing.T, l *logFile) {
	t.Helper()
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
}

// TestLog: what the library stores it gets back, also after a restart; what follows a
// snapshot replaces what was before it.
func TestLog(t *testing.T) {
	dir := t.TempDir()
	l := openTestLog(t, dir)
	ends := func(first, last uint64) {
		t.Helper()
		f, err1 := l.FirstIndex()
		e, err2 := l.LastIndex()
		if f != first || e != last || err1 != nil || err2 != nil {
			t.Fatalf("the log is %d to %d, not %d to %d (%v, %v)", f, e, first, last, err1, err2)
		}
	}
	ends(0, 0)
	at := time.Unix(7, 9)
	full := &raft.Log{Index: 1, Term: 3, Type: raft.LogConfiguration, Data: []byte("data"), Extensions: []byte("more"), AppendedAt: at}
	if err := l.StoreLogs([]*raft.Log{full, rawEntry(2, nil), rawEntry(3, []byte("3"))}); err != nil {
		t.Fatal(err)
	}
	ends(1, 3)
	if err := errors.Join(l.SetUint64([]byte("CurrentTerm"), 9), l.Set([]byte("who"), []byte("x"))); err != nil {
		t.Fatal(err)
	}
	closeTestLog(t, l)

	l = openTestLog(t, dir)
	got := &raft.Log{}
	if err := l.GetLog(1, got); err != nil || got.Term != 3 || got.Type != raft.LogConfiguration || string(got.Data) != "data" || string(got.Extensions) != "more" || !got.AppendedAt.Equal(at) {
		t.Fatalf("entry 1 is %+v, %v", got, err)
	}
	if err := l.GetLog(2, got); err != nil || len(got.Data) != 0 || len(got.Extensions) != 0 || !got.AppendedAt.IsZero() {
		t.Fatalf("entry 2 is %+v, %v", got, err)
	}
	if err := l.GetLog(4, got); !errors.Is(err, raft.ErrLogNotFound) {
		t.Fatalf("entry 4: %v", err)
	}
	if term, err := l.GetUint64([]byte("CurrentTerm")); err != nil || term != 9 {
		t.Fatalf("term %d, %v", term, err)
	}
	if value, err := l.Get([]byte("nothing")); err != nil || value != nil {
		t.Fatalf("nothing is %q, %v", value, err)
	}
	if err := l.DeleteRange(0, 1); err != nil {
		t.Fatal(err)
	}
	ends(2, 3)
	if err := l.DeleteRange(3, 1<<60); err != nil {
		t.Fatal(err)
	}
	ends(2, 2)
	if err := l.StoreLog(rawEntry(10, []byte("ten"))); err != nil {
		t.Fatal(err)
	}
	ends(10, 10)
	closeTestLog(t, l)
}

// TestOpenDamaged: a store over a damaged, gappy or foreign folder, or one in use, says
// what is wrong and leaves nothing open.
func TestOpenDamaged(t *testing.T) {
	g := newGroup(t, Options{SnapshotEvery: 3})
	n := g.start("a")
	bootstrap(t, n)
	register(t, n)
	for first := uint64(1); first < 5; {
		must(t, n, metadatatest.Allocate(metadatatest.Job, 1))
		var err error
		if first, err = n.file.FirstIndex(); err != nil {
			t.Fatal(err)
		}
	}
	second := &node{id: "b", dir: n.dir, addr: "127.0.0.1:0"}
	if _, err := g.open(second); !errors.Is(err, metadata.ErrLocked) {
		t.Fatalf("the folder was opened twice: %v", err)
	}
	g.stop(n)
	snapshots := filepath.Join(n.dir, "snapshots")
	if err := os.Rename(snapshots, snapshots+".away"); err != nil {
		t.Fatal(err)
	}
	if _, err := g.open(n); !errors.Is(err, metadata.ErrCorrupt) {
		t.Fatalf("opened without its snapshots: %v", err)
	}
	if err := errors.Join(os.RemoveAll(snapshots), os.Rename(snapshots+".away", snapshots)); err != nil {
		t.Fatal(err)
	}
	states, err := filepath.Glob(filepath.Join(snapshots, "*", "state.bin"))
	if err != nil || len(states) == 0 {
		t.Fatalf("no snapshots: %v", err)
	}
	for _, state := range states {
		b, err := os.ReadFile(state)
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)-1] ^= 1
		if err := os.WriteFile(state, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := g.open(n); err == nil {
		t.Fatal("opened with damaged snapshots")
	}
	db, err := bolt.Open(filepath.Join(n.dir, "raft.db"), 0o600, nil)
	if err != nil {
		t.Fatal(err) // locked: the failed opening left it open
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestDecodeSnapshot: a snapshot is what was written, or an error.
func TestDecodeSnapshot(t *testing.T) {
	s := &snapshot{&messages.MetadataSnapshot{Index: 7, ClusterId: testCluster}}
	whole, err := s.encode()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := decodeSnapshot(whole); err != nil || got.Index != 7 || got.ClusterId != testCluster {
		t.Fatalf("decoded %v, %v", got, err)
	}
	for at := range whole {
		b := bytes.Clone(whole)
		b[at] ^= 0x41
		if got, err := decodeSnapshot(b); err == nil {
			t.Fatalf("with byte %d flipped it is %v", at, got)
		}
		if got, err := decodeSnapshot(whole[:at]); err == nil {
			t.Fatalf("cut to %d bytes it is %v", at, got)
		}
	}
}

// TestSilentDisk: a term that cannot be written is neither an error for the library
// nor a success: its goroutine waits, and ends with the store.
func TestSilentDisk(t *testing.T) {
	dir := t.TempDir()
	l := openTestLog(t, dir)
	closeTestLog(t, l) // every write fails now
	said := &herald{said: make(chan struct{}, 100)}
	l.log = hclog.New(&hclog.LoggerOptions{Output: said, Level: hclog.Error})
	l.retry = time.Millisecond
	returned, ended := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(ended)
		returned <- l.SetUint64([]byte("CurrentTerm"), 7)
	}()
	<-said.said
	<-said.said
	close(l.stop)
	<-ended
	select {
	case err := <-returned:
		t.Fatalf("it went on without its term: %v", err)
	default:
	}
}

// TestCloseSilent: a store whose disk takes nothing any more answers nothing, and can
// be closed.
func TestCloseSilent(t *testing.T) {
	g := newGroup(t, Options{ElectionTimeoutMs: 20, TimeoutMs: 200})
	n := g.start("a")
	bootstrap(t, n)
	register(t, n)
	if err := n.file.close(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		r, err := n.Propose(context.Background(), metadatatest.Allocate(metadatatest.Job, 1))
		if err == nil && r.Outcome != messages.MetadataOutcome_UNKNOWN || err != nil && !errors.Is(err, metadata.ErrUnavailable) {
			t.Fatalf("answered %v, %v", r, err)
		}
	}
	g.stop(n)
}

// TestCutShort: a node whose Bootstrap did not come to an entry may join any cluster.
func TestCutShort(t *testing.T) {
	g := newGroup(t, Options{})
	b := g.start("b")
	if err := b.file.put(clusterKey, []byte(otherCluster)); err != nil {
		t.Fatal(err)
	}
	g.stop(b)
	b = g.start("b")
	bootstrap(t, g.start("a"))
	g.start("c")
	g.steer(Policy{}, 3)
	if id := b.ClusterID(); id != testCluster {
		t.Fatalf("it is of cluster %q", id)
	}
}

// herald is a log that says when it was written to.
type herald struct{ said chan struct{} }

func (s *herald) Write(b []byte) (int, error) {
	select {
	case s.said <- struct{}{}:
	default:
	}
	return len(b), nil
}

// TestGarbage: connections that say nothing that a member would say end, and change
// nothing.
func TestGarbage(t *testing.T) {
	g := newGroup(t, Options{})
	n := g.start("a")
	bootstrap(t, n)
	register(t, n)
	preface := func(k kind) []byte { return append([]byte{byte(k)}, make([]byte, prefaceLength-1)...) }
	for name, sent := range map[string][]byte{
		"http":          []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"unknown kind":  preface(9),
		"huge frame":    append(preface(kindRequests), 0xff, 0xff, 0xff, 0xff),
		"no message":    append(preface(kindRequests), 0, 0, 0, 2, 0xff, 0xff),
		"unknown rpc":   append(preface(kindRaft), 99),
		"broken rpc":    append(preface(kindRaft), 0, 0xc1, 0xc1),
		"cut short":     {1, 0, 0},
		"half a frame":  append(preface(kindRequests), 0, 0, 0, 9, 1),
		"random filler": bytes.Repeat([]byte{0xa5}, 4096),
	} {
		conn, err := net.Dial("tcp", n.addr)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(sent); err != nil {
			t.Fatal(err)
		}
		_ = conn.(*net.TCPConn).CloseWrite() // the other side may have ended it already
		if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if got, err := conn.Read(make([]byte, 1)); got > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: %d bytes came back, %v", name, got, err)
		}
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if r := record(t, n); r.Epoch != 1 || r.LastCheckpoint != 0 {
		t.Fatalf("the record is %v", r)
	}
}

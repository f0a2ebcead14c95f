package replicated

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/proto"

	"cutwater/cluster/metadata"
	"cutwater/messages"
	machine "cutwater/protocol/metadata"
)

const (
	// maxCommand bounds one entry, maxSnapshot a whole snapshot, in bytes.
	maxCommand  = 32 << 20
	maxSnapshot = 1 << 30
	// snapshotBytes is after how many bytes of commands a snapshot is taken.
	snapshotBytes = 64 << 20
)

// fsm is the machine of protocol/metadata under the library's log. The library's
// indexes count its own entries too; the machine counts commands.
type fsm struct {
	mu      sync.Mutex
	machine machine.Machine
	broken  error // why the machine stands still

	// Since the last snapshot.
	commands, bytes int
	every           int
	full            chan struct{} // wants a snapshot; holds one
	founded         func(clusterID string)
}

func newFSM(every int, founded func(string)) *fsm {
	return &fsm{every: every, full: make(chan struct{}, 1), founded: founded}
}

// Apply implements raft.FSM. Its result is a *messages.MetadataResult, or nil where
// the machine stands still: a command of a newer version would make this copy differ
// from the others, so from there on the node only passes the log on.
func (f *fsm) Apply(entry *raft.Log) any {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken != nil {
		return nil
	}
	command := &messages.MetadataCommand{}
	if err := proto.Unmarshal(entry.Data, command); err != nil || command.Command == nil {
		f.broken = fmt.Errorf("%w: command %d of the log is from a newer version of the program; update this node", metadata.ErrNewerFormat, entry.Index)
		return nil
	}
	result := f.machine.Apply(f.machine.Index()+1, command)
	if command.GetFoundCluster() != nil {
		f.founded(f.machine.ClusterID())
	}
	f.commands++
	f.bytes += len(entry.Data)
	if f.commands >= f.every || f.bytes >= snapshotBytes {
		f.commands, f.bytes = 0, 0
		select {
		case f.full <- struct{}{}:
		default: // it is wanted already
		}
	}
	return result
}

// read runs a function over the machine, or says why it stands still.
func (f *fsm) read(do func(*machine.Machine)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken != nil {
		return f.broken
	}
	do(&f.machine)
	return nil
}

// progress is what is known of the machine without asking others.
type progress struct {
	commands    uint64 // how many were applied
	yieldedTo   string
	provisional bool
	broken      error
	supersedes  []string
}

func (f *fsm) progress() progress {
	f.mu.Lock()
	defer f.mu.Unlock()
	return progress{f.machine.Index(), f.machine.YieldedTo(), f.machine.Provisional(), f.broken, f.machine.Supersedes()}
}

// A snapshot is one byte of version, the CRC-32C of the rest in 4 bytes, little
// endian, and a messages.MetadataSnapshot.
const (
	snapshotVersion = 1
	snapshotHeader  = 5
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Snapshot implements raft.FSM.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken != nil {
		return nil, f.broken
	}
	return &snapshot{f.machine.Snapshot()}, nil
}

type snapshot struct{ state *messages.MetadataSnapshot }

// Persist implements raft.FSMSnapshot.
func (s *snapshot) Persist(sink raft.SnapshotSink) error {
	b, err := s.encode()
	if err == nil {
		_, err = sink.Write(b)
	}
	if err != nil {
		return errors.Join(err, sink.Cancel())
	}
	return sink.Close()
}

func (s *snapshot) encode() ([]byte, error) {
	b, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(make([]byte, snapshotHeader), s.state)
	if err != nil {
		return nil, err
	}
	if len(b) > maxSnapshot {
		return nil, fmt.Errorf("metadata: the records of all jobs have %d bytes, more than a snapshot may (%d); retain fewer checkpoints, or use storage: filesystem", len(b), maxSnapshot)
	}
	b[0] = snapshotVersion
	binary.LittleEndian.PutUint32(b[1:], crc32.Checksum(b[snapshotHeader:], castagnoli))
	return b, nil
}

// Release implements raft.FSMSnapshot.
func (s *snapshot) Release() {}

// Restore implements raft.FSM.
func (f *fsm) Restore(r io.ReadCloser) error {
	b, err := io.ReadAll(io.LimitReader(r, maxSnapshot+1))
	if err != nil {
		return err
	}
	state, err := decodeSnapshot(b)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.machine.Restore(state); err != nil {
		return err
	}
	f.broken = nil
	f.commands, f.bytes = 0, 0
	if id := f.machine.ClusterID(); id != "" {
		f.founded(id)
	}
	return nil
}

func decodeSnapshot(b []byte) (*messages.MetadataSnapshot, error) {
	switch {
	case len(b) < snapshotHeader || len(b) > maxSnapshot || b[0] == 0:
		return nil, fmt.Errorf("%w: a snapshot of %d bytes", metadata.ErrCorrupt, len(b))
	case b[0] > snapshotVersion:
		return nil, fmt.Errorf("%w: the snapshot was written by a newer version of the program; update this node", metadata.ErrNewerFormat)
	case binary.LittleEndian.Uint32(b[1:]) != crc32.Checksum(b[snapshotHeader:], castagnoli):
		return nil, fmt.Errorf("%w: the checksum of the snapshot is wrong", metadata.ErrCorrupt)
	}
	state := &messages.MetadataSnapshot{}
	if err := proto.Unmarshal(b[snapshotHeader:], state); err != nil {
		return nil, fmt.Errorf("%w: the snapshot: %w", metadata.ErrCorrupt, err)
	}
	return state, nil
}

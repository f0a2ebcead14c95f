package replicated

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"cutwater/messages"
	machine "cutwater/protocol/metadata"
)

var (
	// ErrNoLog: the folder holds no log of a cluster.
	ErrNoLog = errors.New("metadata: there is no log")
	// ErrSuperseded: the log is that of a cluster which goes on as another one.
	ErrSuperseded = errors.New("metadata: this node's cluster is over")
)

// Contents is what the log of a stopped node holds.
type Contents struct {
	ClusterID string
	// Term and Index tell how far it goes. Of several survivors the one with the
	// greater term, and with the same term the greater index, has the newest.
	Term, Index uint64
	// Members are those of the newest configuration in it.
	Members []Member
	Jobs    []*messages.JobRecord
}

// Inspect reads the log in the folder and changes nothing. The node must not run. The
// error wraps ErrNoLog, or says what is wrong with the log.
func Inspect(dir string) (*Contents, error) {
	file, err := openStopped(dir)
	if err != nil {
		return nil, err
	}
	c, err := inspect(file, dir)
	return c, errors.Join(err, file.close())
}

// openStopped opens the log of a node that does not run.
func openStopped(dir string) (*logFile, error) {
	if _, err := os.Stat(filepath.Join(dir, "raft.db")); err != nil {
		return nil, fmt.Errorf("%w in %s: %w", ErrNoLog, dir, err)
	}
	return openLog(dir, hclog.NewNullLogger())
}

func inspect(file *logFile, dir string) (*Contents, error) {
	snapshots, err := openSnapshots(dir, file.log)
	if err != nil {
		return nil, err
	}
	c, f := &Contents{}, newFSM(1<<30, func(string) {})
	members, err := c.restore(f, snapshots)
	if err != nil {
		return nil, err
	}
	last, err := file.LastIndex()
	if err != nil {
		return nil, err
	}
	for index := c.Index + 1; index <= last; index++ {
		var entry raft.Log
		if err := file.GetLog(index, &entry); err != nil {
			return nil, err
		}
		switch entry.Type {
		case raft.LogCommand:
			f.Apply(&entry)
		case raft.LogConfiguration:
			members = raft.DecodeConfiguration(entry.Data)
		}
		c.Term, c.Index = entry.Term, entry.Index
	}
	if c.Index == 0 {
		return nil, fmt.Errorf("%w in %s: the node has never belonged to a cluster", ErrNoLog, dir)
	}
	for _, s := range members.Servers {
		c.Members = append(c.Members, Member{ID: string(s.ID), Addr: string(s.Address), Voter: s.Suffrage == raft.Voter})
	}
	return c, f.read(func(m *machine.Machine) { c.ClusterID, c.Jobs = m.ClusterID(), m.Jobs() })
}

// restore reads the newest snapshot, if there is one.
func (c *Contents) restore(f *fsm, snapshots raft.SnapshotStore) (members raft.Configuration, err error) {
	all, err := snapshots.List()
	if err != nil || len(all) == 0 {
		return members, err
	}
	meta, content, err := snapshots.Open(all[0].ID)
	if err != nil {
		return members, err
	}
	c.Term, c.Index = meta.Term, meta.Index
	return meta.Configuration, errors.Join(f.Restore(content), content.Close())
}

// Recover makes the stopped node whose folder is given the only voter of a new cluster,
// after a majority of the voters was lost for good. What its log holds becomes the
// truth, also what was never agreed on; what only the lost nodes knew is lost: at worst
// completions that were answered, so jobs resume from an older checkpoint. The error
// wraps ErrNoLog, or says what is wrong; then it can be repeated.
//
// The new cluster has an id of its own, so that members of the old one never exchange
// entries with it. Where they meet it they end, and their logs with them: see
// Store.Supersede.
//
// Before: stop all nodes; take the survivor that Inspect says is the newest: two may
// hold different ends of the log. After: start it; the others come back with new data
// folders.
func Recover(o Options, clusterID string) error {
	o, err := o.withDefaults()
	if err != nil {
		return err
	}
	if !machine.ValidClusterID(clusterID) {
		return fmt.Errorf("metadata: cluster id %q is not 32 lower-case hexadecimal digits", clusterID)
	}
	file, err := openStopped(o.Dir)
	if err != nil {
		return err
	}
	return errors.Join(recoverFrom(o, file, clusterID), file.close())
}

func recoverFrom(o Options, file *logFile, clusterID string) error {
	if _, err := inspect(file, o.Dir); err != nil {
		return err
	}
	snapshots, err := openSnapshots(o.Dir, file.log)
	if err != nil {
		return err
	}
	// The address is corrected when the node starts.
	const nowhere = raft.ServerAddress("127.0.0.1:1")
	alone := raft.Configuration{Servers: []raft.Server{{Suffrage: raft.Voter, ID: raft.ServerID(o.NodeID), Address: nowhere}}}
	_, transport := raft.NewInmemTransport(nowhere)
	renamed := &superseding{newFSM(o.SnapshotEvery, func(string) {}), clusterID}
	if err := raft.RecoverCluster(o.config(file.log), renamed, file, file, snapshots, transport, alone); err != nil {
		return fmt.Errorf("metadata: %s cannot be recovered: %w", o.Dir, err)
	}
	return errors.Join(file.put(clusterKey, []byte(clusterID)), file.put(supersededKey, nil))
}

// superseding gives the cluster its new id in the snapshot that replaces the log.
type superseding struct {
	*fsm
	clusterID string
}

// Snapshot implements raft.FSM. It is called once, when all was applied.
func (s *superseding) Snapshot() (raft.FSMSnapshot, error) {
	if err := s.read(func(m *machine.Machine) { m.Supersede(s.clusterID) }); err != nil {
		return nil, err
	}
	return s.fsm.Snapshot()
}

// Supersede notes that this node's cluster goes on as another one: from the next start
// on the log is refused with ErrSuperseded. The caller closes the store.
func (s *Store) Supersede(by string) error {
	return s.file.put(supersededKey, []byte(by))
}

// superseded returns ErrSuperseded if that was noted.
func (l *logFile) superseded(dir string) error {
	by, err := l.Get(supersededKey)
	if err != nil || len(by) == 0 {
		return err
	}
	return SupersededBy(string(by), dir)
}

// SupersededBy is the error of a node of which Supersede was called.
func SupersededBy(by, dir string) error {
	return fmt.Errorf("%w: it was recovered as cluster %s without this node, whose log in %s would be a second truth; if that was right, delete the node's data folder and start it again as a new node", ErrSuperseded, by, dir)
}

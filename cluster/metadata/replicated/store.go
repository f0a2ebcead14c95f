package replicated

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/proto"

	"cutwater/cluster/metadata"
	"cutwater/messages"
	machine "cutwater/protocol/metadata"
)

// Store is one member's end of the replicated log. It is a metadata.Store, and safe
// for concurrent use.
type Store struct {
	options   Options
	log       hclog.Logger
	file      *logFile
	fsm       *fsm
	mux       *mux
	links     links
	transport *raft.NetworkTransport
	raft      *raft.Raft

	ctx     context.Context // ends when the store is closed
	cancel  context.CancelFunc
	calls   sync.WaitGroup // calls of users and other members
	futures sync.WaitGroup // what the library has not settled yet
	loops   sync.WaitGroup

	changing sync.Mutex // held while the leader decides about members and acts on it

	mu         sync.Mutex
	closed     bool
	leadership Leadership
	changed    chan struct{} // closed when leadership changes
	clusterID  string
}

var _ metadata.Store = (*Store)(nil)

// transportTimeout bounds one exchange between two members: long enough for a slow
// disk under 64 entries, short enough that a silent connection is given up soon.
const transportTimeout = 5 * time.Second

// Open opens the member's folder and begins to take part: as the leader at once, if
// it is the sole voter; as a member among others; or, with an empty folder, waiting
// for Bootstrap or for a leader that takes it in. The errors are those of
// metadata.OpenLocal, ErrSuperseded, and what is wrong with the options. The caller closes the
// store; nothing is left open after an error.
func Open(o Options) (*Store, error) {
	listener := o.Listener
	if listener == nil {
		return nil, errors.New("metadata: a member needs a listener")
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	s := &Store{options: o, log: o.logger(), changed: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if s.file, err = openLog(o.Dir, s.log); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	id, err := s.file.Get(clusterKey)
	if err == nil {
		err = s.file.superseded(o.Dir)
	}
	if err != nil {
		return nil, errors.Join(err, s.file.close(), listener.Close())
	}
	s.clusterID = string(id)
	s.fsm = newFSM(o.SnapshotEvery, s.founded)
	snapshots, err := openSnapshots(o.Dir, s.log)
	if err != nil {
		return nil, errors.Join(err, s.file.close(), listener.Close())
	}
	s.mux = &mux{listener: listener, dial: o.Dial, self: address(o.Advertise), clusterID: s.ClusterID, serve: s.serve, log: s.log}
	s.links.connect = func(ctx context.Context, addr string) (net.Conn, error) {
		return s.mux.connect(ctx, addr, kindRequests)
	}
	if err := s.join(snapshots); err != nil {
		return nil, errors.Join(err, s.file.close())
	}
	return s, nil
}

// join starts the library over the opened files, and what follows it.
func (s *Store) join(snapshots raft.SnapshotStore) error {
	s.mux.init()
	s.transport = raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		ServerAddressProvider: addresses{s},
		Logger:                s.log,
		Stream:                s.mux,
		MaxPool:               3,
		Timeout:               transportTimeout,
	})
	var err error
	if err = s.contiguous(snapshots); err == nil {
		s.raft, err = raft.NewRaft(s.options.config(s.log), s.fsm, s.file, s.file, snapshots, s.transport)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("metadata: %s: %w", s.options.Dir, err), s.transport.Close(), s.mux.Close())
	}
	if len(s.Members()) == 0 {
		s.clusterID = "" // of a Bootstrap that was cut short: any cluster may take this node in
	}
	observations := make(chan raft.Observation, 64)
	s.raft.RegisterObserver(raft.NewObserver(observations, false, func(o *raft.Observation) bool {
		switch o.Data.(type) {
		case raft.LeaderObservation, raft.RaftState:
			return true
		}
		return false
	}))
	s.loops.Go(func() { s.observe(observations) })
	s.loops.Go(s.compact)
	s.mux.start()
	s.elect()
	return nil
}

// contiguous holds the log to the newest snapshot: it must begin no later than after
// it.
func (s *Store) contiguous(snapshots raft.SnapshotStore) error {
	first, err := s.file.FirstIndex()
	if err != nil {
		return err
	}
	all, err := snapshots.List()
	if err != nil {
		return err
	}
	covered := uint64(0)
	if len(all) > 0 {
		covered = all[0].Index
	}
	if first > covered+1 {
		return s.file.corrupt(fmt.Errorf("the log begins at entry %d, but the newest snapshot ends at %d", first, covered))
	}
	return nil
}

func openSnapshots(dir string, log hclog.Logger) (raft.SnapshotStore, error) {
	snapshots, err := raft.NewFileSnapshotStoreWithLogger(dir, 2, log)
	if err != nil {
		return nil, fmt.Errorf("metadata: snapshots cannot be kept in %s: %w; free disk space or repair the disk", filepath.Join(dir, "snapshots"), err)
	}
	return snapshots, nil
}

// addresses lets the library ask where a node is now.
type addresses struct{ store *Store }

// ServerAddr implements raft.ServerAddressProvider.
func (a addresses) ServerAddr(id raft.ServerID) (raft.ServerAddress, error) {
	if string(id) == a.store.options.NodeID {
		return raft.ServerAddress(a.store.options.Advertise), nil
	}
	if addr, ok := a.store.options.Locate(string(id)); ok {
		return raft.ServerAddress(addr), nil
	}
	return "", errors.New("no newer address is known")
}

// compact takes a snapshot whenever the machine asks for one.
func (s *Store) compact() {
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.fsm.full:
		}
		if err := s.settled(s.raft.Snapshot()); err != nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) && s.ctx.Err() == nil {
			s.log.Error("the log could not be replaced by a snapshot; it is tried again after as many commands", "error", err)
		}
	}
}

// founded keeps the cluster's id beside the log, where it is known before the log is
// replayed.
func (s *Store) founded(id string) {
	s.mu.Lock()
	known := s.clusterID == id
	s.clusterID = id
	s.mu.Unlock()
	if known {
		return
	}
	if err := s.file.put(clusterKey, []byte(id)); err != nil {
		s.log.Error("the cluster's id is not remembered beside the log", "error", err)
	}
}

// begin registers a call, which must end with the function that is returned, or
// returns ErrClosed. The context ends with the caller's, with the store, and after
// TimeoutMs.
func (s *Store) begin(ctx context.Context) (context.Context, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, metadata.ErrClosed
	}
	s.calls.Add(1)
	ctx, cancel := context.WithTimeout(ctx, time.Duration(s.options.TimeoutMs)*time.Millisecond)
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() {
		stop()
		cancel()
		s.calls.Done()
	}, nil
}

// settled waits for the library. It does not depend on a context: use it where the
// library has a deadline of its own.
func (s *Store) settled(f raft.Future) error { return s.await(s.ctx, f) }

// await waits for the library or the end of the context, whose error it returns then.
func (s *Store) await(ctx context.Context, f raft.Future) error {
	done := make(chan error, 1)
	s.futures.Go(func() { done <- f.Error() })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close implements metadata.Store. A leader just vanishes; TransferLeadership before
// it spares the others an election.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	// The library forgets what it has not settled when it stops. It settles all within
	// an election timeout, unless the disk cannot be written.
	s.within(4*time.Duration(s.options.ElectionTimeoutMs)*time.Millisecond, func() {
		s.calls.Wait()
		s.loops.Wait()
		s.futures.Wait()
	})
	close(s.file.stop)
	stopped := s.raft.Shutdown()
	// Without connections nothing waits for other members any more.
	s.transport.CloseStreams()
	err := errors.Join(s.transport.Close(), s.mux.Close(), stopped.Error())
	s.calls.Wait()
	s.loops.Wait()
	s.links.wait()
	return errors.Join(err, s.file.close())
}

// within waits for what is waited for, but not for ever.
func (s *Store) within(limit time.Duration, wait func()) {
	done := make(chan struct{})
	go func() {
		wait()
		close(done)
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		s.log.Warn("closed with operations under way")
	}
}

// ClusterID returns the id of the cluster to which this member belongs, empty where
// it belongs to none yet.
func (s *Store) ClusterID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clusterID
}

// encodeCommand encodes a command as an entry of the log.
func encodeCommand(command *messages.MetadataCommand) ([]byte, error) {
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(command)
	if err != nil {
		return nil, fmt.Errorf("metadata: the command cannot be encoded: %w", err)
	}
	if len(body) > maxCommand {
		return nil, fmt.Errorf("metadata: a command of %d bytes is larger than %d; use storage: filesystem for checkpoints of this size", len(body), maxCommand)
	}
	return body, nil
}

// Status is what one member knows of itself.
type Status struct {
	NodeID string
	// ClusterID is empty until the node belongs to a cluster.
	ClusterID string
	Leadership
	// Voter: this node votes. A node that is no member of anything does not.
	Voter bool
	// Members is how many nodes have a copy of the log, Voters how many of them vote.
	Members, Voters int
	// LastIndex is that of the log's last entry, which may be one of the library's own;
	// Commands is how many commands were applied.
	LastIndex, Commands uint64
	// Provisional: no job was ever accepted, as far as this member knows.
	Provisional bool
	// Supersedes are the clusters that this one was made of by Recover, the newest first.
	Supersedes []string
	// YieldedTo is the cluster for which this one has given itself up.
	YieldedTo string
	// Failure says why this member takes no part, if it does not.
	Failure error
}

// Status returns what this member knows now, without asking others.
func (s *Store) Status() Status {
	status := Status{NodeID: s.options.NodeID, ClusterID: s.ClusterID(), LastIndex: s.raft.LastIndex()}
	status.Leadership, _ = s.Leadership()
	p := s.fsm.progress()
	status.Commands, status.YieldedTo, status.Provisional, status.Failure = p.commands, p.yieldedTo, p.provisional, p.broken
	status.Supersedes = p.supersedes
	for _, m := range s.Members() {
		status.Members++
		if m.Voter {
			status.Voters++
			status.Voter = status.Voter || m.ID == s.options.NodeID
		}
	}
	return status
}

// readJobs answers with copies of one record, of all, or of what has changed of them.
func (s *Store) readJobs(what *messages.ReadRecords, into *messages.MetadataResponse) error {
	return s.fsm.read(func(m *machine.Machine) {
		switch {
		case what.Standing:
			into.Jobs, into.Revision = m.Standing(what.Since), m.Index()
		case what.Job == "":
			into.Jobs = m.Jobs()
		default:
			if r := m.Job(what.Job); r != nil {
				into.Jobs = []*messages.JobRecord{r}
			}
		}
	})
}

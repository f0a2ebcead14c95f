package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"cutwater/api"
	"cutwater/cluster/discovery"
	"cutwater/cluster/membership"
	"cutwater/cluster/metadata/replicated"
	"cutwater/node"
	"cutwater/protocol"
	"cutwater/protocol/dispatch"
	"cutwater/storage/vfs"
)

const (
	// drainTimeout bounds how long a node takes to leave.
	drainTimeout = 30 * time.Second
	// maxConnections bounds the connections to the HTTP API.
	maxConnections = 512
)

// startFlags are the flags of start.
type startFlags struct {
	dataDir, cluster, bind, advertise, zone, secretFile, preset string
	ports                                                       node.Ports
	join                                                        []string
	silent                                                      bool
	slots, voters                                               int
	channelMiB                                                  int64
	log                                                         logLevel
	output                                                      *format
}

// startJSON is the output of start -o json: one object, when the node is ready.
type startJSON struct {
	Node string `json:"node"`
	// HTTP and Gossip are addresses.
	HTTP    string `json:"http"`
	Gossip  string `json:"gossip"`
	Cluster string `json:"cluster"`
	// Nodes are those that are alive.
	Nodes int `json:"nodes"`
}

func newStart() *cobra.Command {
	f := &startFlags{log: logLevel{slog.LevelWarn}}
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Start a node of a cluster",
		Long: `Start a node of a cluster. It finds the others by announcements on its network, at
the addresses of --join, and by what it remembers; without any it is a cluster of
its own. One line says when it is ready.

A node on a loopback address needs nothing else. Any other address needs the
cluster secret, which also is what the HTTP API asks for: in a file (--secret-file
or CUTWATER_SECRET_FILE) or in the environment (CUTWATER_SECRET).

Ports that are not given are 8081 for HTTP if that is free, and any free ones else;
the data folder's file addresses has them while the node runs.

Ctrl-C or SIGTERM makes the node leave: the others give it no more work, and another
one leads before it goes. Its vote in the metadata waits for its return for a minute.
A second signal stops it at once, which others see as a failure, and nothing is lost
but the work since the last checkpoints.

Exit code 0: it has left. 1: error. 2: usage. 4: the data folder or a port is in
use, or the folder belongs to a cluster of another name.`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&f.dataDir, "data-dir", defaultNodeDir, "where the node keeps its identity, metadata and scratch files")
	flags.StringVar(&f.cluster, "cluster-name", "", "only nodes of one name belong together (default $"+clusterVariable+", else "+defaultCluster+")")
	flags.StringVar(&f.bind, "bind", "127.0.0.1", "IP address to listen at")
	flags.StringVar(&f.advertise, "advertise", "", "IP address by which others reach the node (default that of --bind)")
	flags.Uint16Var(&f.ports.Gossip, "gossip-port", 0, "port of gossip, TCP and UDP (default any free one)")
	flags.Uint16Var(&f.ports.Metadata, "metadata-port", 0, "port of the metadata log (default any free one)")
	flags.Uint16Var(&f.ports.Control, "control-port", 0, "port of control messages (default any free one)")
	flags.Uint16Var(&f.ports.Data, "data-port", 0, "port of records (default any free one)")
	flags.Uint16Var(&f.ports.HTTP, "http-port", 0, "port of the HTTP API (default 8081 if it is free, else any free one)")
	flags.StringArrayVar(&f.join, "join", nil, "where to look for nodes: HOST:PORT of gossip, file:PATH or exec:COMMAND (may be repeated)")
	flags.BoolVar(&f.silent, "no-announce", false, "neither announce the node on its network nor listen for others")
	flags.IntVar(&f.slots, "slots", max(4, runtime.NumCPU()), "how many subtasks of each vertex run here at once")
	flags.IntVar(&f.voters, "voters", 3, "how many nodes have a vote in the metadata, if there are as many: 1, 3 or 5; the same on all nodes")
	flags.StringVar(&f.zone, "zone", "", "what may fail at once with this node: voters are spread over zones")
	addSecretFlag(cmd, &f.secretFile)
	flags.StringVar(&f.preset, "preset", "", "time-outs of gossip: local, lan or wan (default local on a loopback address, else lan)")
	flags.Int64Var(&f.channelMiB, "channel-memory", 64, "MiB for batches between tasks, beyond the one that each channel may always hold")
	flags.Var(&f.log, "log-level", "what the node reports on standard error: debug, info, warn or error")
	f.output = formatFlag(cmd, "that the node is ready")
	for flag, values := range map[string][]string{"preset": {"local", "lan", "wan"}, "log-level": {"debug", "info", "warn", "error"}} {
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // the flags are there
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return start(cmd, f) }
	return cmd
}

// defaultCluster is the name of a cluster that was given none.
const defaultCluster = "cutwater"

// logLevel is the value of --log-level.
type logLevel struct{ slog.Level }

// Set implements pflag.Value.
func (l *logLevel) Set(s string) error {
	switch s {
	case "debug", "info", "warn", "error":
		return l.UnmarshalText([]byte(s))
	}
	return errors.New("it must be debug, info, warn or error")
}

// String implements pflag.Value.
func (l *logLevel) String() string {
	switch l.Level {
	case slog.LevelDebug:
		return "debug"
	case slog.LevelInfo:
		return "info"
	case slog.LevelError:
		return "error"
	}
	return "warn"
}

// Type implements pflag.Value.
func (l *logLevel) Type() string { return "level" }

// options checks the flags.
func (f *startFlags) options() (o node.MemberOptions, err error) {
	usage := func(format string, args ...any) (node.MemberOptions, error) {
		return o, coded(exitUsage, fmt.Errorf(format, args...))
	}
	if f.cluster == "" {
		f.cluster = os.Getenv(clusterVariable)
	}
	if f.cluster == "" {
		f.cluster = defaultCluster
	}
	o = node.MemberOptions{FS: vfs.OS(), ClusterName: f.cluster, Ports: f.ports, Join: f.join, Silent: f.silent, Slots: f.slots, Voters: replicated.Policy{Voters: f.voters}, Zone: f.zone,
		Preset: membership.Preset(f.preset), Version: version().Version, Build: buildTopology, ChannelMemoryBytes: f.channelMiB << 20}
	if o.Bind, err = netip.ParseAddr(f.bind); err != nil {
		return usage("--bind %s is no IP address: %w", f.bind, err)
	}
	if f.advertise != "" {
		if o.Advertise, err = netip.ParseAddr(f.advertise); err != nil {
			return usage("--advertise %s is no IP address: %w", f.advertise, err)
		}
	}
	switch {
	case f.slots < 1:
		return usage("--slots %d: a node needs one at least", f.slots)
	case f.voters != 1 && f.voters != 3 && f.voters != 5:
		return usage("--voters %d is not 1, 3 or 5", f.voters)
	case f.channelMiB < 1 || f.channelMiB > 1<<20:
		return usage("--channel-memory %d is not from 1 to %d (MiB)", f.channelMiB, 1<<20)
	case f.dataDir == "":
		return usage("--data-dir needs a folder")
	}
	switch o.Preset {
	case membership.Local, membership.LAN, membership.WAN, membership.Short:
	case "":
		o.Preset = membership.LAN
		if o.Bind.IsLoopback() {
			o.Preset = membership.Local
		}
	default:
		return usage("--preset %s is not local, lan or wan", f.preset)
	}
	if o.Secret, err = readSecret(f.secretFile); err != nil {
		return o, err
	}
	if o.DataDir, err = filepath.Abs(f.dataDir); err != nil {
		return o, coded(exitError, err)
	}
	return o, nil
}

// start runs a node until a signal ends it.
func start(cmd *cobra.Command, f *startFlags) error {
	o, err := f.options()
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	j := &journal{out: cmd.ErrOrStderr(), now: time.Now}
	o.Log = slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{Level: f.log.Level}))
	o.Event = func(e protocol.Event) { tellEvent(j, o.DataDir, e) }
	member, err := node.StartMember(o)
	if err != nil {
		return cannotStart(err)
	}
	s := &service{member: member, options: o, journal: j, server: serve(member, o)}
	err = s.run(cmd, signals, *f.output)
	if errors.Is(err, errNodeAtOnce) {
		return err // nothing is waited for, as after kill -9
	}
	if closeErr := s.close(); err == nil && closeErr != nil {
		err = coded(exitError, closeErr)
	}
	return err
}

// cannotStart gives an error its exit code.
func cannotStart(err error) error {
	for _, conflict := range []error{node.ErrDataDirInUse, node.ErrPortInUse, membership.ErrInUse, membership.ErrOtherName, replicated.ErrSuperseded} {
		if errors.Is(err, conflict) {
			return coded(exitConflict, err)
		}
	}
	for _, usage := range []error{membership.ErrNeedsSecret, membership.ErrMeta, discovery.ErrAddress} {
		if errors.Is(err, usage) {
			return coded(exitUsage, err)
		}
	}
	return coded(exitError, err)
}

// serve answers requests at the member's listener.
func serve(member *node.Member, o node.MemberOptions) *http.Server {
	v := version()
	server := api.Server(api.New(api.Options{Backend: backend{member}, Token: apiToken(o.Secret), Version: v.Version, Revision: v.Commit, Log: o.Log}), o.Log)
	go func() {
		if err := server.Serve(api.Limit(member.HTTP(), maxConnections)); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			o.Log.Error("the HTTP API has ended", "error", err)
		}
	}()
	return server
}

// service is a node with its API.
type service struct {
	member  *node.Member
	options node.MemberOptions
	journal *journal
	server  *http.Server
}

// errNodeAtOnce: the user did not want to wait.
var errNodeAtOnce = coded(exitError, errors.New("stopped at once; to the other nodes this one has failed"))

// run says when the node is ready, and lets it leave at the first signal. The second
// one is errNodeAtOnce.
func (s *service) run(cmd *cobra.Command, signals <-chan os.Signal, output format) error {
	ctx, stop := context.WithCancel(cmd.Context())
	defer stop()
	ready := make(chan error, 1)
	go func() { ready <- s.member.AwaitReady(ctx) }()
	if err := s.where().write(s.options.DataDir); err != nil {
		return coded(exitError, err)
	}
	for {
		select {
		case err := <-ready:
			if err != nil {
				return cannotStart(err)
			}
			if err := s.ready(cmd, output); err != nil {
				return err
			}
			go s.watch(ctx)
			ready = nil
		case <-s.member.Failed():
			return cannotStart(s.member.Ready())
		case <-signals:
			stop()
			return leave(s.member, s.options, s.journal, signals)
		}
	}
}

// where is how the node is reached.
func (s *service) where() addresses {
	a := addresses{PID: os.Getpid(), HTTP: s.member.HTTP().Addr().String()}
	if at, err := netip.ParseAddrPort(a.HTTP); err == nil {
		a.HTTP = hostAndPort(at)
	}
	if n, ok := selfOf(s.member); ok {
		a.Gossip = addressText(n.Gossip)
	}
	return a
}

// ready says that the node is ready.
func (s *service) ready(cmd *cobra.Command, output format) error {
	a := s.where()
	if err := a.write(s.options.DataDir); err != nil { // gossip is there now
		return coded(exitError, err)
	}
	alive := 0
	if nodes, err := s.member.Nodes(); err == nil {
		for _, n := range nodes {
			if n.Alive {
				alive++
			}
		}
	}
	if err := notifySystemd("READY=1"); err != nil {
		s.options.Log.Warn(err.Error())
	}
	if output == jsonText {
		return printJSON(cmd, startJSON{Node: nodeID(s.member.Name()), HTTP: a.HTTP, Gossip: a.Gossip, Cluster: s.options.ClusterName, Nodes: alive})
	}
	return printLine(cmd, fmt.Sprintf("node %s ready: http://%s, cluster %s of %s", shortNode(s.member.Name()), a.HTTP, s.options.ClusterName, count(alive, "node")))
}

// leaver is what leave needs of a node.Member.
type leaver interface {
	Leave(ctx context.Context) error
}

// leave ends a node as the others expect it, unless another signal comes.
func leave(m leaver, o node.MemberOptions, j *journal, signals <-chan os.Signal) error {
	if err := notifySystemd("STOPPING=1"); err != nil {
		o.Log.Warn(err.Error())
	}
	j.note(fmt.Sprintf("leaving the cluster, for at most %v; once more to stop at once", drainTimeout))
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	left := make(chan error, 1)
	go func() { left <- m.Leave(ctx) }()
	select {
	case err := <-left:
		if err != nil {
			return coded(exitError, fmt.Errorf("the node has stopped, but could not leave as it should: %w", err))
		}
		j.note("left")
		return nil
	case <-signals:
		return errNodeAtOnce
	}
}

// close ends what run has left open.
func (s *service) close() error {
	_ = s.server.Close() // its listener is the member's, which has closed it
	return errors.Join(s.member.Close(), removeAddresses(s.options.DataDir))
}

// watch tells which other node leads the metadata, until ctx is done.
func (s *service) watch(ctx context.Context) {
	told := ""
	for {
		changed := s.member.Changed()
		nodes, err := s.member.Nodes()
		leader := ""
		for _, n := range nodes {
			if n.Leader {
				leader = n.Meta.GetNode()
			}
		}
		switch {
		case err != nil || leader == told:
		case leader == "":
			s.journal.note("no node leads the metadata")
		case leader != nodeID(s.member.Name()): // an event says so of this node
			s.journal.note("node " + shortID(leader) + " leads the metadata")
		}
		told = leader
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// tellEvent prints what the operator of a node wants to know: who comes and goes, and
// what keeps jobs from running. All events are in `cutwater events`.
func tellEvent(j *journal, dataDir string, e protocol.Event) {
	switch e := e.(type) {
	case node.MemberEvent:
		if e.Kind != membership.Updated {
			j.note(e.String())
		}
	case node.CoordinatorFallen:
		line := e.String()
		if where := keepStack(dataDir, e); where != "" {
			line += "; the stack is in " + where
		}
		j.note(line)
	case node.MetadataLed, dispatch.CoordinatorUnplaced, dispatch.SlotsMissing, dispatch.JobsUnread:
		j.note(e.String())
	}
}

// journal prints lines on standard error. Any goroutine may use it.
type journal struct {
	mu  sync.Mutex
	out io.Writer
	now func() time.Time
}

// note prints a line with the time.
func (j *journal) note(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	fmt.Fprintf(j.out, "%s %s\n", j.now().Format("15:04:05.000"), line)
}

// Write implements io.Writer, for a log.
func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.out.Write(p)
}

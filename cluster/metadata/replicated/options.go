package replicated

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// Options are what a Store is made of.
type Options struct {
	// NodeID names this node, for as long as its folder lives. No other node ever
	// has the same.
	NodeID string
	// Dir is the folder of the log and its snapshots. It must exist, and be this
	// store's alone.
	Dir string
	// Listener takes connections of the other members. The store closes it, also
	// when Open fails.
	Listener net.Listener
	// Advertise is the address under which others reach the listener; empty means
	// the listener's own.
	Advertise string
	// Dial connects to another member's address; nil means TCP.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// Locate, if not nil, knows the newest address of a node; the log only knows
	// where it was when it joined. It must not block, and is called by several
	// goroutines.
	Locate func(nodeID string) (addr string, ok bool)

	// TimeoutMs bounds every call, beside its context; 0 means 10 s.
	TimeoutMs int64
	// ElectionTimeoutMs is how long members wait for a silent leader before they
	// elect another one; a leader that hears from no majority steps down after half
	// of it. 0 means 500. The same on all members.
	ElectionTimeoutMs int64
	// SnapshotEvery is after how many commands the log is replaced by a snapshot,
	// apart from as many that are kept for members that lag; 0 means 1024. A snapshot
	// is also taken after 64 MiB of commands.
	SnapshotEvery int

	// Log takes the library's log lines, from LogLevel up; nil takes none.
	Log      io.Writer
	LogLevel slog.Level
}

const (
	defaultTimeoutMs         = 10_000
	defaultElectionTimeoutMs = 500
	defaultSnapshotEvery     = 1024
	lockTimeout              = 200 * time.Millisecond
)

func (o Options) withDefaults() (Options, error) {
	switch {
	case o.NodeID == "":
		return o, errors.New("metadata: a member needs a node id")
	case o.Dir == "":
		return o, errors.New("metadata: a member needs a folder for its log")
	case o.ElectionTimeoutMs < 0 || 0 < o.ElectionTimeoutMs && o.ElectionTimeoutMs < 20:
		return o, errors.New("metadata: an election timeout below 20 ms elects for ever; give at least that")
	}
	if o.Dial == nil {
		o.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		}
	}
	if o.Locate == nil {
		o.Locate = func(string) (string, bool) { return "", false }
	}
	if o.Advertise == "" && o.Listener != nil {
		o.Advertise = o.Listener.Addr().String()
	}
	if o.TimeoutMs == 0 {
		o.TimeoutMs = defaultTimeoutMs
	}
	if o.ElectionTimeoutMs == 0 {
		o.ElectionTimeoutMs = defaultElectionTimeoutMs
	}
	if o.SnapshotEvery == 0 {
		o.SnapshotEvery = defaultSnapshotEvery
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	return o, nil
}

// logger writes what the library says, and what this package says beside it.
func (o Options) logger() hclog.Logger {
	level := hclog.Error
	switch {
	case o.Log == io.Discard:
		level = hclog.Off
	case o.LogLevel <= slog.LevelDebug:
		level = hclog.Debug
	case o.LogLevel <= slog.LevelInfo:
		level = hclog.Info
	case o.LogLevel <= slog.LevelWarn:
		level = hclog.Warn
	}
	return hclog.New(&hclog.LoggerOptions{Name: "metadata", Output: o.Log, Level: level})
}

// config is the library's. Snapshots are asked for by this package, which counts
// bytes too; a node that was taken off the members may be taken in again.
func (o Options) config(log hclog.Logger) *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(o.NodeID)
	c.Logger = log
	c.HeartbeatTimeout = time.Duration(o.ElectionTimeoutMs) * time.Millisecond
	c.ElectionTimeout = c.HeartbeatTimeout
	c.LeaderLeaseTimeout = c.HeartbeatTimeout / 2
	c.CommitTimeout = min(c.CommitTimeout, c.HeartbeatTimeout/4)
	c.SnapshotInterval = 24 * time.Hour
	c.SnapshotThreshold = 1 << 62
	c.TrailingLogs = uint64(o.SnapshotEvery)
	c.ShutdownOnRemove = false
	c.NoLegacyTelemetry = true
	return c
}

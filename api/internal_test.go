package api

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"cutwater/messages"
)

// A vertex stands as Flink would say of its tasks.
func TestVertexStatus(t *testing.T) {
	for _, c := range []struct {
		tasks map[string]int
		want  string
	}{
		{map[string]int{"CREATED": 3}, "CREATED"},
		{map[string]int{"CREATED": 2, "DEPLOYING": 1}, "DEPLOYING"},
		{map[string]int{"RUNNING": 2, "INITIALIZING": 1}, "INITIALIZING"},
		{map[string]int{"RUNNING": 2, "FINISHED": 1}, "RUNNING"},
		{map[string]int{"CREATED": 2, "FINISHED": 1}, "RUNNING"},
		{map[string]int{"FINISHED": 3}, "FINISHED"},
		{map[string]int{"CANCELED": 2, "CANCELING": 1}, "CANCELING"},
		{map[string]int{"CANCELED": 3}, "CANCELED"},
		{map[string]int{"CANCELING": 2, "FAILED": 1}, "FAILED"},
	} {
		if got := vertexStatus(c.tasks, 3); got != c.want {
			t.Errorf("%v is %s, want %s", c.tasks, got, c.want)
		}
	}
}

// The path of a checkpoint is where it lies, and there is none where it is in no
// folder.
func TestExternalPath(t *testing.T) {
	for _, c := range []struct {
		storage, dir, location string
		savepoint              bool
		want                   string
	}{
		{"filesystem", "/chk", "chk-3", false, "/chk/J/chk-3"},
		{"", "/chk/", "chk-3", false, "/chk/J/chk-3"},
		{"filesystem", "/chk", "/user/chk-9", false, "/user/chk-9"},
		{"filesystem", "/chk", "save/savepoint-1", true, "save/savepoint-1"},
		{"coordinator", "/chk", "chk-3", false, ""},
		{"filesystem", "", "chk-3", false, ""},
		{"filesystem", "/chk", "", false, ""},
	} {
		s := &jobState{record: &messages.JobRecord{Job: "J", Settings: &messages.JobSettings{
			Checkpointing: &messages.CheckpointConfig{Storage: c.storage, Dir: c.dir}}}}
		if got := s.externalPath(c.location, c.savepoint); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// Peers are told apart by address; of IPv6 a network is one peer. However many come,
// few are remembered.
func TestPeers(t *testing.T) {
	g := newGuard(Options{Token: "x", Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return time.Unix(1, 0) }})
	for _, c := range []struct {
		remote string
		want   int
	}{
		{"10.0.0.1:1", 1}, {"10.0.0.1:2", 2}, {"10.0.0.2:1", 1}, {"[::ffff:10.0.0.1]:3", 3},
		{"[2001:db8::1]:1", 1}, {"[2001:db8::2]:1", 2}, {"[2001:db8:0:1::1]:1", 1}, {"@", 1}, {"", 2},
	} {
		if got := g.count(c.remote); got != c.want {
			t.Errorf("%s: %d, want %d", c.remote, got, c.want)
		}
	}
	for i := range 10 * maxPeers {
		g.count(fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255))
	}
	if len(g.peers) > maxPeers {
		t.Errorf("%d peers are remembered", len(g.peers))
	}
}

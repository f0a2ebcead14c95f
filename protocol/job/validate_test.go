package job

import (
	"errors"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
)

// A uid starts with a lower-case letter and goes on with those, digits and dashes.
func TestValidUid(t *testing.T) {
	for _, uid := range []string{"a", "z", "a1", "a-b", "a0-9z", "a-"} {
		if !ValidUid(uid) {
			t.Errorf("%q is refused", uid)
		}
	}
	for _, uid := range []string{"", "1a", "-a", "A", "aB", "a_b", "a/b", "a:b", "a b", "a`b", "a{b", "é", "aé"} {
		if ValidUid(uid) {
			t.Errorf("%q is taken", uid)
		}
	}
}

// A Master is made of what is valid only; the error says what is not.
func TestNewMasterRefuses(t *testing.T) {
	source := &messages.OperatorSpec{Uid: "src", Source: true}
	good := MasterConfig{
		Job: testJob, Node: "n1", Graph: &messages.JobGraph{Operators: []*messages.OperatorSpec{source}, Parallelism: 1},
		Settings: &messages.JobSettings{
			Checkpointing: &messages.CheckpointConfig{TimeoutMs: 1000, MaxConcurrent: 1, NumRetained: 1},
			Restart:       DefaultRestart(),
		},
		Hooks: []string{"a"},
	}
	if _, err := NewMaster(good); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(c *MasterConfig){
		"no operators": func(c *MasterConfig) { c.Graph = &messages.JobGraph{} },
		"timeout":      func(c *MasterConfig) { c.Settings.Checkpointing.TimeoutMs = -1 },
		"hook":         func(c *MasterConfig) { c.Hooks = []string{"a", "a"} },
		"backoff":      func(c *MasterConfig) { c.Settings.Restart.InitialBackoffMs = -1 },
	} {
		bad := good
		bad.Settings = proto.CloneOf(good.Settings)
		spoil(&bad)
		if _, err := NewMaster(bad); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}

// A multiplier of the restart delay is a finite number.
func TestRestartMultiplier(t *testing.T) {
	for _, m := range []float64{math.Inf(1), math.Inf(-1), math.NaN(), 0.9} {
		c := DefaultRestart()
		c.BackoffMultiplier = m
		if ValidateRestart(c) == nil {
			t.Errorf("the multiplier %v is taken", m)
		}
	}
}

// Graphs that no topology file can contain, but a message can, are refused too.
func TestPlanOfStrangeGraphs(t *testing.T) {
	source := func(uid string) *messages.OperatorSpec { return &messages.OperatorSpec{Uid: uid, Source: true} }
	reads := func(uid string, how messages.Partitioning) *messages.OperatorSpec {
		return &messages.OperatorSpec{Uid: uid, Inputs: []*messages.OperatorInput{{Uid: "src", Partitioning: how}}}
	}
	for _, c := range []struct {
		operators []*messages.OperatorSpec
		want      string
	}{
		{[]*messages.OperatorSpec{source("src"), source("src")}, "the uid is used twice; rename one of the two operators"},
		{[]*messages.OperatorSpec{source("src"), reads("a", -1)}, `operator "a"`},
		{[]*messages.OperatorSpec{source("src"), reads("a", messages.Partitioning_BROADCAST_EDGE+1)}, `operator "a"`},
	} {
		_, err := Plan(&messages.JobGraph{Operators: c.operators, Parallelism: 1})
		var invalid *InvalidGraphError
		if !errors.As(err, &invalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("the error is %v, want %q", err, c.want)
		}
	}
	for how := range messages.Partitioning_name {
		if _, err := Plan(&messages.JobGraph{Operators: []*messages.OperatorSpec{source("src"), reads("a", messages.Partitioning(how))}, Parallelism: 1}); err != nil {
			t.Errorf("%s: %v", messages.Partitioning(how), err)
		}
	}
}

// A failure to read names the checkpoint as a user can find it: by its path, by its
// place in the job's directory, or by its id alone where its bytes are in the record.
func TestWhatIsRead(t *testing.T) {
	for _, c := range []struct {
		read read
		want string
	}{
		{read{path: "/sp/x"}, "the checkpoint at /sp/x"},
		{read{record: &messages.CompletedCheckpoint{Checkpoint: 7, Location: "chk-7"}}, "checkpoint 7 at chk-7"},
		{read{record: &messages.CompletedCheckpoint{Checkpoint: 7}}, "checkpoint 7"},
	} {
		if got := c.read.what(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

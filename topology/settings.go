package topology

import (
	"bytes"
	"path/filepath"

	"cutwater/messages"
)

// settingsSection has the keys of a topology that are the job's settings.
var settingsSection = func() *Section {
	s := &Section{Name: "settings", Path: topologySection.Path, Doc: "The settings of a job whose topology is written in Go."}
	for _, name := range []string{"checkpointing", "state", "restart", "buffer-timeout"} {
		s.Keys = append(s.Keys, *topologySection.key(name))
	}
	return s
}()

// Settings reads the settings of a job whose topology is written in Go: a text
// with the keys checkpointing, state, restart and buffer-timeout of a topology,
// and their defaults; an empty one is all defaults. Path is for messages and for
// relative paths. The error is an Errors with everything that is wrong.
func Settings(path string, src []byte, env func(string) (string, bool)) (*messages.JobSettings, error) {
	if len(bytes.TrimSpace(src)) == 0 {
		src = []byte("{}")
	}
	r := newReporter(path, src)
	root := treeOf(src, env, r)
	var settings *messages.JobSettings
	if root != nil {
		d := &decoder{reporter: r, dir: filepath.Dir(path)}
		settings = d.settings(d.block(root, settingsSection))
	}
	if errs := r.sorted(Error); len(errs) > 0 {
		return nil, Errors(errs)
	}
	return settings, nil
}

// settings reads everything of a job but its operators.
func (d *decoder) settings(top *block) *messages.JobSettings {
	c := top.value("checkpointing").block
	checkpointing := &messages.CheckpointConfig{
		IntervalMs:           c.value("interval").int,
		AtLeastOnce:          c.value("mode").text == "at-least-once",
		TimeoutMs:            c.value("timeout").int,
		MinPauseMs:           c.value("min-pause").int,
		MaxConcurrent:        uint32(c.value("max-concurrent").int),
		TolerableFailures:    uint32(c.value("tolerable-failures").int),
		Unaligned:            c.value("unaligned").bool,
		AlignedTimeoutMs:     c.value("aligned-timeout").int,
		Retention:            retentions[c.value("retention").text],
		NumRetained:          uint32(c.value("num-retained").int),
		Storage:              c.value("storage").text,
		Dir:                  c.value("dir").text,
		SavepointDir:         c.value("savepoint-dir").text,
		InlineThresholdBytes: uint64(c.value("inline-threshold").int),
		Incremental:          c.value("incremental").bool,
		AfterTasksFinish:     c.value("after-tasks-finish").bool,
	}
	if checkpointing.Unaligned {
		d.add(ruleUnaligned, c.at("unaligned"), "this version takes aligned checkpoints only; remove unaligned, and if checkpoints expire under back-pressure raise timeout")
	}
	if checkpointing.AlignedTimeoutMs > 0 {
		d.add(ruleUnaligned, c.at("aligned-timeout"), "this version takes aligned checkpoints only; remove aligned-timeout, which belongs to unaligned")
	}
	return &messages.JobSettings{
		Checkpointing:   checkpointing,
		Restart:         d.restart(top.value("restart").block),
		Backend:         top.value("state").block.value("backend").text,
		BufferTimeoutMs: top.value("buffer-timeout").int,
		LocalRecovery:   top.value("state").block.value("local-recovery").bool,
	}
}

var retentions = map[string]messages.Retention{
	"never":           messages.Retention_RETAIN_NEVER,
	"on-failure":      messages.Retention_RETAIN_ON_FAILURE,
	"on-cancellation": messages.Retention_RETAIN_ON_CANCELLATION,
}

// strategyKeys are the keys that each restart strategy uses.
var strategyKeys = map[string][]string{
	"exponential-delay": {"initial-backoff", "max-backoff", "backoff-multiplier", "jitter", "reset-after"},
	"fixed-delay":       {"attempts", "delay"},
	"failure-rate":      {"max-failures", "interval", "delay"},
	"none":              nil,
}

// restart sets the keys of the chosen strategy only.
func (d *decoder) restart(b *block) *messages.RestartConfig {
	switch b.value("strategy").text {
	case "none":
		return &messages.RestartConfig{Kind: messages.RestartKind_NO_RESTART}
	case "fixed-delay":
		return &messages.RestartConfig{
			Kind:     messages.RestartKind_FIXED_DELAY,
			Attempts: uint32(b.value("attempts").int),
			DelayMs:  b.value("delay").int,
		}
	case "failure-rate":
		return &messages.RestartConfig{
			Kind:        messages.RestartKind_FAILURE_RATE,
			MaxFailures: uint32(b.value("max-failures").int),
			IntervalMs:  b.value("interval").int,
			DelayMs:     b.value("delay").int,
		}
	}
	c := &messages.RestartConfig{
		Kind:              messages.RestartKind_EXPONENTIAL_DELAY,
		InitialBackoffMs:  b.value("initial-backoff").int,
		MaxBackoffMs:      b.value("max-backoff").int,
		BackoffMultiplier: b.value("backoff-multiplier").float,
		Jitter:            b.value("jitter").float,
		ResetAfterMs:      b.value("reset-after").int,
	}
	if c.MaxBackoffMs < c.InitialBackoffMs {
		d.add(ruleSettings, b.at("max-backoff"), "max-backoff is shorter than initial-backoff (%d ms < %d ms); raise it", c.MaxBackoffMs, c.InitialBackoffMs)
	}
	if c.Jitter >= 1 {
		d.add(ruleValue, b.at("jitter"), "jitter must be below 1: a wait could otherwise be negative")
	}
	return c
}

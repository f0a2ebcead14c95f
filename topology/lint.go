package topology

import (
	"slices"
	"strings"
)

// warn finds what runs and is probably not meant. The topology has no errors.
func (d *decoder) warn(t *Topology, top *block) {
	c := t.Settings.Checkpointing
	checkpointing := top.value("checkpointing").block
	at := func(key string) Position {
		if checkpointing.node == nil {
			return top.node.at
		}
		return checkpointing.at(key)
	}
	if c.IntervalMs == 0 {
		d.add(ruleNoCheckpoints, at("interval"), "checkpointing is off: a failure starts the job again from its first record; set checkpointing: {interval: 10s}")
	}
	if c.IntervalMs > 0 && c.MinPauseMs >= c.IntervalMs {
		d.add(rulePause, at("min-pause"), "min-pause is not shorter than interval, so it alone decides how often a checkpoint starts")
	}
	if c.MaxConcurrent > 1 && c.MinPauseMs > 0 {
		d.add(ruleConcurrent, at("max-concurrent"), "with min-pause checkpoints never overlap, so max-concurrent %d has no effect", c.MaxConcurrent)
	}
	if t.Settings.Backend == "bolt" && c.Storage == "coordinator" {
		d.add(ruleStateLimit, at("storage"), "storage coordinator declines more than 5 MiB of one state, and the bolt backend is for more; use storage filesystem")
	}
	if c.SavepointDir != "" {
		d.add(ruleNoEffect, at("savepoint-dir"), "no command of this version takes savepoints, so savepoint-dir has no effect")
	}
	d.warnRestart(top.value("restart").block)
	d.warnOperators(t)
}

func (d *decoder) warnRestart(b *block) {
	if b.node == nil {
		return
	}
	strategy := b.value("strategy").text
	for _, e := range b.node.entries {
		if e.key != "strategy" && !slices.Contains(strategyKeys[strategy], e.key) {
			d.add(ruleRestart, e.at, "the strategy %s does not use %q; remove it", strategy, e.key)
		}
	}
}

func (d *decoder) warnOperators(t *Topology) {
	read := map[*Operator]bool{}
	usesTime := map[*Operator]bool{}
	for _, op := range slices.Backward(t.order) {
		for _, in := range op.Inputs {
			read[in.Operator] = true
			if op.Window != nil || op.Kind == Process || usesTime[op] {
				usesTime[in.Operator] = true
			}
		}
	}
	paths := map[string]*Operator{}
	for _, op := range t.Operators {
		if op.Kind != Sink && !read[op] {
			d.add(ruleUnused, op.Position, "nobody reads the output of %q; add a sink, or remove it", op.Uid)
		}
		if op.Kind == Source && op.EventTime != nil && !usesTime[op] {
			d.add(ruleUnusedTime, op.block.at("event-time"), "no window or process operator uses the event time of %q", op.Uid)
		}
		if op.Kind != Sink {
			d.warnSecrets(op)
			continue
		}
		if t.Settings.Checkpointing.IntervalMs == 0 {
			d.add(ruleSinkWaits, op.Position, "with checkpointing off the sink %q shows nothing until the job ends", op.Uid)
		}
		d.warnSecrets(op)
		if path := op.Connector.Values.Strings["path"]; path != "" {
			place := op.Connector.Name + " " + path
			if other := paths[place]; other != nil {
				d.add(ruleSettings, op.block.at("sink"), "the sinks %q and %q write to the same place, %s; give each its own", other.Uid, op.Uid, path)
			} else {
				paths[place] = op
			}
		}
	}
}

// warnSecrets finds options that look like secrets and are written down.
func (d *decoder) warnSecrets(op *Operator) {
	if op.Connector == nil {
		return
	}
	n := op.block.node.get(string(op.Kind))
	for _, connector := range n.entries {
		for _, e := range connector.value.entries {
			for _, word := range []string{"password", "secret", "token"} {
				if strings.Contains(e.key, word) && e.value.shape == scalar && !e.value.varied {
					d.add(ruleSecret, e.at, "%q is written in plain text; take it from the environment: ${NAME}", e.key)
					break
				}
			}
		}
	}
}

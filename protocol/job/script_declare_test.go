package job

import (
	"fmt"
	"strings"

	"cutwater/internal/script"
	"cutwater/messages"
)

func (w *world) declare(d *script.Directive) error {
	w.splits = int(d.Int("splits", 2))
	w.hooks = nil
	if s := d.Arg("hooks", ""); s != "" {
		w.hooks = strings.Split(s, ",")
	}
	w.graph = parseGraph(d)
	retention := messages.Retention(messages.Retention_value[d.Arg("retention", "RETAIN_NEVER")])
	w.settings = &messages.JobSettings{
		Checkpointing: &messages.CheckpointConfig{
			IntervalMs: d.Int("interval", 0), TimeoutMs: d.Int("timeout", 60000), MaxConcurrent: uint32(d.Int("concurrent", 1)),
			MinPauseMs: d.Int("min-pause", d.Int("interval", 0)), NumRetained: 2, AfterTasksFinish: true, Retention: retention,
			TolerableFailures: uint32(d.Int("tolerable", 0)),
		},
		Restart: &messages.RestartConfig{
			Kind:     messages.RestartKind(messages.RestartKind_value[d.Arg("restart", "FIXED_DELAY")]),
			Attempts: uint32(d.Int("attempts", 3)), DelayMs: d.Int("delay", 100),
		},
		Backend: "heap",
	}
	if s := d.Arg("drop-state", ""); s != "" {
		w.settings.DroppedState = strings.Split(s, ",")
	}
	return nil
}

// parseGraph reads lines of the form
//
//	uid source|sink|keyed|never-chain parallelism=2 max=8 schema=int in=a:HASH in=b.late:REBALANCE
func parseGraph(d *script.Directive) *messages.JobGraph {
	g := &messages.JobGraph{Name: "test", Parallelism: uint32(d.Int("parallelism", 1)), MaxParallelism: uint32(d.Int("max", 0))}
	for i, line := range strings.Split(d.Body, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		op := &messages.OperatorSpec{Uid: strings.Trim(words[0], `"`), Declared: fmt.Sprintf("test.go:%d", i+1)}
		for _, word := range words[1:] {
			key, value, _ := strings.Cut(word, "=")
			switch key {
			case "source":
				op.Source = true
			case "sink":
				op.Sink = true
			case "keyed":
				op.Keyed = true
			case "never-chain":
				op.NeverChain = true
			case "parallelism":
				fmt.Sscan(value, &op.Parallelism)
			case "max":
				fmt.Sscan(value, &op.MaxParallelism)
			case "schema":
				op.StateSchema = value
			case "in":
				from, how, _ := strings.Cut(value, ":")
				uid, side, _ := strings.Cut(from, ".")
				op.Inputs = append(op.Inputs, &messages.OperatorInput{Uid: uid, Side: side,
					Partitioning: messages.Partitioning(messages.Partitioning_value[how])})
			default:
				panic("unknown word " + word)
			}
		}
		g.Operators = append(g.Operators, op)
	}
	return g
}

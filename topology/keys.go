package topology

import (
	"cutwater/stream/catalog"
)

// Kind is the type of a key's value.
type Kind uint8

// Kinds of values.
const (
	String Kind = iota
	Int
	Float
	Bool
	Duration // "1s"; kept in ms
	Size     // "64KiB"; kept in bytes
	Path     // relative to the topology's folder, or a URL
	Enum
	UID
	Names       // one name or a list of them
	Expression  // a condition or value over a row
	Expressions // field: expression
	Schema      // field: type
	Block       // a map with the keys of a section
	Blocks      // a list of them
	Connector   // one connector and its options
)

// Key is one key of a section. The table of all keys makes the parser, the JSON
// Schema and docs/configuration.md.
type Key struct {
	Name     string
	Kind     Kind
	Required bool
	// Default is used when the key is missing, written as in a file; empty means
	// that there is none.
	Default string
	// Values are the words of an Enum.
	Values []string
	// Min and Max bound a number where Max is above Min; durations in ms.
	Min, Max int64
	// Section is what a Block or Blocks holds.
	Section *Section
	// Doc is one sentence.
	Doc string
	// Flink is the name of the key in Flink, FlinkDefault its default there, and
	// Why says why ours differs.
	Flink, FlinkDefault, Why string
}

// Section is a block of keys.
type Section struct {
	Name string
	// Path is where the block stands in a file.
	Path string
	Doc  string
	Keys []Key
}

func (s *Section) key(name string) *Key {
	for i := range s.Keys {
		if s.Keys[i].Name == name {
			return &s.Keys[i]
		}
	}
	return nil
}

func (s *Section) names() []string {
	names := make([]string, len(s.Keys))
	for i, k := range s.Keys {
		names[i] = k.Name
	}
	return names
}

const (
	maxMs          = 1 << 53
	maxParallelism = 1 << 15
)

var topologySection = &Section{
	Name: "topology", Path: "(top level)", Doc: "A file is one map with these keys.",
	Keys: []Key{
		{Name: "name", Kind: UID, Required: true, Doc: "The name of the job: a lower-case letter, then lower-case letters, digits and hyphens.", Flink: "pipeline.name"},
		{Name: "parallelism", Kind: Int, Default: "1", Min: 1, Max: maxParallelism, Doc: "How many subtasks each operator has.", Flink: "parallelism.default", FlinkDefault: "1"},
		{Name: "max-parallelism", Kind: Int, Min: 1, Max: maxParallelism, Doc: "The number of key groups: how far the job can be scaled up without losing its state. Unset: 1.5 times the parallelism, rounded up to a power of two, at least 128.", Flink: "pipeline.max-parallelism", FlinkDefault: "-1 (derived)"},
		{Name: "buffer-timeout", Kind: Duration, Default: "1ms", Min: 0, Max: maxMs, Doc: "How long a half-full batch waits for more records.", Flink: "execution.buffer-timeout.interval", FlinkDefault: "100 ms",
			Why: "sending a batch is cheap here, so latency is bought for little throughput"},
		{Name: "checkpointing", Kind: Block, Section: checkpointingSection, Doc: "Checkpoints: how often, how, and where to."},
		{Name: "state", Kind: Block, Section: stateSection, Doc: "Where keyed state lives while the job runs."},
		{Name: "restart", Kind: Block, Section: restartSection, Doc: "What happens after a failure."},
		{Name: "operators", Kind: Blocks, Required: true, Section: operatorSection, Doc: "The operators, in any order."},
	},
}

var checkpointingSection = &Section{
	Name: "checkpointing", Path: "checkpointing", Doc: "Checkpoints are off until `interval` is set.",
	Keys: []Key{
		{Name: "interval", Kind: Duration, Min: 10, Max: maxMs, Doc: "The time between the starts of two checkpoints; unset means no periodic checkpoints.", Flink: "execution.checkpointing.interval", FlinkDefault: "unset"},
		{Name: "mode", Kind: Enum, Default: "exactly-once", Values: []string{"exactly-once", "at-least-once"}, Doc: "Whether tasks align barriers. At-least-once saves the alignment and may count records twice after a failure.", Flink: "execution.checkpointing.mode", FlinkDefault: "EXACTLY_ONCE"},
		{Name: "timeout", Kind: Duration, Default: "10m", Min: 10, Max: maxMs, Doc: "A checkpoint that takes longer is aborted.", Flink: "execution.checkpointing.timeout", FlinkDefault: "10 min"},
		{Name: "min-pause", Kind: Duration, Default: "0s", Min: 0, Max: maxMs, Doc: "The least time between the end of one checkpoint and the start of the next.", Flink: "execution.checkpointing.min-pause", FlinkDefault: "0 s"},
		{Name: "max-concurrent", Kind: Int, Default: "1", Min: 1, Max: 1024, Doc: "How many checkpoints may be in progress at once.", Flink: "execution.checkpointing.max-concurrent-checkpoints", FlinkDefault: "1"},
		{Name: "tolerable-failures", Kind: Int, Default: "0", Min: 0, Max: 1 << 31, Doc: "How many checkpoints in a row may fail before the job restarts.", Flink: "execution.checkpointing.tolerable-failed-checkpoints", FlinkDefault: "0"},
		{Name: "unaligned", Kind: Bool, Default: "false", Doc: "Not in this version: true is an error (CW018). Barriers would overtake records, which become part of the checkpoint.", Flink: "execution.checkpointing.unaligned.enabled", FlinkDefault: "false"},
		{Name: "aligned-timeout", Kind: Duration, Default: "0s", Min: 0, Max: maxMs, Doc: "Not in this version, as `unaligned`: how long a checkpoint would try to align first.", Flink: "execution.checkpointing.aligned-checkpoint-timeout", FlinkDefault: "0 s"},
		{Name: "retention", Kind: Enum, Default: "on-failure", Values: []string{"never", "on-failure", "on-cancellation"}, Doc: "Whether checkpoints are kept when the job has ended: never, when it failed, or when it failed or was cancelled.", Flink: "execution.checkpointing.externalized-checkpoint-retention", FlinkDefault: "NO_EXTERNALIZED_CHECKPOINTS",
			Why: "what made the job fail can be mended, and then the same `run` goes on"},
		{Name: "num-retained", Kind: Int, Default: "3", Min: 1, Max: 10000, Doc: "How many completed checkpoints are kept.", Flink: "execution.checkpointing.num-retained", FlinkDefault: "1",
			Why: "if the newest cannot be read, an older one can be chosen"},
		{Name: "storage", Kind: Enum, Default: "filesystem", Values: []string{"filesystem", "coordinator"}, Doc: "`filesystem` writes files below `dir`; `coordinator` keeps everything in the data folder of the coordinator's node, at most 5 MiB per state.", Flink: "execution.checkpointing.storage", FlinkDefault: "jobmanager",
			Why: "checkpoints should survive the process without a further setting"},
		{Name: "dir", Kind: Path, Doc: "The folder for checkpoints. `run` uses `checkpoints` in its data folder if it is unset.", Flink: "execution.checkpointing.dir", FlinkDefault: "unset"},
		{Name: "savepoint-dir", Kind: Path, Doc: "Not used by the commands of this version (CW111): the folder for savepoints where a request names none.", Flink: "execution.checkpointing.savepoint-dir", FlinkDefault: "unset"},
		{Name: "inline-threshold", Kind: Size, Default: "20KiB", Min: 0, Max: 1 << 20, Doc: "State below this size is written into the metadata file.", Flink: "execution.checkpointing.data-inline-threshold", FlinkDefault: "20 kb"},
		{Name: "incremental", Kind: Bool, Default: "false", Doc: "Checkpoints write what changed since the last one.", Flink: "execution.checkpointing.incremental", FlinkDefault: "false"},
		{Name: "after-tasks-finish", Kind: Bool, Default: "true", Doc: "Checkpoints go on when some tasks have finished, and a last one commits the output of a bounded job.", Flink: "execution.checkpointing.checkpoints-after-tasks-finish", FlinkDefault: "true"},
	},
}

var stateSection = &Section{
	Name: "state", Path: "state", Doc: "Where keyed state is, and from where it is restored.",
	Keys: []Key{
		{Name: "backend", Kind: Enum, Default: "heap", Values: []string{"heap", "bolt"}, Doc: "`heap` keeps state in memory; `bolt` keeps a bounded part in memory and the rest in a file.", Flink: "state.backend.type", FlinkDefault: "hashmap"},
		{Name: "local-recovery", Kind: Bool, Default: "false", Doc: "Each node keeps copies of the keyed state that its tasks write to checkpoints, on its own disk: as much again as one checkpoint, two while one is written. A task that is started again on its node reads them instead of `dir`. Without effect where `storage` is `coordinator`.", Flink: "execution.state-recovery.from-local", FlinkDefault: "false"},
	},
}

var restartSection = &Section{
	Name: "restart", Path: "restart", Doc: "A failed job restarts from its newest completed checkpoint. A failure that no restart can mend ends it at once, whatever the strategy: a record that cannot be read or fails an expression, files of another job in an output folder, an input file that is gone or was changed. When the cause is mended, the same `run` goes on from there.",
	Keys: []Key{
		{Name: "strategy", Kind: Enum, Default: "exponential-delay", Values: []string{"exponential-delay", "fixed-delay", "failure-rate", "none"}, Doc: "When to restart, and when to give up.", Flink: "restart-strategy.type", FlinkDefault: "exponential-delay with checkpointing, else none",
			Why: "a job without checkpoints restarts too: from its first record"},
		{Name: "initial-backoff", Kind: Duration, Default: "50ms", Min: 1, Max: maxMs, Doc: "exponential-delay: the wait before the second restart; the first is immediate.", Flink: "restart-strategy.exponential-delay.initial-backoff", FlinkDefault: "1 s",
			Why: "restarting takes milliseconds here, and most failures do not repeat"},
		{Name: "max-backoff", Kind: Duration, Default: "1m", Min: 1, Max: maxMs, Doc: "exponential-delay: the longest wait.", Flink: "restart-strategy.exponential-delay.max-backoff", FlinkDefault: "1 min"},
		{Name: "backoff-multiplier", Kind: Float, Default: "1.5", Min: 1, Max: 1000, Doc: "exponential-delay: how the wait grows.", Flink: "restart-strategy.exponential-delay.backoff-multiplier", FlinkDefault: "1.5"},
		{Name: "jitter", Kind: Float, Default: "0.1", Min: 0, Max: 1, Doc: "exponential-delay: the random share by which a wait differs; below 1.", Flink: "restart-strategy.exponential-delay.jitter-factor", FlinkDefault: "0.1"},
		{Name: "reset-after", Kind: Duration, Default: "1h", Min: 0, Max: maxMs, Doc: "exponential-delay: after this time without a failure the waits start anew.", Flink: "restart-strategy.exponential-delay.reset-backoff-threshold", FlinkDefault: "1 h"},
		{Name: "attempts", Kind: Int, Default: "1", Min: 1, Max: 1 << 31, Doc: "fixed-delay: how many restarts before the job fails.", Flink: "restart-strategy.fixed-delay.attempts", FlinkDefault: "1"},
		{Name: "delay", Kind: Duration, Default: "1s", Min: 0, Max: maxMs, Doc: "fixed-delay and failure-rate: the wait before each restart.", Flink: "restart-strategy.fixed-delay.delay", FlinkDefault: "1 s"},
		{Name: "max-failures", Kind: Int, Default: "1", Min: 1, Max: 1 << 31, Doc: "failure-rate: how many failures within `interval` are borne.", Flink: "restart-strategy.failure-rate.max-failures-per-interval", FlinkDefault: "1"},
		{Name: "interval", Kind: Duration, Default: "1m", Min: 1, Max: maxMs, Doc: "failure-rate: the time in which failures are counted.", Flink: "restart-strategy.failure-rate.failure-rate-interval", FlinkDefault: "1 min"},
	},
}

var operatorSection = &Section{
	Name: "operator", Path: "operators[]", Doc: "One operator. What it does is said by one of the keys `source`, `filter`, `map`, `aggregate`, `process` and `sink`; one with several inputs and none of these is their union.",
	Keys: []Key{
		{Name: "uid", Kind: UID, Required: true, Doc: "The operator's name, by which its state is found again: a lower-case letter, then lower-case letters, digits and hyphens."},
		{Name: "input", Kind: Names, Doc: "The uid of the operator that is read, or a list of them for a union. `uid.late` reads the records that came too late for the windows of `uid`, with the fields of its input, and `uid.malformed` those that a source could not read."},
		{Name: "parallelism", Kind: Int, Min: 1, Max: maxParallelism, Doc: "How many subtasks this operator has; unset means the job's parallelism."},
		{Name: "source", Kind: Connector, Doc: "Reads records from outside: the name of a connector and its options."},
		{Name: "event-time", Kind: Block, Section: eventTimeSection, Doc: "Where a source's event time comes from."},
		{Name: "filter", Kind: Expression, Doc: "Keeps the records for which the condition is true."},
		{Name: "map", Kind: Expressions, Doc: "Makes a new record of these fields, in this order."},
		{Name: "on-error", Kind: Enum, Default: "fail", Values: []string{"fail", "skip"}, Doc: "What a filter, map or aggregate does with a record for which an expression fails, such as an int overflow: it fails the job, or leaves the record out and counts it. The count is for people: what is read again after a failure counts again."},
		{Name: "key-by", Kind: Names, Doc: "The field or fields whose values group the records of an aggregate or process."},
		{Name: "window", Kind: Block, Section: windowSection, Doc: "Divides the records of an aggregate by event time; without it, each record emits the aggregates so far."},
		{Name: "aggregate", Kind: Expressions, Doc: "Aggregates of the records of a key, by name: count(), sum(x), min(x), max(x), avg(x), each with an optional condition."},
		{Name: "process", Kind: String, Doc: "An operator written in Go and registered under this name by the program that runs the topology."},
		{Name: "schema", Kind: Schema, Doc: "The fields that `process` emits; unset means those that the operator declares or, if it declares none, those that it reads."},
		{Name: "sink", Kind: Connector, Doc: "Writes records to the outside: the name of a connector and its options."},
	},
}

var eventTimeSection = &Section{
	Name: "event-time", Path: "operators[].event-time", Doc: "Event time and watermarks of a source.",
	Keys: []Key{
		{Name: "field", Kind: String, Required: true, Doc: "The timestamp field that holds a record's event time."},
		{Name: "max-out-of-orderness", Kind: Duration, Default: "0s", Min: 0, Max: maxMs, Doc: "How far the watermark stays behind the newest event time; records that are later than this are late."},
		{Name: "idleness", Kind: Duration, Min: 1, Max: maxMs, Doc: "A part of the input that brings no record for so long holds the watermark of the others no more, until its next record; that may be late then. Unset means it holds for ever."},
	},
}

var windowSection = &Section{
	Name: "window", Path: "operators[].window", Doc: "Exactly one of `tumbling` and `sliding`.",
	Keys: []Key{
		{Name: "tumbling", Kind: Duration, Min: 1, Max: maxMs, Doc: "Windows of this length, one after the other, aligned to 1970-01-01 UTC."},
		{Name: "sliding", Kind: Block, Section: slidingSection, Doc: "Windows that overlap."},
		{Name: "offset", Kind: Duration, Default: "0s", Min: 0, Max: maxMs, Doc: "Shifts the windows: with 5h, days begin at 05:00 UTC."},
		{Name: "allowed-lateness", Kind: Duration, Default: "0s", Min: 0, Max: maxMs, Doc: "How long after its end a window still takes records and emits again. Later records go to `uid.late`, or are dropped and counted."},
	},
}

var slidingSection = &Section{
	Name: "sliding", Path: "operators[].window.sliding", Doc: "A window of `size` starts at every multiple of `slide`.",
	Keys: []Key{
		{Name: "size", Kind: Duration, Required: true, Min: 1, Max: maxMs, Doc: "The length of a window."},
		{Name: "slide", Kind: Duration, Required: true, Min: 1, Max: maxMs, Doc: "The time between the starts of two windows; it divides the size."},
	},
}

// sections lists all of them, outermost first.
var sections = []*Section{topologySection, checkpointingSection, stateSection, restartSection,
	operatorSection, eventTimeSection, windowSection, slidingSection}

// sourceKeys stand among the options of every source connector.
var sourceKeys = []Key{
	{Name: "rate", Kind: Float, Min: 0, Max: 1 << 40, Doc: "At most so many records per second for the whole job; unset means as fast as possible. Each subtask has an equal share, so a file of one split, which one subtask reads, comes at its share."},
	{Name: "malformed", Kind: Enum, Default: "fail", Values: []string{"fail", "skip", "side"}, Doc: "A record that cannot be read fails the job, is skipped and counted, or goes to the side output `uid.malformed`, whose fields are `location` (the file), `offset` (in bytes), `line`, `problem` and `raw` (its text; of one above `max-record-size` the start)."},
}

var optionKinds = map[catalog.OptionKind]Kind{
	catalog.StringOption: String, catalog.IntOption: Int, catalog.FloatOption: Float, catalog.BoolOption: Bool,
	catalog.DurationOption: Duration, catalog.SizeOption: Size, catalog.PathOption: Path, catalog.SchemaOption: Schema, catalog.EnumOption: Enum,
}

// connectorSection turns a connector's options into a section.
func connectorSection(path, name, doc string, options []catalog.Option, more []Key) *Section {
	s := &Section{Name: name, Path: path + "." + name, Doc: doc}
	for _, o := range options {
		s.Keys = append(s.Keys, Key{Name: o.Name, Kind: optionKinds[o.Kind], Required: o.Required, Default: o.Default, Values: o.Values, Doc: o.Doc})
	}
	for _, k := range more {
		if s.key(k.Name) == nil {
			s.Keys = append(s.Keys, k)
		}
	}
	return s
}

func sourceSection(s catalog.SourceSpec) *Section {
	return connectorSection("operators[].source", s.Name, s.Doc, s.Options, sourceKeys)
}

func sinkSection(s catalog.SinkSpec) *Section {
	return connectorSection("operators[].sink", s.Name, s.Doc, s.Options, nil)
}

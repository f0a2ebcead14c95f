package topology

// Rule is something that a topology is checked for.
type Rule struct {
	ID       string
	Severity Severity
	// Title is half a sentence: what is found.
	Title string
	// Doc says why it matters and what to do.
	Doc string
}

// Rules lists every rule, for docs/lint.md.
func Rules() []Rule { return rules }

const (
	ruleSyntax        = "CW001"
	ruleUnknownKey    = "CW002"
	ruleValue         = "CW003"
	ruleDuplicateKey  = "CW004"
	ruleMissingKey    = "CW005"
	ruleUid           = "CW006"
	ruleInput         = "CW007"
	ruleCycle         = "CW008"
	ruleVariable      = "CW009"
	ruleQuote         = "CW010"
	ruleExpression    = "CW011"
	ruleParallelism   = "CW012"
	ruleOperator      = "CW013"
	ruleEventTime     = "CW014"
	ruleConnector     = "CW015"
	ruleSettings      = "CW016"
	ruleProcess       = "CW017"
	ruleUnaligned     = "CW018"
	ruleSize          = "CW019"
	ruleNoCheckpoints = "CW101"
	ruleSinkWaits     = "CW102"
	ruleUnused        = "CW103"
	rulePause         = "CW104"
	ruleConcurrent    = "CW105"
	ruleStateLimit    = "CW107"
	ruleSecret        = "CW108"
	ruleRestart       = "CW109"
	ruleUnusedTime    = "CW110"
	ruleNoEffect      = "CW111"
)

var rules = []Rule{
	{ruleSyntax, Error, "the file is not YAML",
		"The parser stops at the first such place. A value that starts with `{`, `[`, `*`, `&`, `!`, `%`, `@` or a backquote, or that has `: ` or ` #` in it, must stand in quotes. Anchors, aliases and tags are not used in a topology. A file has at most 4 MiB, 32 levels and 1,000 keys in one map."},
	{ruleUnknownKey, Error, "a key that does not exist",
		"Keys are never ignored: a misspelt `intervall` would otherwise leave checkpointing off without a word."},
	{ruleValue, Error, "a value of the wrong type or out of range",
		"docs/configuration.md lists the type and the range of each key."},
	{ruleDuplicateKey, Error, "a key that stands twice in one block",
		"Only one of them could count. Remove the other."},
	{ruleMissingKey, Error, "a key that is required",
		"The message says which key and where."},
	{ruleUid, Error, "a uid that is missing, malformed or used twice",
		"State is found again by the uid of its operator, so each operator needs its own: a lower-case letter, then lower-case letters, digits and hyphens."},
	{ruleInput, Error, "an input that does not exist or does not fit",
		"An input is the uid of another operator, or `uid.late` and `uid.malformed` for side outputs. A sink has no output to read."},
	{ruleCycle, Error, "operators that read each other in a circle",
		"A topology has no loops. Break the circle at the operator that the message names."},
	{ruleVariable, Error, "a variable that is not set or is malformed",
		"Set it in the environment or give a default: `${NAME:-default}`. `$$` stands for a dollar sign."},
	{ruleQuote, Error, "parentheses or quotes that a flow map has cut",
		"Inside `{...}` a comma ends the value, also within parentheses: `{x: sum(a, b)}` is read as `x: sum(a` and `b)`. Put the expression in quotes."},
	{ruleExpression, Error, "an expression or an aggregate that cannot be compiled",
		"Expressions are checked against the fields of the operator's input. The caret stands under the place."},
	{ruleParallelism, Error, "a parallelism above the maximum",
		"Keyed state is divided into max-parallelism key groups, and a subtask needs at least one."},
	{ruleOperator, Error, "an operator that does nothing, or two things at once",
		"An operator has one of the keys source, filter, map, aggregate, process and sink, or several inputs and none of these, which makes it a union."},
	{ruleEventTime, Error, "a window over records without event time",
		"Windows close when the watermark passes their end, and watermarks come from `event-time` of the source. Without it no window would ever close before the end of the input."},
	{ruleConnector, Error, "a connector that does not exist or refuses its options",
		"A source or sink names one connector of this program; docs/connectors.md lists them with their options."},
	{ruleSettings, Error, "settings that exclude each other",
		"A longest wait cannot be below the first, and two sinks cannot write to the same place."},
	{ruleProcess, Error, "a process that is not registered or does not fit",
		"An operator written in Go is known only to the program that registers it with `stream.RegisterProcess`: lint and run the topology with that program, see examples/process. The operator itself says whether it works by key, which fields it needs and which it emits."},
	{ruleUnaligned, Error, "unaligned checkpoints",
		"Barriers that overtake records are designed and not built: checkpoints are aligned, and under back-pressure one takes as long as the records in front of it. A key that had no effect would promise something else, so it is refused. Remove it; if checkpoints expire, raise `checkpointing.timeout`."},
	{ruleSize, Error, "more tasks or channels than a job may have",
		"An exchange has a channel for each pair of subtasks, so its cost grows with the product of the two parallelisms, and every start and restart pays it: 25 microseconds of CPU time and 2 KB each. At the limit of 100,000 channels, which is parallelism 316 on both sides of one exchange, a start takes a few seconds of one core. The limit on tasks is 10,000. Lower the parallelism of one side; more subtasks than cores do not make a job faster."},
	{ruleNoCheckpoints, Warning, "checkpointing is off",
		"Without `checkpointing.interval` a failure starts the job again from its first record."},
	{ruleSinkWaits, Warning, "a sink that shows nothing until the job ends",
		"Output becomes visible when a checkpoint completes. With checkpointing off that is only the last one, at the end of a bounded input."},
	{ruleUnused, Warning, "an operator whose output nobody reads",
		"Its work is thrown away. Add a sink, or remove it."},
	{rulePause, Warning, "min-pause is not shorter than interval",
		"The pause after each checkpoint then decides how often one starts, and the interval has no effect."},
	{ruleConcurrent, Warning, "max-concurrent above 1 together with min-pause",
		"A pause between checkpoints means that they never overlap, so max-concurrent has no effect."},
	{ruleStateLimit, Warning, "the bolt backend with storage in the coordinator",
		"The bolt backend is for large state; storage `coordinator` declines a checkpoint with more than 5 MiB of one state. Use storage `filesystem`."},
	{ruleSecret, Warning, "a secret in plain text",
		"The file is copied to every node and shown by commands. Take it from the environment: `${NAME}`."},
	{ruleRestart, Warning, "a restart key that its strategy does not use",
		"The key has no effect. Remove it, or choose the strategy that it belongs to."},
	{ruleUnusedTime, Warning, "event time that nothing uses",
		"No window or process operator reads from this source, so its watermarks have no effect."},
	{ruleNoEffect, Warning, "a key that this version does not use",
		"`savepoint-dir` is where savepoints go that are asked for without a folder, and no command asks for savepoints yet. Nothing is lost by leaving it in."},
}

func severityOf(id string) Severity {
	for _, r := range rules {
		if r.ID == id {
			return r.Severity
		}
	}
	return Error
}

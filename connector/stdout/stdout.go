// Package stdout is the sink "stdout": rows as JSON lines on standard output, for
// first steps and pipes. With several nodes each prints what its subtasks wrote.
//
// By default rows are printed when their checkpoint is complete. Until then they
// are part of the checkpoint, so this is for small output: at most MaxPartBytes
// between two checkpoints. A terminal cannot be asked what it has shown: when the
// process dies between printing and noting it, the rows of that one checkpoint are
// printed again by the next process. Within a process each row is printed once.
//
// With when: at-once rows are printed as they come, and again after each restart
// from a checkpoint: at least once.
package stdout

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"

	"cutwater/connector/internal/once"
	"cutwater/connector/rowtext"
	"cutwater/messages"
	"cutwater/stream"
	"cutwater/stream/catalog"
	"cutwater/stream/row"
)

// MaxPartBytes is the most that one subtask may write between two checkpoints.
const MaxPartBytes = 4 << 20

// Printer is the output that the sinks of a process share.
type Printer struct {
	committed once.Log

	mu  sync.Mutex
	out io.Writer
}

// NewPrinter prints to out.
func NewPrinter(out io.Writer) *Printer { return &Printer{out: out} }

func (p *Printer) print(lines []byte) error {
	if len(lines) == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := p.out.Write(lines); err != nil {
		return fmt.Errorf("stdout sink: print: %w: is the reader of the pipe still there?", err)
	}
	return nil
}

// Sink implements stream.Sink.
type Sink struct {
	printer *Printer
	encoder *rowtext.Encoder
	atOnce  bool
}

var _ stream.Sink[row.Row] = (*Sink)(nil)

// New returns a sink of rows of the schema. With atOnce they are printed before
// their checkpoint is complete.
func New(p *Printer, schema *row.Schema, atOnce bool) *Sink {
	return &Sink{printer: p, encoder: rowtext.JSON(schema), atOnce: atOnce}
}

// Start implements stream.Sink: there is nothing to check or to sweep.
func (s *Sink) Start(context.Context, stream.SinkContext, []*messages.Committable) error { return nil }

// NewWriter implements stream.Sink.
func (s *Sink) NewWriter(c stream.SinkContext) (stream.SinkWriter[row.Row], error) {
	return &writer{sink: s, context: c}, nil
}

// Commit implements stream.Sink: the payload is what is printed.
func (s *Sink) Commit(_ context.Context, _ stream.SinkContext, c *messages.Committable) error {
	return s.printer.committed.Do(c, func() error { return s.printer.print(c.GetPayload()) })
}

// Abort implements stream.Sink: a committable that is forgotten is gone.
func (s *Sink) Abort(context.Context, stream.SinkContext, *messages.Committable) error { return nil }

// writer collects the lines of one part.
type writer struct {
	sink    *Sink
	context stream.SinkContext
	lines   []byte
}

// Write implements stream.SinkWriter.
func (w *writer) Write(v row.Row, _ int64) error {
	w.lines = w.sink.encoder.Append(w.lines, v)
	if !w.sink.atOnce && len(w.lines) > MaxPartBytes {
		return fmt.Errorf("stdout sink %q: subtask %d wrote more than %d bytes since the last checkpoint: use the file sink, a shorter checkpointing.interval, or when: at-once",
			w.context.Uid, w.context.Subtask, MaxPartBytes)
	}
	return nil
}

// Buffered implements stream.SinkWriter: what waits for its checkpoint does not
// wait for a flush.
func (w *writer) Buffered() int {
	if w.sink.atOnce {
		return len(w.lines)
	}
	return 0
}

// Flush implements stream.SinkWriter.
func (w *writer) Flush() func(context.Context) error {
	if !w.sink.atOnce {
		return func(context.Context) error { return nil }
	}
	lines := w.take()
	return func(context.Context) error { return w.sink.printer.print(lines) }
}

// FlushAfterMs implements stream.PromptWriter.
func (w *writer) FlushAfterMs() int64 {
	if w.sink.atOnce {
		return 10
	}
	return 0
}

// Prepare implements stream.SinkWriter.
func (w *writer) Prepare(checkpoint uint64) func(context.Context) ([]*messages.Committable, error) {
	lines := w.take()
	return func(context.Context) ([]*messages.Committable, error) {
		if w.sink.atOnce {
			return nil, w.sink.printer.print(lines)
		}
		if len(lines) == 0 {
			return nil, nil
		}
		return []*messages.Committable{{
			Job:         w.context.Job,
			Incarnation: w.context.Incarnation,
			Checkpoint:  checkpoint,
			Uid:         w.context.Uid,
			Subtask:     uint32(w.context.Subtask),
			Payload:     lines,
		}}, nil
	}
}

func (w *writer) take() []byte {
	lines := w.lines
	w.lines = nil
	return lines
}

// Close implements stream.SinkWriter.
func (w *writer) Close() error { return nil }

// Spec describes the sink "stdout" of a topology.yaml. All sinks made by one Spec
// share the standard output of the process.
func Spec() catalog.SinkSpec {
	printer := NewPrinter(os.Stdout)
	return catalog.SinkSpec{
		Name: "stdout",
		Doc:  "Rows as JSON lines on standard output, for small output and first steps.",
		Options: []catalog.Option{
			{Name: "when", Kind: catalog.EnumOption, Default: "commit", Values: []string{"commit", "at-once"}, Doc: "commit prints rows when their checkpoint is complete; at-once prints them as they come, and again after a restart."},
		},
		New: func(v catalog.Values) (stream.Sink[row.Row], error) {
			when := v.Strings["when"]
			if when != "" && when != "commit" && when != "at-once" {
				return nil, fmt.Errorf("stdout sink: when: %q is unknown: use commit or at-once", when)
			}
			if v.Schema == nil {
				return nil, fmt.Errorf("stdout sink: its input has no fields")
			}
			return New(printer, v.Schema, when == "at-once"), nil
		},
	}
}

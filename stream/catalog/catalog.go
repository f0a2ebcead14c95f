// Package catalog lists the connectors that a topology.yaml can name, with their
// options, so that the loader, the JSON schema and the documentation all come
// from one table.
package catalog

import (
	"cutwater/stream"
	"cutwater/stream/row"
)

// OptionKind is the type of an option's value.
type OptionKind uint8

// Kinds of options.
const (
	StringOption OptionKind = iota
	IntOption
	FloatOption
	BoolOption
	DurationOption // "1s"; value in ms
	SizeOption     // "64KiB"; value in bytes
	PathOption     // a string, relative to the topology's folder
	SchemaOption   // the columns
	EnumOption
)

// Option is one key of a connector.
type Option struct {
	Name     string
	Kind     OptionKind
	Required bool
	// Default is shown in the documentation and used when the key is missing.
	Default string
	// Values are the allowed ones of an EnumOption.
	Values []string
	// Doc is one sentence.
	Doc string
}

// Values are the validated options of one use of a connector.
type Values struct {
	Uid     string
	Strings map[string]string // StringOption, PathOption, EnumOption
	Ints    map[string]int64  // IntOption, DurationOption, SizeOption
	Floats  map[string]float64
	Bools   map[string]bool
	Schema  *row.Schema // of a source; for a sink, of its input
}

// SourceSpec is a kind of source, such as "file".
type SourceSpec struct {
	Name    string
	Doc     string
	Options []Option
	New     func(Values) (stream.Source[row.Row], error)
	// Schema returns the columns of a source without a schema option, or nil.
	Schema func(Values) (*row.Schema, error)
}

// SinkSpec is a kind of sink.
type SinkSpec struct {
	Name    string
	Doc     string
	Options []Option
	New     func(Values) (stream.Sink[row.Row], error)
}

// Catalog is what a node offers.
type Catalog struct {
	Sources []SourceSpec
	Sinks   []SinkSpec
}

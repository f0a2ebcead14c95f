// Package row has the record type of topologies that are written as YAML: a row
// of named, typed fields.
package row

// Kind is the type of a field.
type Kind uint8

// The kinds of fields. A null is a value of every kind.
const (
	Null Kind = iota
	Int
	Float
	String
	Bool
	// Timestamp is milliseconds since 1970, UTC.
	Timestamp
	Bytes
	// List is a list of scalars, kept as JSON text.
	List
)

// Field is one column.
type Field struct {
	Name string
	Kind Kind
	// Layout is how a timestamp is written, in the notation of package time;
	// empty means RFC 3339.
	Layout string
}

// Schema is the order of the columns.
type Schema struct{ Fields []Field }

// Row is one record. Numbers, bools and timestamps are in cells; a cell of a
// text kind (String, Bytes, List) is offset<<32|length into Text. A bit in Nulls marks a null; fields
// 64 and above are never null, so a schema has at most 64 nullable fields.
// Cells belongs to whoever made the row and is valid for the call only.
type Row struct {
	Cells []uint64
	Nulls uint64
	Text  string
}

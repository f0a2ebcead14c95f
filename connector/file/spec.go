package file

import (
	"fmt"

	"cutwater/stream"
	"cutwater/stream/catalog"
	"cutwater/stream/row"
)

// Spec describes the source "file" of a topology.yaml.
func Spec() catalog.SourceSpec {
	return catalog.SourceSpec{
		Name: "file",
		Doc:  "Rows from CSV or JSON Lines files.",
		Options: []catalog.Option{
			{Name: "path", Kind: catalog.PathOption, Required: true, Doc: "A file, or several by a pattern with *, ? and []. They are listed once, when the job starts empty; after that a changed path says where they were moved to, and one that means other files is an error."},
			{Name: "format", Kind: catalog.EnumOption, Default: "csv", Values: []string{"csv", "jsonl"}, Doc: "How records are written: csv is RFC 4180, where an empty field is null, or in a string column the empty text; jsonl is one JSON object a line, where an absent field is null."},
			{Name: "schema", Kind: catalog.SchemaOption, Required: true, Doc: "The fields to read, found by name, with their types."},
			{Name: "header", Kind: catalog.BoolOption, Default: "true", Doc: "Whether the first line of a CSV file names the columns; without a header they are those of the schema, in its order."},
			{Name: "delimiter", Kind: catalog.StringOption, Default: ",", Doc: "What stands between the fields of a CSV record: one ASCII character."},
			{Name: "split-size", Kind: catalog.SizeOption, Default: "16MiB", Doc: "Size of the parts of a file that are read in parallel."},
			{Name: "max-record-size", Kind: catalog.SizeOption, Default: "32MiB", Doc: "A longer record is malformed."},
			{Name: "files", Kind: catalog.EnumOption, Default: "unordered", Values: []string{"unordered", "in-order"}, Doc: "Whether the files, sorted by name, continue one another in event time; unordered ones hold the watermark until each was opened."},
		},
		New: func(v catalog.Values) (stream.Source[row.Row], error) {
			c, err := configOf(v)
			if err != nil {
				return nil, err
			}
			return New(c)
		},
	}
}

// configOf reads the options; missing ones have their defaults.
func configOf(v catalog.Values) (Config, error) {
	c := Config{
		Path:               v.Strings["path"],
		Format:             Format(v.Strings["format"]),
		Schema:             v.Schema,
		SplitSizeBytes:     v.Ints["split-size"],
		MaxRecordSizeBytes: v.Ints["max-record-size"],
		InOrder:            v.Strings["files"] == "in-order",
	}
	if header, ok := v.Bools["header"]; ok {
		c.NoHeader = !header
	}
	if d, ok := v.Strings["delimiter"]; ok {
		if len(d) != 1 {
			return c, fmt.Errorf("file source: delimiter %q is not one ASCII character, such as \",\" or \"\\t\"", d)
		}
		c.Delimiter = d[0]
	}
	return c, nil
}

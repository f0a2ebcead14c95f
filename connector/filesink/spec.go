package filesink

import (
	"cutwater/stream"
	"cutwater/stream/catalog"
	"cutwater/stream/row"
)

// Spec describes the sink "file" of a topology.yaml.
func Spec() catalog.SinkSpec {
	return catalog.SinkSpec{
		Name: "file",
		Doc:  "Rows to CSV or JSON Lines files, each row exactly once: files appear when their checkpoint is complete.",
		Options: []catalog.Option{
			{Name: "path", Kind: catalog.PathOption, Required: true, Doc: "The folder of the files; it is made if it is missing, and all nodes must see it."},
			{Name: "format", Kind: catalog.EnumOption, Default: string(CSV), Values: []string{string(CSV), string(JSONL)}, Doc: "How rows are written: csv is RFC 4180 with a header in each file, jsonl is one JSON object a line."},
			{Name: "allow-foreign", Kind: catalog.BoolOption, Default: "false", Doc: "Start even if the folder holds files of another job, and leave them alone."},
		},
		New: func(v catalog.Values) (stream.Sink[row.Row], error) {
			format := Format(v.Strings["format"])
			if format == "" {
				format = CSV
			}
			return New(Config{Dir: v.Strings["path"], Format: format, AllowForeign: v.Bools["allow-foreign"], Schema: v.Schema})
		},
	}
}

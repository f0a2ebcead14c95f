package topology

import (
	"regexp"
	"slices"
	"time"

	"cutwater/stream/row"
	"cutwater/topology/expression"
)

// schema reads fields and their types: a name, or {timestamp: layout}.
func (r *resolver) schema(n *node) *row.Schema {
	if n == nil {
		return nil
	}
	out := &row.Schema{}
	ok := len(n.entries) > 0
	if !ok {
		r.add(ruleValue, n.at, "the schema is empty; name at least one field and its type")
	}
	for _, e := range n.entries {
		ok = r.field(e.key, e.at, out) && ok
		f := row.Field{Name: e.key}
		name, v := "", e.value
		switch {
		case v.shape == scalar:
			name = v.text
		case v.shape == mapping && len(v.entries) == 1 && v.entries[0].key == "timestamp" && v.entries[0].value.shape == scalar:
			name, f.Layout = "timestamp", v.entries[0].value.text
			if !isLayout(f.Layout) {
				r.add(ruleValue, v.entries[0].value.at, "%q is no layout; write the time 2006-01-02 15:04:05 the way that your timestamps are written", f.Layout)
				ok = false
			}
		}
		kind := slices.Index(typeNames, name)
		if kind < 0 {
			r.add(ruleValue, v.at, "the type of %q must be one of %s, or {timestamp: \"2006-01-02 15:04:05\"}%s", e.key, list(typeNames, "and"), suggest(name, typeNames))
			ok = false
			continue
		}
		f.Kind = typeKinds[kind]
		out.Fields = append(out.Fields, f)
	}
	if !ok {
		return nil
	}
	return out
}

var (
	typeKinds = []row.Kind{row.Int, row.Float, row.String, row.Bool, row.Timestamp, row.Bytes, row.List}
	typeNames = func() []string {
		names := make([]string, len(typeKinds))
		for i, k := range typeKinds {
			names[i] = expression.KindName(k)
		}
		return names
	}()
)

// isLayout tells whether a layout keeps at least the day of a time.
func isLayout(layout string) bool {
	day := time.Date(2014, 11, 27, 0, 0, 0, 0, time.UTC)
	t, err := time.Parse(layout, day.Format(layout))
	return err == nil && t.UTC().Equal(day)
}

func fieldIndex(s *row.Schema, name string) int {
	return slices.IndexFunc(s.Fields, func(f row.Field) bool { return f.Name == name })
}

func fieldNames(s *row.Schema) []string {
	names := make([]string, len(s.Fields))
	for i, f := range s.Fields {
		names[i] = f.Name
	}
	return names
}

func sameColumns(a, b *row.Schema) bool {
	return slices.EqualFunc(a.Fields, b.Fields, func(x, y row.Field) bool { return x.Name == y.Name && x.Kind == y.Kind })
}

// columns shows a schema: {origin: string, delay: int}.
func columns(s *row.Schema) string {
	text := "{"
	for i, f := range s.Fields {
		if i > 0 {
			text += ", "
		}
		text += f.Name + ": " + expression.KindName(f.Kind)
	}
	return text + "}"
}

var fieldPattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// reserved are the words of expressions, which cannot be names of fields.
var reserved = []string{"and", "or", "not", "in", "matches", "contains", "startsWith", "endsWith", "let", "if", "else", "nil", "true", "false"}

// maxFields is how many fields can be null.
const maxFields = 64

// field checks the name of a new field.
func (r *resolver) field(name string, at Position, schema *row.Schema) bool {
	switch {
	case !fieldPattern.MatchString(name):
		r.add(ruleValue, at, "%q cannot be the name of a field: a letter or _, then letters, digits and _", name)
	case slices.Contains(reserved, name):
		r.add(ruleValue, at, "%q cannot be the name of a field: it is a word of expressions", name)
	case fieldIndex(schema, name) >= 0:
		r.add(ruleDuplicateKey, at, "the output has two fields %q; rename one", name)
	case len(schema.Fields) == maxFields:
		r.add(ruleValue, at, "a record has at most %d fields", maxFields)
	default:
		return true
	}
	return false
}

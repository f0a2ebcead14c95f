package topology

import (
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// block is a map of the file, checked against its section.
type block struct {
	node   *node
	values map[string]value
}

// value is a scalar of a known kind, or a block, or a node to be read later.
type value struct {
	node  *node
	at    Position // of the key
	text  string
	int   int64 // Int, Duration in ms, Size in bytes
	float float64
	bool  bool
	names []*node
	block *block
	list  []*block
}

// has reports whether the key stands in the file.
func (b *block) has(key string) bool {
	if b == nil {
		return false
	}
	v, ok := b.values[key]
	return ok && v.node != nil
}

// at is the place of a key, or of the block if the key does not stand in it.
func (b *block) at(key string) Position {
	if b.has(key) {
		return b.values[key].at
	}
	return b.node.at
}

// value returns the value of a key or its default.
func (b *block) value(key string) value { return b.values[key] }

// decoder checks nodes against the table and reports what does not fit.
type decoder struct {
	*reporter
	dir string
}

// defaultsOf returns a block in which every key has its default.
func (d *decoder) defaultsOf(s *Section) *block {
	b := &block{values: map[string]value{}}
	for i := range s.Keys {
		k := &s.Keys[i]
		var v value
		if k.Default != "" {
			// Defaults are correct: a test decodes them all.
			_ = parseScalar(k, k.Default, &v)
		}
		if k.Kind == Block {
			v.block = d.defaultsOf(k.Section)
		}
		b.values[k.Name] = v
	}
	return b
}

// block decodes a map. A node of another shape gives the defaults.
func (d *decoder) block(n *node, s *Section) *block {
	b := d.defaultsOf(s)
	b.node = n
	if n.shape != mapping {
		if !n.broken {
			d.add(ruleValue, n.at, "%s must be a map with the keys %s, and this is %s", s.Name, list(s.names(), "and"), n.shape)
		}
		return b
	}
	for _, e := range n.entries {
		k := s.key(e.key)
		if k == nil {
			d.add(ruleUnknownKey, e.at, "there is no key %q in %s%s", e.key, s.Name, suggest(e.key, s.names()))
			continue
		}
		if v, ok := d.value(k, e); ok {
			v.node, v.at = e.value, e.at
			b.values[k.Name] = v
		}
	}
	for _, k := range s.Keys {
		if k.Required && n.get(k.Name) == nil {
			rule := ruleMissingKey
			if k.Kind == UID && k.Name == "uid" {
				rule = ruleUid
			}
			d.add(rule, n.at, "%s needs the key %q: %s", s.Name, k.Name, strings.TrimSuffix(lowerFirst(k.Doc), "."))
		}
	}
	return b
}

// value decodes the value of one key.
func (d *decoder) value(k *Key, e entry) (v value, ok bool) {
	n := e.value
	if n.shape == empty {
		if !n.broken {
			d.add(ruleValue, e.at, "%s has no value; give one or remove the key", k.Name)
		}
		return v, false
	}
	switch k.Kind {
	case Block:
		v.block = d.block(n, k.Section)
		return v, true
	case Blocks:
		if n.shape != sequence {
			d.add(ruleValue, n.at, "%s must be a list, each item starting with `- `, and this is %s", k.Name, n.shape)
			return v, false
		}
		for _, item := range n.items {
			v.list = append(v.list, d.block(item, k.Section))
		}
		return v, true
	case Names:
		v.names, ok = d.names(k, n)
		return v, ok
	case Connector, Schema, Expressions:
		if n.shape != mapping {
			d.add(ruleValue, n.at, "%s must be a map, and this is %s", k.Name, n.shape)
			return v, false
		}
		return v, true
	}
	if n.shape != scalar {
		d.add(ruleValue, n.at, "%s must be %s, and this is %s", k.Name, kindPhrase(k), n.shape)
		return v, false
	}
	if problem := parseScalar(k, n.text, &v); problem != "" {
		rule := ruleValue
		if k.Name == "uid" {
			rule = ruleUid
		}
		d.add(rule, n.at, "%s: %s", k.Name, problem)
		return v, false
	}
	if k.Kind == Path {
		v.text = d.resolve(v.text)
	}
	return v, true
}

func (d *decoder) names(k *Key, n *node) ([]*node, bool) {
	items := []*node{n}
	if n.shape == sequence {
		items = n.items
	}
	if len(items) == 0 {
		d.add(ruleValue, n.at, "%s is an empty list; name at least one", k.Name)
		return nil, false
	}
	seen := map[string]bool{}
	for _, item := range items {
		switch {
		case item.shape != scalar:
			d.add(ruleValue, item.at, "%s must be a name or a list of names, and this is %s", k.Name, item.shape)
			return nil, false
		case seen[item.text]:
			d.add(ruleValue, item.at, "%s names %q twice", k.Name, item.text)
			return nil, false
		}
		seen[item.text] = true
	}
	return items, true
}

// resolve makes a path relative to the topology's folder; URLs stay.
func (d *decoder) resolve(path string) string {
	if strings.Contains(path, "://") || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(d.dir, path)
}

var uidPattern = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

// parseScalar reads a text as a value of the key's kind. It returns what is
// wrong, or "".
func parseScalar(k *Key, text string, v *value) (problem string) {
	v.text = text
	bad := func() string { return fmt.Sprintf("%q is not %s", text, kindPhrase(k)) }
	switch k.Kind {
	case Int:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return bad()
		}
		v.int = n
	case Float:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return bad()
		}
		v.float = f
		if k.Max > k.Min && (f < float64(k.Min) || f > float64(k.Max)) {
			return fmt.Sprintf("%v is out of range; from %d to %d", f, k.Min, k.Max)
		}
		return ""
	case Bool:
		if text != "true" && text != "false" {
			return bad()
		}
		v.bool = text == "true"
	case Duration:
		d, err := time.ParseDuration(text)
		if err != nil || d%time.Millisecond != 0 {
			return bad()
		}
		v.int = d.Milliseconds()
	case Size:
		n, ok := parseSize(text)
		if !ok {
			return bad()
		}
		v.int = n
	case Enum:
		if !slices.Contains(k.Values, text) {
			return bad() + suggest(text, k.Values)
		}
	case UID:
		if len(text) > 63 || !uidPattern.MatchString(text) {
			return bad()
		}
	case Path, Expression, String:
		if text == "" {
			return "the text is empty; give a value or remove the key"
		}
	}
	if k.Max > k.Min && (v.int < k.Min || v.int > k.Max) {
		return fmt.Sprintf("%s is out of range; %s", text, rangeOf(k))
	}
	return ""
}

var units = []struct {
	name   string
	factor int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1}, {"", 1}}

func parseSize(text string) (int64, bool) {
	for _, u := range units {
		if number, ok := strings.CutSuffix(text, u.name); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
			return n * u.factor, err == nil && n >= 0 && n <= math.MaxInt64/u.factor
		}
	}
	return 0, false
}

// kindPhrase says what a key's value must be.
func kindPhrase(k *Key) string {
	switch k.Kind {
	case Int:
		return "a whole number"
	case Float:
		return "a number"
	case Bool:
		return "true or false"
	case Duration:
		return "a duration in whole milliseconds, such as 10s, 1m30s or 250ms"
	case Size:
		return "a size, such as 64KiB or 16MiB"
	case Enum:
		return "one of " + list(k.Values, "and")
	case UID:
		return "a name: a lower-case letter, then up to 62 lower-case letters, digits and hyphens"
	case Path:
		return "a path"
	case Expression:
		return "an expression"
	case Names:
		return "a name or a list of names"
	case Schema:
		return "a map of fields and their types"
	}
	return "a text"
}

// rangeOf says what a number may be, or "".
func rangeOf(k *Key) string {
	if k.Max <= k.Min {
		return ""
	}
	show := func(n int64) string {
		switch k.Kind {
		case Duration:
			return (time.Duration(n) * time.Millisecond).String()
		case Size:
			return fmt.Sprintf("%d bytes", n)
		}
		return fmt.Sprint(n)
	}
	if k.Max >= 1<<31 {
		return "at least " + show(k.Min)
	}
	return fmt.Sprintf("from %s to %s", show(k.Min), show(k.Max))
}

// list joins words: `a, b and c`.
func list(words []string, last string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	n := len(words) - 1
	return strings.Join(words[:n], ", ") + " " + last + " " + words[n]
}

func lowerFirst(s string) string { return strings.ToLower(s[:1]) + s[1:] }

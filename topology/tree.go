package topology

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// shape is the form of a node.
type shape uint8

const (
	scalar shape = iota
	mapping
	sequence
	empty // nothing, ~ or null
)

func (s shape) String() string { return [...]string{"a value", "a map", "a list", "nothing"}[s] }

// node is a part of the file, with variables already replaced.
type node struct {
	shape   shape
	at      Position
	text    string // of a scalar
	plain   bool   // a scalar without quotes
	flow    bool   // a map written as {...}
	entries []entry
	items   []*node
	// exact is true if text stands in the file as it is from `at` (after an
	// opening quote), so that a column in it is a column in the file.
	exact bool
	// varied is true if a variable was replaced in it.
	varied bool
	// broken is true if it was already reported: readers say nothing more.
	broken bool
}

// entry is a key of a mapping.
type entry struct {
	key   string
	at    Position
	value *node
}

// place is the position of a character of the text.
func (n *node) place(column int) Position {
	if !n.exact {
		return n.at
	}
	at := n.at
	if !n.plain {
		at.Column++
	}
	at.Column += column
	return at
}

// get returns the value of a key, or nil.
func (n *node) get(key string) *node {
	for _, e := range n.entries {
		if e.key == key {
			return e.value
		}
	}
	return nil
}

// treeOf parses a file. It returns nil if there is nothing to go on with.
func treeOf(src []byte, env func(string) (string, bool), r *reporter) (root *node) {
	defer func() {
		// The parser is not ours: what it cannot bear is an error of the file.
		if p := recover(); p != nil {
			r.add(ruleSyntax, Position{1, 1}, "the YAML parser gave up on this file (%v); look for unusual YAML in it", p)
			root = nil
		}
	}()
	if !utf8.Valid(src) {
		r.add(ruleSyntax, Position{1, 1}, "the file is not UTF-8 text; save it as UTF-8")
		return nil
	}
	if len(src) > maxBytes {
		r.add(ruleSyntax, Position{1, 1}, "the file has %d bytes, and a topology at most %d; is it another file?", len(src), maxBytes)
		return nil
	}
	tokens := lexer.Tokenize(strings.Join(r.lines, "\n"))
	if at, problem := outOfBounds(tokens); problem != "" {
		r.add(ruleSyntax, tokenPosition(at), "%s", problem)
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		r.syntax(err)
		return nil
	}
	b := &treeBuilder{reporter: r, env: env}
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if root != nil {
			r.add(ruleSyntax, positionOf(doc.Body), "a topology is one YAML document; remove what follows `---`")
			continue
		}
		root = b.build(doc.Body, 0)
	}
	if root == nil || root.shape == empty {
		r.add(ruleSyntax, Position{1, 1}, "the file is empty; a topology has at least a name and operators")
		return nil
	}
	return root
}

// syntax reports the parser's error, with the hint that fits most often.
func (r *reporter) syntax(err error) {
	at, message := Position{1, 1}, err.Error()
	var y yaml.Error
	if errors.As(err, &y) && y.GetToken() != nil {
		at = tokenPosition(y.GetToken())
		message = y.GetMessage()
	}
	line := lineAt(r.lines, at)
	switch {
	case strings.HasPrefix(strings.TrimLeft(line, " "), "\t"):
		message = "YAML does not allow tabs as indentation; use spaces"
	case strings.Contains(line, "${") && strings.ContainsAny(line, "{["):
		message += "; quote a variable inside {...}: \"${NAME}\""
	case strings.Contains(message, "mapping value is not allowed"):
		message += "; quote a value that has `: ` in it, and check the indentation"
	case strings.ContainsAny(line, "{["):
		message += "; quote a value with brackets, braces or commas inside {...}"
	}
	r.add(ruleSyntax, at, "%s", message)
}

func tokenPosition(t *token.Token) Position {
	if t.Position == nil {
		return Position{1, 1}
	}
	return Position{max(1, t.Position.Line), max(1, t.Position.Column)}
}

func positionOf(n ast.Node) Position {
	switch n := n.(type) {
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return positionOf(n.Values[0])
		}
	case *ast.MappingValueNode:
		return positionOf(n.Key)
	}
	if t := n.GetToken(); t != nil {
		return tokenPosition(t)
	}
	return Position{1, 1}
}

type treeBuilder struct {
	*reporter
	env func(string) (string, bool)
	// last is a place in the file, and lastByte the byte of its line that stands there:
	// the next place is looked for from there, because a line may be long.
	last     Position
	lastByte int
}

func (b *treeBuilder) build(n ast.Node, depth int) *node {
	at := positionOf(n)
	if depth > maxDepth {
		b.add(ruleSyntax, at, "%s", tooDeep)
		return &node{shape: empty, at: at, broken: true}
	}
	switch n := n.(type) {
	case *ast.NullNode:
		return &node{shape: empty, at: at}
	case *ast.MappingNode:
		return b.mapping(n.Values, n.IsFlowStyle, at, depth)
	case *ast.MappingValueNode:
		return b.mapping([]*ast.MappingValueNode{n}, false, at, depth)
	case *ast.SequenceNode:
		out := &node{shape: sequence, at: at, flow: n.IsFlowStyle}
		for _, item := range n.Values {
			out.items = append(out.items, b.build(item, depth+1))
		}
		return out
	case *ast.LiteralNode:
		out := &node{shape: scalar, at: at, text: strings.TrimRight(n.Value.Value, "\n")}
		b.interpolate(out)
		return out
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode, *ast.MergeKeyNode:
		b.add(ruleSyntax, at, "anchors, aliases, merges and tags are not used in a topology; write the value itself, or quote it")
		return &node{shape: empty, at: at, broken: true}
	}
	t := n.GetToken()
	if t == nil {
		return &node{shape: empty, at: at}
	}
	out := &node{shape: scalar, at: at, text: t.Value}
	out.plain = t.Type != token.DoubleQuoteType && t.Type != token.SingleQuoteType
	out.exact = b.standsAt(out)
	b.interpolate(out)
	return out
}

func (b *treeBuilder) mapping(values []*ast.MappingValueNode, flow bool, at Position, depth int) *node {
	out := &node{shape: mapping, at: at, flow: flow}
	cut := 0 // parentheses still open of a value that a comma has cut
	for _, v := range values {
		key := entry{key: keyText(v.Key), at: positionOf(v.Key)}
		if cut > 0 && v.Value != nil && v.Value.Type() == ast.NullType {
			cut += balance(key.key)
			continue
		}
		if v.Key.IsMergeKey() {
			b.add(ruleSyntax, key.at, "merge keys are not used in a topology; write the keys themselves")
			continue
		}
		if v.Value == nil {
			key.value = &node{shape: empty, at: key.at}
		} else {
			key.value = b.build(v.Value, depth+1)
		}
		if s := key.value; flow && s.shape == scalar && s.plain {
			if cut = balance(s.text); cut != 0 {
				b.add(ruleQuote, s.at, "the parentheses of %q do not match: inside {...} a comma ends the value; quote it", s.text)
				key.value = &node{shape: empty, at: s.at, broken: true}
			}
		}
		if out.get(key.key) != nil {
			b.add(ruleDuplicateKey, key.at, "the key %q stands twice in this block; remove one", key.key)
			continue
		}
		out.entries = append(out.entries, key)
	}
	return out
}

func keyText(k ast.MapKeyNode) string {
	if t := k.GetToken(); t != nil {
		if m, ok := k.(*ast.MappingKeyNode); ok && m.Value != nil && m.Value.GetToken() != nil {
			return m.Value.GetToken().Value
		}
		return t.Value
	}
	return fmt.Sprint(k)
}

// balance counts the parentheses that stay open, outside of quotes.
func balance(text string) int {
	open, quote := 0, rune(0)
	for _, c := range text {
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'' || c == '`':
			quote = c
		case c == '(':
			open++
		case c == ')':
			open--
		}
	}
	return open
}

// standsAt tells whether the text stands in the file as it is.
func (b *treeBuilder) standsAt(n *node) bool {
	at := n.at
	if !n.plain {
		at.Column++
	}
	if at.Line > len(b.lines) || at.Column < 1 {
		return false
	}
	line := b.lines[at.Line-1]
	if b.last.Line != at.Line || b.last.Column > at.Column {
		b.last, b.lastByte = Position{at.Line, 1}, 0
	}
	for ; b.last.Column < at.Column && b.lastByte < len(line); b.last.Column++ {
		_, width := utf8.DecodeRuneInString(line[b.lastByte:])
		b.lastByte += width
	}
	return b.last.Column == at.Column && strings.HasPrefix(line[b.lastByte:], n.text)
}

// interpolate replaces the variables of a scalar.
func (b *treeBuilder) interpolate(n *node) {
	if !strings.Contains(n.text, "$") {
		return
	}
	var out strings.Builder
	rest := n.text
	for {
		i := strings.IndexByte(rest, '$')
		if i < 0 {
			break
		}
		out.WriteString(rest[:i])
		rest = rest[i:]
		switch {
		case strings.HasPrefix(rest, "$$"):
			out.WriteByte('$')
			rest = rest[2:]
			n.exact = false
		case strings.HasPrefix(rest, "${"):
			end := strings.IndexByte(rest, '}')
			if end < 0 {
				b.add(ruleVariable, n.at, "the variable in %q is not closed; write ${NAME} or ${NAME:-default}, and $$ for a dollar sign", n.text)
				n.shape, n.broken = empty, true
				return
			}
			out.WriteString(b.variable(n, rest[2:end]))
			rest = rest[end+1:]
			n.exact, n.varied = false, true
		default: // a lone dollar sign, as in a regular expression
			out.WriteByte('$')
			rest = rest[1:]
		}
	}
	out.WriteString(rest)
	n.text = out.String()
}

func (b *treeBuilder) variable(n *node, inner string) string {
	name, fallback, hasFallback := strings.Cut(inner, ":-")
	if !isVariable(name) {
		b.add(ruleVariable, n.at, "%q is not the name of a variable; write ${NAME} or ${NAME:-default}", name)
		n.shape, n.broken = empty, true
		return ""
	}
	if v, ok := b.env(name); ok && (v != "" || !hasFallback) {
		if !utf8.ValidString(v) {
			b.add(ruleVariable, n.at, "the value of the variable %s is not UTF-8 text; set it to one that is", name)
			n.shape, n.broken = empty, true
			return ""
		}
		return v
	}
	if !hasFallback {
		b.add(ruleVariable, n.at, "the variable %s is not set; set it, or give a default: ${%s:-default}", name, name)
		n.shape, n.broken = empty, true
	}
	return fallback
}

func isVariable(name string) bool {
	for i, c := range name {
		if c != '_' && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

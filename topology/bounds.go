package topology

import (
	"fmt"

	"github.com/goccy/go-yaml/token"
)

// What a file may be. The parser needs time that grows with the square of the depth
// and of the keys of a map, so all of this is refused before it is parsed; it is far
// more than any topology needs.
const (
	maxBytes = 4 << 20
	maxDepth = 32
	maxKeys  = 1000
)

var tooDeep = fmt.Sprintf("the file is nested deeper than %d levels", maxDepth)

// level is a map or list that is open at some token.
type level struct {
	kind   token.Type // of the token that makes it one: `:`, `-`, `{` or `[`
	column int        // of its keys or dashes; 0 in one written with brackets
	keys   int
}

// outOfBounds returns what is too large or unbalanced in a file, and the token at
// which it is.
// The problem is empty if nothing is.
func outOfBounds(tokens token.Tokens) (at *token.Token, problem string) {
	var open []level
	brackets := 0
	// block closes what is further to the right than a key or dash, and opens a level
	// for it if it does not go on with the one that is open.
	block := func(kind token.Type, column int) {
		for len(open) > 0 {
			top := open[len(open)-1]
			endsList := top.column == column && top.kind == token.SequenceEntryType && kind == token.MappingValueType
			if top.column <= column && !endsList {
				break
			}
			open = open[:len(open)-1]
		}
		if n := len(open); n == 0 || open[n-1].column != column || open[n-1].kind != kind {
			open = append(open, level{kind: kind, column: column})
		}
		open[len(open)-1].keys++
	}
	for i, t := range tokens {
		switch t.Type {
		case token.DocumentHeaderType:
			open, brackets = open[:0], 0
		case token.MappingStartType, token.SequenceStartType:
			open = append(open, level{kind: t.Type})
			brackets++
		case token.MappingEndType, token.SequenceEndType:
			if brackets == 0 {
				return t, fmt.Sprintf("nothing is open that %q closes; remove it, or quote the value", t.Value)
			}
			open = open[:len(open)-1] // within brackets all levels on top are brackets
			brackets--
		case token.SequenceEntryType, token.MappingValueType:
			switch {
			case brackets > 0:
				open[len(open)-1].keys++
			case t.Type == token.SequenceEntryType:
				block(t.Type, t.Position.Column)
			case i > 0:
				block(t.Type, tokens[i-1].Position.Column)
			}
		default:
			continue
		}
		if len(open) > maxDepth {
			return t, tooDeep
		}
		if n := len(open); n > 0 && open[n-1].keys > maxKeys && open[n-1].kind != token.SequenceEntryType {
			return t, fmt.Sprintf("a map has at most %d keys", maxKeys)
		}
	}
	return nil, ""
}

package file

import (
	"unicode/utf16"
	"unicode/utf8"
)

// jsonKind is the kind of a token.
type jsonKind uint8

const (
	jsonNull jsonKind = iota
	jsonBool
	jsonNumber
	jsonString
	jsonArray
	jsonObject
)

// token is a JSON value; end is the index behind it, or 0 if it is broken.
type token struct {
	kind    jsonKind
	escaped bool // a string with a backslash
	end     int
}

// maxDepth bounds how deep skipped values may be nested.
const maxDepth = 100

// scanValue finds the end of the value at index i.
func scanValue(b []byte, i, depth int) token {
	if i >= len(b) || depth > maxDepth {
		return token{}
	}
	switch b[i] {
	case '"':
		return scanString(b, i)
	case '{':
		return scanNested(b, i, depth, '}', jsonObject)
	case '[':
		return scanNested(b, i, depth, ']', jsonArray)
	case 't':
		return scanWord(b, i, "true", jsonBool)
	case 'f':
		return scanWord(b, i, "false", jsonBool)
	case 'n':
		return scanWord(b, i, "null", jsonNull)
	}
	return scanNumber(b, i)
}

func scanWord(b []byte, i int, word string, kind jsonKind) token {
	if len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
		return token{}
	}
	return token{kind: kind, end: i + len(word)}
}

func scanString(b []byte, i int) token {
	if i >= len(b) || b[i] != '"' {
		return token{}
	}
	t := token{kind: jsonString}
	for i++; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			t.end = i + 1
			return t
		case c < ' ':
			return token{}
		case c == '\\':
			t.escaped = true
			i++
			if i == len(b) {
				return token{}
			}
			switch b[i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				if _, ok := hex4(b, i+1); !ok {
					return token{}
				}
				i += 4
			default:
				return token{}
			}
		}
	}
	return token{}
}

func scanNumber(b []byte, i int) token {
	if i < len(b) && b[i] == '-' {
		i++
	}
	whole := digits(b, i)
	if whole == i || b[i] == '0' && whole > i+1 {
		return token{}
	}
	i = whole
	if i < len(b) && b[i] == '.' {
		fraction := digits(b, i+1)
		if fraction == i+1 {
			return token{}
		}
		i = fraction
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		exponent := digits(b, i)
		if exponent == i {
			return token{}
		}
		i = exponent
	}
	return token{kind: jsonNumber, end: i}
}

// digits is the index of the first byte at or after i that is not a digit.
func digits(b []byte, i int) int {
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	return i
}

// scanNested skips an array or an object.
func scanNested(b []byte, i, depth int, closing byte, kind jsonKind) token {
	i = space(b, i+1)
	if i < len(b) && b[i] == closing {
		return token{kind: kind, end: i + 1}
	}
	for {
		if kind == jsonObject {
			key := scanString(b, i)
			if key.end == 0 {
				return token{}
			}
			i = space(b, key.end)
			if i == len(b) || b[i] != ':' {
				return token{}
			}
			i = space(b, i+1)
		}
		t := scanValue(b, i, depth+1)
		if t.end == 0 {
			return token{}
		}
		i = space(b, t.end)
		if i == len(b) {
			return token{}
		}
		switch b[i] {
		case ',':
			i = space(b, i+1)
		case closing:
			return token{kind: kind, end: i + 1}
		default:
			return token{}
		}
	}
}

// isScalarList reports whether b is a JSON array without arrays and objects in it.
func isScalarList(b []byte) bool {
	t := scanValue(b, 0, 0)
	if t.end != len(b) || t.kind != jsonArray {
		return false
	}
	for i := space(b, 1); b[i] != ']'; {
		e := scanValue(b, i, 0)
		if e.kind == jsonArray || e.kind == jsonObject {
			return false
		}
		if i = space(b, e.end); b[i] == ',' {
			i = space(b, i+1)
		}
	}
	return true
}

// space is the index of the first byte at or after i that is not white space.
func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\r' || b[i] == '\n') {
		i++
	}
	return i
}

// hex4 parses the four digits of an escape.
func hex4(b []byte, i int) (rune, bool) {
	if len(b)-i < 4 {
		return 0, false
	}
	var r rune
	for _, c := range b[i : i+4] {
		switch {
		case c-'0' <= 9:
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// appendUnescaped appends the content of a string that scanString accepted. Half
// a surrogate pair becomes U+FFFD, as in encoding/json.
func appendUnescaped(dst, content []byte) []byte {
	for i := 0; i < len(content); i++ {
		c := content[i]
		if c != '\\' {
			dst = append(dst, c)
			continue
		}
		i++
		switch content[i] {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r, _ := hex4(content, i+1)
			i += 4
			if utf16.IsSurrogate(r) {
				pair := utf8.RuneError
				if i+2 < len(content) && content[i+1] == '\\' && content[i+2] == 'u' {
					low, _ := hex4(content, i+3)
					if pair = utf16.DecodeRune(r, low); pair != utf8.RuneError {
						i += 6
					}
				}
				r = pair
			}
			dst = utf8.AppendRune(dst, r)
		default: // a quote, a backslash, a slash
			dst = append(dst, content[i])
		}
	}
	return dst
}

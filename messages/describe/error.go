package describe

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxError is how much of an error a message carries, in bytes.
const maxError = 16 << 10

// Error is the text of err for a field of a message. A message with text that is
// not UTF-8 can be neither sent nor stored, and errors quote files, paths and what
// users' code says: such bytes are replaced by U+FFFD. What is beyond 16 KiB is
// cut, with the length of the whole.
func Error(err error) string {
	text := err.Error()
	if len(text) > maxError {
		head := maxError
		for head > maxError-utf8.UTFMax && !utf8.RuneStart(text[head]) {
			head--
		}
		text = fmt.Sprintf("%s..(%d bytes)", text[:head], len(text))
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

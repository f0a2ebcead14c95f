package describe

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
)

// Whatever an error says, a message can carry it; a text that is fine stays as it is.
func TestError(t *testing.T) {
	long := strings.Repeat("x", maxError-1)
	for text, want := range map[string]string{
		"":                  "",
		"field \"ü\"\n\x00": "field \"ü\"\n\x00",
		"\xff\xfea":         "\uFFFDa",
		"cut \xe2\x82":      "cut \uFFFD",
		long + "x":          long + "x",
		long + "yz":         long + "y..(16385 bytes)",
		long + "€":          long + "..(16386 bytes)",
	} {
		got := Error(errors.New(text))
		if got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
		if _, err := proto.Marshal(&messages.Failure{Message: got}); err != nil {
			t.Errorf("%q: %v", got, err)
		}
	}
}

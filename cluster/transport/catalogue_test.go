package transport

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"cutwater/messages"
)

// within are conversations of the catalogue that never leave a process, or that are
// not between actors.
var within = regexp.MustCompile(`within one process|Between nodes that`)

// Every message that the catalogue (messages/doc.go) lets travel between actors of two
// nodes has a place in the envelope: one without is dropped on the way, in silence.
func TestCatalogueTravels(t *testing.T) {
	text, err := os.ReadFile("../../messages/doc.go")
	if err != nil {
		t.Fatal(err)
	}
	can := map[string]bool{}
	fields := (&messages.Envelope{}).ProtoReflect().Descriptor().Oneofs().ByName("body").Fields()
	for i := range fields.Len() {
		can[string(fields.Get(i).Message().Name())] = true
	}
	row := regexp.MustCompile(`^//\t([A-Z]\w+(?:, [A-Z]\w+)*)\s`)
	rows, skipping := 0, false
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "// #") {
			skipping = within.MatchString(line)
		}
		found := row.FindStringSubmatch(line)
		if found == nil || skipping || within.MatchString(line) {
			continue
		}
		for _, name := range strings.Split(found[1], ", ") {
			rows++
			if !can[name] {
				t.Errorf("%s is in no Envelope: another node would not get it", name)
			}
		}
	}
	if rows < 30 {
		t.Errorf("only %d messages were found in the catalogue", rows)
	}
}

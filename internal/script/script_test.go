package script

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// assertion is what a machine panics with.
type assertion string

func (a assertion) Error() string { return string(a) }

// run writes a script and runs it with a handler that shows what it is given.
func run(t *testing.T, content string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "story.txt"), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	RunDir(t, dir, func(*testing.T) Handler {
		n := 0
		return func(d *Directive) (string, error) {
			n++
			switch d.Verb {
			case "show":
				return fmt.Sprintf("%d %s %v n=%d key=%s body=%q", n, strings.Join(d.Words(), "+"), d.Has("flag"), d.Int("n", -1), d.Arg("key", "none"), d.Body), nil
			case "fail":
				return "", errors.New("it failed")
			case "break":
				panic(assertion("assertion failed: 1 is not 2"))
			}
			return "", nil
		}
	})
}

// A directive has words, values, numbers and a body; an empty output reads ok; an
// expected error, also of a broken assertion, is part of the golden text; each file
// has a handler of its own.
func TestScript(t *testing.T) {
	run(t, `# a comment
show a flag n=7 key=(x,y)
the body
----
1 a+flag true n=7 key=x,y body="the body"

quiet
----
ok

show
----
3  false n=-1 key=none body=""

fail error
----
error: it failed

break error
----
error: assertion failed: 1 is not 2
`)
}

// A panic that is no broken assertion is not an error that a script may expect.
func TestOtherPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("the panic was swallowed")
		}
	}()
	_, _ = guarded(func(*Directive) (string, error) { panic("a bug in the test") }, &Directive{})
}

package floors

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const module = "cutwater"

// The tree obeys the policy.
func TestPolicy(t *testing.T) {
	r, err := parse(module, Policy)
	if err != nil {
		t.Fatal(err)
	}
	files, err := read("../..", module)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 50 {
		t.Fatalf("only %d files were found: is this the root of the module?", len(files))
	}
	for _, violation := range r.check(files) {
		t.Error(violation)
	}
}

// The policy refuses what the design forbids, and allows what it needs: a checker
// that finds nothing would pass the test above.
func TestCheckerFindsViolations(t *testing.T) {
	r, err := parse(module, Policy)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		file, imported string
		want           string // part of the violation; empty if there is none
	}{
		// Lower floors never import higher ones.
		{"protocol/barrier/x.go", "cutwater/state", "no rule"},
		{"messages/x.go", "cutwater/protocol", "no rule"},
		{"storage/vfs/x.go", "cutwater/stream/row", "no rule"},
		{"stream/x.go", "cutwater/actors/system", "no rule"},
		{"actors/task/x.go", "cutwater/node", "no rule"},
		{"node/x.go", "cutwater/cmd/node", "no rule"},
		{"actors/task/x.go", "cutwater/protocol/barrier", ""},
		{"cmd/node/x.go", "cutwater/topology", ""},
		// Edges on one floor are listed.
		{"protocol/barrier/x.go", "cutwater/protocol/subtask", "no rule"},
		{"protocol/subtask/x.go", "cutwater/protocol/barrier", ""},
		{"connector/file/x.go", "cutwater/connector/stdout", "no rule"},
		{"topology/x.go", "cutwater/connector/file", "no rule"},
		{"connector/file/x.go", "cutwater/stream/row", ""},
		// No actor imports another one.
		{"actors/task/x.go", "cutwater/actors/timer", "no rule"},
		{"actors/task/x.go", "cutwater/actors/system", ""},
		// Machines are functions.
		{"protocol/checkpoint/x.go", "time", "forbids"},
		{"protocol/x.go", "math/rand/v2", "forbids"},
		{"protocol/job/x.go", "sync/atomic", "forbids"},
		{"protocol/job/x.go", "github.com/asynkron/protoactor-go/actor", "no rule"},
		{"protocol/job/x.go", "slices", ""},
		{"protocol/job/x.go", "google.golang.org/protobuf/proto", ""},
		// Only the edges of the house know the connectors.
		{"actors/task/x.go", "cutwater/connector/file", "forbids"},
		{"node/x.go", "cutwater/connector/file", ""},
		{"examples/flights/x.go", "cutwater/connector/file", ""},
		// The core serves no web page and reads no command line.
		{"actors/coordinator/x.go", "net/http", "forbids"},
		{"cluster/x.go", "net/http/httputil", "forbids"},
		{"stream/x.go", "github.com/spf13/cobra", "forbids"},
		{"node/x.go", "net/http", ""},
		{"cmd/node/x.go", "github.com/spf13/cobra", ""},
		{"node/x.go", "github.com/spf13/cobra", "no rule"},
		// Helpers stay aside.
		{"internal/script/x.go", "cutwater/messages", "no rule"},
		{"state/x.go", "cutwater/internal/script", "no rule"},
		// A package that nobody gave a place.
		{"misc/x.go", "fmt", "no floor"},
		{"protocols/x.go", "fmt", "no floor"},
		// Tests import their own floor, the test kits and what they like of others.
		{"protocol/job/x_test.go", "cutwater/protocol/split", ""},
		{"protocol/job/x_test.go", "time", ""},
		{"protocol/job/x_test.go", "cutwater/internal/script", ""},
		{"protocol/job/x_test.go", "cutwater/state", "higher floor"},
		{"actors/task/x_test.go", "cutwater/testkit", ""},
		{"internal/floors/x_test.go", "cutwater/internal/floors", ""},
	} {
		f, err := readFile(test.file, []byte("package x\nimport \""+test.imported+"\"\n"), module)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(r.check([]file{f}), "\n")
		if (test.want == "") != (got == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s imports %s: got %q, want %q", test.file, test.imported, got, test.want)
		}
	}
}

// A policy that cannot be read is an error that shows where.
func TestParseErrors(t *testing.T) {
	for _, test := range []struct{ policy, want string }{
		{"a < b", "semicolon"},
		{"a < b; a b < c;", `bad pattern "a b"`},
		{"a < ;", `bad pattern ""`},
		{"a;", "neither"},
		{"a !< b < c;", "neither"},
	} {
		if _, err := parse(module, test.policy); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: got %v, want %q", test.policy, err, test.want)
		}
	}
}

// In a chain each part may import all parts before it, and none after it.
func TestChain(t *testing.T) {
	r, err := parse(module, "a < b # not c\n < c;")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		importer, imported string
		ok                 bool
	}{
		{"b", "a", true}, {"c", "a", true}, {"c", "b", true}, {"b", "c", false}, {"a", "b", false},
	} {
		f := file{pkg: test.importer, imports: []string{test.imported}, inside: []bool{true}}
		if got := len(r.check([]file{f})) == 0; got != test.ok {
			t.Errorf("%s imports %s: %v", test.importer, test.imported, got)
		}
	}
}

// Read finds every Go file, and leaves out data of tests and what is not Go.
func TestRead(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"a/a.go", "a/testdata/bad.go", "a/readme.txt", "b/b_test.go", "testdata/bad.go"} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("package x\nimport \"cutwater/c\"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	files, err := read(root, module)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(files)
	if want := "[{a/a.go a false [c] [true]} {b/b_test.go b true [c] [true]}]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

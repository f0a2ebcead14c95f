package api

import (
	"os"
	"strings"
	"testing"
)

// docs/http.md has a row for every route, and none for what is not there.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	routes := map[string]bool{}
	for _, r := range (&handler{}).routes() {
		if strings.HasPrefix(r.path, "/v1/") || strings.HasPrefix(r.path, "/cutwater/") || r.path == "/metrics" {
			routes[r.method+" "+r.path] = true
		}
	}
	for line := range strings.Lines(string(text)) {
		row, ok := strings.CutPrefix(line, "| `")
		if !ok {
			continue
		}
		name, _, _ := strings.Cut(row, "`")
		if !routes[name] {
			t.Errorf("there is no route %s", name)
		}
		delete(routes, name)
	}
	for name := range routes {
		t.Errorf("%s has no row", name)
	}
}

package topology_test

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"cutwater/topology"
)

// The documents in docs are those that the table makes; -rewrite
// renews them.
func TestGeneratedFiles(t *testing.T) {
	rewrite := flag.Lookup("rewrite").Value.String() == "true"
	for path, want := range map[string]string{
		"../docs/configuration.md": topology.ConfigurationDoc(),
		"../docs/lint.md":          topology.LintDoc(),
	} {
		if rewrite {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s is not what the table makes (%v); run go test ./topology -run TestGeneratedFiles -rewrite", path, err)
		}
	}
}

// The schema is JSON, and every default in the table can be read back.
func TestSchemaWithConnectors(t *testing.T) {
	var schema struct {
		Properties map[string]struct {
			Properties map[string]any
			Items      struct {
				Properties map[string]struct{ Properties map[string]any }
			}
		}
	}
	if err := json.Unmarshal(topology.JSONSchema(connectors()), &schema); err != nil {
		t.Fatal(err)
	}
	if schema.Properties["checkpointing"].Properties["num-retained"] == nil {
		t.Error("the schema has no checkpointing.num-retained")
	}
	sources := schema.Properties["operators"].Items.Properties["source"].Properties
	if sources["file"] == nil || sources["clock"] == nil {
		t.Errorf("the schema has the sources %v", sources)
	}
	if doc := topology.ConnectorsDoc(connectors()); !strings.Contains(doc, "## source: file") || !strings.Contains(doc, "`split-size`") {
		t.Errorf("the connectors are not described:\n%s", doc)
	}
}

// Each rule stands once in the list, in order, and each is found by a script.
func TestRules(t *testing.T) {
	var golden strings.Builder
	for _, file := range []string{"bad/yaml", "bad/keys", "bad/operators", "bad/expressions", "good/warnings"} {
		text, err := os.ReadFile("testdata/" + file + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		golden.Write(text)
	}
	last := ""
	for _, r := range topology.Rules() {
		if r.ID <= last {
			t.Errorf("%s follows %s", r.ID, last)
		}
		last = r.ID
		if r.ID == "CW019" {
			continue // Build finds it: TestBuildTooLarge
		}
		if !strings.Contains(golden.String(), r.Severity.String()+" "+r.ID+":") {
			t.Errorf("no script finds %s: %s", r.ID, r.Title)
		}
	}
}

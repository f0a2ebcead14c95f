package topology_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/topology"
)

// A packed topology reads on any node as it did where it was packed: its variables
// have the values that they had there, and its relative paths stay where they were.
func TestSource(t *testing.T) {
	const text = `
name: ${NAME}
parallelism: ${PARALLELISM:-3}
operators:
  - {uid: numbers, source: {file: {path: numbers.csv, format: csv, schema: {n: int}}}}
  - {uid: out, input: numbers, sink: {blackhole: }}
`
	here := map[string]string{"NAME": "packed", "OTHER": "a secret that is not mentioned"}
	packed, err := topology.SourceOf("some/folder/t.yaml", []byte(text), func(name string) (string, bool) {
		value, ok := here[name]
		return value, ok
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(packed.Variables) != 1 || packed.Variables["NAME"] != "packed" {
		t.Errorf("it carries the variables %v", packed.Variables)
	}
	wire, err := proto.Marshal(packed)
	if err != nil {
		t.Fatal(err)
	}
	there := &messages.TopologySource{}
	if err := proto.Unmarshal(wire, there); err != nil {
		t.Fatal(err)
	}
	t.Setenv("NAME", "another")
	t.Setenv("PARALLELISM", "7")
	loaded, err := topology.LoadSource(there, connectors())
	if err != nil {
		t.Fatal(err)
	}
	if loaded.Name != "packed" || loaded.Parallelism != 3 || !strings.HasPrefix(loaded.Dir, "/") || !strings.HasSuffix(loaded.Dir, "/topology/some/folder") {
		t.Errorf("it reads as %q, parallelism %d, in %s", loaded.Name, loaded.Parallelism, loaded.Dir)
	}
}

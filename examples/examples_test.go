// Package examples_test holds the examples to the program: every topology loads
// without a finding and builds, and what is generated about connectors is current.
package examples_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"cutwater/connector/blackhole"
	"cutwater/connector/datagen"
	"cutwater/connector/file"
	"cutwater/connector/filesink"
	"cutwater/connector/stdout"
	"cutwater/stream/catalog"
	"cutwater/topology"
)

var rewrite = flag.Bool("rewrite", false, "renew generated files")

// connectors are those that the node offers.
func connectors() *catalog.Catalog {
	return &catalog.Catalog{
		Sources: []catalog.SourceSpec{file.Spec(), datagen.Spec()},
		Sinks:   []catalog.SinkSpec{filesink.Spec(), stdout.Spec(), blackhole.Spec()},
	}
}

// Every example loads without an error or a warning and builds with the real
// connectors. Those with a program of their own are loaded by its tests.
func TestTopologies(t *testing.T) {
	paths, err := filepath.Glob("*/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no examples (%v)", err)
	}
	for _, path := range paths {
		if _, err := os.Stat(filepath.Join(filepath.Dir(path), "main.go")); err == nil {
			continue
		}
		t.Run(path, func(t *testing.T) {
			src, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			top, err := topology.Load(path, src, connectors(), os.LookupEnv)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range top.Warnings {
				t.Error(w)
			}
			if _, _, err := topology.Build(top, connectors()); err != nil {
				t.Error(err)
			}
		})
	}
}

// The reference of connectors and the schema for editors are those that the
// connectors' own tables make; -rewrite renews them.
func TestGeneratedFiles(t *testing.T) {
	for path, want := range map[string]string{
		"../docs/connectors.md":            topology.ConnectorsDoc(connectors()),
		"../topology/topology.schema.json": string(topology.JSONSchema(connectors())),
	} {
		if *rewrite {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s is not what the connectors say (%v); run go test ./examples -rewrite", path, err)
		}
	}
}

package policy

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// link is a Markdown link to a file, without its fragment.
var link = regexp.MustCompile(`\]\(([^)#\s]+)`)

// Every link of the documentation to a file of the tree leads somewhere.
func TestLinksLeadSomewhere(t *testing.T) {
	for _, name := range documents(t) {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(content), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(name), m[1])); err != nil {
				t.Errorf("%s: the link %s leads nowhere", name, m[1])
			}
		}
	}
}

// Every page of docs/design is in its index.
func TestDecisionsAreIndexed(t *testing.T) {
	index, err := os.ReadFile(filepath.Join(root, "docs/design/README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range documents(t) {
		if base := path.Base(filepath.ToSlash(name)); strings.Contains(filepath.ToSlash(name), "docs/design/") && base != "README.md" && !strings.Contains(string(index), "("+base+")") {
			t.Errorf("docs/design/README.md does not link %s", base)
		}
	}
}

// documents are the Markdown files of the root, of docs, of deploy and of the examples.
func documents(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/design/*.md", "examples/*/*.md", "deploy/*.md"} {
		names, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, names...)
	}
	if len(all) < 10 {
		t.Fatalf("only %v were found", all)
	}
	return all
}

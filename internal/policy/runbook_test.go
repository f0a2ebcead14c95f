package policy

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// quote is a block of messages in the runbook.
	quote = regexp.MustCompile("(?s)```text\n(.*?)```")
	// metric is a name of a metric there.
	metric = regexp.MustCompile("`((?:cutwater|flink)_[a-zA-Z_]+)`")
	// section is a heading of a page, anchor a link to one of the same page.
	section = regexp.MustCompile(`(?m)^## (.+)$`)
	anchor  = regexp.MustCompile(`\]\(#([^)]+)\)`)
)

// Every message and every metric that the runbook quotes is in the code: what stands
// between two … of a line is a part of some string there.
func TestRunbookQuotesTheCode(t *testing.T) {
	code := programText(t)
	page := read(t, "docs/runbook.md")
	blocks := quote.FindAllStringSubmatch(page, -1)
	if len(blocks) < 10 {
		t.Fatalf("only %d blocks of messages were found", len(blocks))
	}
	for _, block := range blocks {
		for _, line := range strings.Split(strings.TrimSpace(block[1]), "\n") {
			line = strings.TrimSpace(strings.TrimPrefix(line, "waiting  ")) // the name of the row in `job`
			for _, part := range strings.Split(line, "…") {
				for _, piece := range strings.Split(part, ": ") { // an error and what it wraps are put together
					if piece = strings.Trim(piece, " :;,("); len(piece) > 3 && !strings.Contains(code, piece) {
						t.Errorf("%q is not in the code, of the message %q", piece, line)
					}
				}
			}
		}
	}
	for _, m := range metric.FindAllStringSubmatch(page, -1) {
		name := strings.TrimPrefix(strings.TrimPrefix(m[1], "flink_jobmanager_job_"), "flink_taskmanager_job_task_")
		if !strings.Contains(code, name) {
			t.Errorf("there is no metric %s", m[1])
		}
	}
}

// Links within a page lead to its sections.
func TestAnchorsOfRunbook(t *testing.T) {
	page := read(t, "docs/runbook.md")
	sections := map[string]bool{}
	for _, m := range section.FindAllStringSubmatch(page, -1) {
		sections[strings.ReplaceAll(strings.ToLower(m[1]), " ", "-")] = true
	}
	for _, m := range anchor.FindAllStringSubmatch(page, -1) {
		if !sections[m[1]] {
			t.Errorf("there is no section #%s", m[1])
		}
	}
}

// programText is the text of all Go files of the program, without tests.
func programText(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "bin" || entry.Name() == "internal" || entry.Name() == "tools"):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		content, err := os.ReadFile(name)
		text.Write(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return text.String()
}

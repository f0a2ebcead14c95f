package leak

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The package holds itself to its rule.
func TestMain(m *testing.M) { VerifyTestMain(m) }

// A file that is open is found, each time that it is, and not any more when it is
// closed.
func TestOpenFileIsFound(t *testing.T) {
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Logf("open files cannot be listed here: %v", err)
		return
	}
	before := openFiles()
	name := filepath.Join(t.TempDir(), "x")
	var opened []*os.File
	for range 2 {
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		opened = append(opened, f)
	}
	if got := added(before, openFiles()); len(got) != 2 || !strings.HasSuffix(got[0], "/x") {
		t.Errorf("found %v, want %s twice", got, name)
	}
	for _, f := range opened {
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got := added(before, openFiles()); len(got) != 0 {
		t.Errorf("found %v after they were closed", got)
	}
}

package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A checkpoint folder that is not mounted on one of the nodes is found out by `deploy`,
// before any checkpoint: it exits as for a job that has failed, and says what to do.
func TestFolderIsNotMounted(t *testing.T) {
	c := formed(t, 3, preset("short"))
	if _, err := exec.LookPath("unshare"); err != nil || !c.net.breakable() {
		t.Skip("it takes root and mount namespaces")
	}
	j, err := newJob(c.dir, "unmounted", 1, len(c.nodes), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(j.dir, "checkpoints")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	n := c.nodes[1]
	n.kill()
	n.hides = folder
	if err := n.start(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.awaitOne(t.Context(), healTime); err != nil {
		t.Fatal(err)
	}
	a := c.ask(t.Context(), c.nodes[0], "deploy", j.topology())
	const failed = 6
	if a.code != failed {
		t.Errorf("deploy: exit code %d, want %d", a.code, failed)
	}
	for _, part := range []string{`operator "`, folder, "is not the folder that the coordinator of the job writes to", "mount one folder there"} {
		if !strings.Contains(a.stderr, part) {
			t.Errorf("deploy does not say %q: %s", part, a.stderr)
		}
	}
	if done, _ := filepath.Glob(fmt.Sprintf("%s/*/chk-*/_metadata", folder)); len(done) > 0 {
		t.Errorf("checkpoints completed: %v", done)
	}
}

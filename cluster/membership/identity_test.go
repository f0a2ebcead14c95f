package membership

import (
	"crypto/rand"
	"errors"
	"strings"
	"testing"

	"cutwater/storage/vfs"
)

// A data folder keeps its node id for life, counts its starts, and is open to one
// process at a time.
func TestIdentityLasts(t *testing.T) {
	fsys := vfs.Mem()
	first, err := OpenIdentity(fsys, "data", "c", rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenIdentity(fsys, "data", "c", rand.Reader); !errors.Is(err, ErrInUse) {
		t.Errorf("opened twice: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := OpenIdentity(fsys, "data", "c", rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if !isNodeID(first.Node) || second.Node != first.Node || first.Start != 1 || second.Start != 2 {
		t.Errorf("first %v, then %v", first, second)
	}
}

// Each way in which a folder is not this node's is one sentence that names the file
// or folder, and changes nothing.
func TestBadIdentityIsRefused(t *testing.T) {
	fsys := vfs.Mem()
	id, err := OpenIdentity(fsys, "data", "c", rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if err := id.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenIdentity(fsys, "data", "d", rand.Reader); !errors.Is(err, ErrOtherName) || !strings.Contains(err.Error(), `belongs to the cluster "c"`) {
		t.Errorf("another cluster: %v", err)
	}
	if _, err := OpenIdentity(fsys, "data", "", rand.Reader); !errors.Is(err, ErrMeta) {
		t.Errorf("no cluster name: %v", err)
	}
	good, err := vfs.ReadFile(fsys, "data/node")
	if err != nil {
		t.Fatal(err)
	}
	for title, bad := range map[string]string{
		"empty":       "",
		"cut":         string(good[:len(good)-2]),
		"longer":      string(good) + "x\n",
		"other start": strings.Replace(string(good), "starts 1", "starts -1", 1),
		"other id":    strings.Replace(string(good), "id ", "id X", 1),
		"newer":       strings.Replace(string(good), "node 1", "node 2", 1),
	} {
		if err := vfs.WriteFile(fsys, "data/node", []byte(bad)); err != nil {
			t.Fatal(err)
		}
		_, err := OpenIdentity(fsys, "data", "c", rand.Reader)
		if !errors.Is(err, ErrIdentity) || !strings.Contains(err.Error(), "data/node") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v", title, err)
		}
		if title == "newer" && !strings.Contains(err.Error(), "update the program") {
			t.Errorf("a newer format: %v", err)
		}
		if after, err := vfs.ReadFile(fsys, "data/node"); err != nil || string(after) != bad {
			t.Errorf("%s: the file is now %q, %v", title, after, err)
		}
	}
}

// Whatever step the process dies at, with the machine or alone, the folder opens
// again: with the same node id if anyone had seen it, and never with a count that
// was used.
func TestIdentitySurvivesCrash(t *testing.T) {
	for seed := range uint64(200) {
		fsys := vfs.Mem()
		faulty := vfs.Faulty(fsys, vfs.Plan{})
		used := map[uint64]bool{}
		node := ""
		for life := range 8 {
			// The n-th operation of this life is its last.
			faulty.SetFaults(vfs.Fault{Kind: vfs.Halt, Nth: int(seed%20) + life + 1})
			id, err := OpenIdentity(faulty, "data", "c", rand.Reader)
			if err == nil {
				if node != "" && id.Node != node || used[id.Start] {
					t.Fatalf("seed %d, life %d: is %s, start %d, after %s with %v", seed, life, id.Node, id.Start, node, used)
				}
				node, used[id.Start] = id.Node, true
			} else if !errors.Is(err, vfs.ErrHalted) {
				t.Fatalf("seed %d, life %d: %v", seed, life, err)
			}
			if seed%2 == 0 {
				fsys.Crash(seed)
			} else {
				fsys.Kill()
			}
		}
		faulty.SetFaults()
		id, err := OpenIdentity(faulty, "data", "c", rand.Reader)
		if err != nil || node != "" && id.Node != node || used[id.Start] {
			t.Fatalf("seed %d: at the end %v, %v after %s with %v", seed, id, err, node, used)
		}
	}
}

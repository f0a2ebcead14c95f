package vfs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"cutwater/storage/vfs"
	"cutwater/storage/vfs/vfstest"
)

// Every implementation keeps the contract.
func TestConformance(t *testing.T) {
	t.Run("os", func(t *testing.T) {
		vfstest.Run(t, func(t *testing.T) (vfs.FS, string) { return vfs.OS(), t.TempDir() })
	})
	t.Run("mem", func(t *testing.T) {
		vfstest.Run(t, func(t *testing.T) (vfs.FS, string) {
			m := vfs.Mem()
			must(t, m.MkdirAll("/base"))
			return m, "/base"
		})
	})
	t.Run("mem, relative paths", func(t *testing.T) {
		vfstest.Run(t, func(t *testing.T) (vfs.FS, string) { return vfs.Mem(), "" })
	})
	t.Run("faulty without faults", func(t *testing.T) {
		vfstest.Run(t, func(t *testing.T) (vfs.FS, string) {
			return vfs.Faulty(vfs.OS(), vfs.Plan{}), t.TempDir()
		})
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const seeds = 200

// What was synced, content and name, survives every crash.
func TestCrashKeepsWhatWasSynced(t *testing.T) {
	for seed := range uint64(seeds) {
		m := vfs.Mem()
		must(t, m.MkdirAll("/d"))
		must(t, vfs.WriteFile(m, "/d/f", []byte("durable")))
		must(t, m.SyncDir("/d"))
		m.Crash(seed)
		got, err := vfs.ReadFile(m, "/d/f")
		must(t, err)
		if string(got) != "durable" {
			t.Fatalf("seed %d: %q", seed, got)
		}
	}
}

// What was not synced is lost under one seed and kept under another, and each
// kind of tearing occurs: a crash test on this disk means something.
func TestCrashTakesWhatWasNotSynced(t *testing.T) {
	outcomes := map[string]int{}
	for seed := range uint64(seeds) {
		m := vfs.Mem()
		must(t, m.MkdirAll("/d"))
		must(t, vfs.WriteFile(m, "/d/f", []byte("oldold")))
		must(t, m.SyncDir("/d"))
		f, err := m.Create("/d/f")
		must(t, err)
		_, err = f.Write([]byte("newnewnew"))
		must(t, err)
		must(t, vfs.WriteFile(m, "/d/unlisted", []byte("x")))
		m.Crash(seed)
		got, err := vfs.ReadFile(m, "/d/f")
		must(t, err)
		switch {
		case string(got) == "oldold":
			outcomes["old"]++
		case string(got) == "newnewnew":
			outcomes["new"]++
		case len(got) == 9:
			outcomes["torn"]++
		case strings.HasPrefix("newnewnew", string(got)):
			outcomes["short"]++
		default:
			t.Fatalf("seed %d: %q", seed, got)
		}
		if _, err := m.Stat("/d/unlisted"); err == nil {
			outcomes["name kept"]++
		} else {
			outcomes["name lost"]++
		}
		if _, err := f.Write([]byte("x")); !errors.Is(err, fs.ErrClosed) {
			t.Fatalf("a handle survived the crash: %v", err)
		}
	}
	for _, kind := range []string{"old", "new", "torn", "short", "name kept", "name lost"} {
		if outcomes[kind] == 0 {
			t.Errorf("%d seeds never gave %q: %v", seeds, kind, outcomes)
		}
	}
}

// A rename between directories happens as a whole or not at all.
func TestCrashRenameIsAtomic(t *testing.T) {
	var moved, stayed int
	for seed := range uint64(seeds) {
		m := vfs.Mem()
		must(t, m.MkdirAll("/a"))
		must(t, m.MkdirAll("/b"))
		must(t, vfs.WriteFile(m, "/a/f", []byte("x")))
		must(t, m.SyncDir("/a"))
		must(t, m.Rename("/a/f", "/b/f"))
		m.Crash(seed)
		_, errA := m.Stat("/a/f")
		_, errB := m.Stat("/b/f")
		switch {
		case errA == nil && errB != nil:
			stayed++
		case errA != nil && errB == nil:
			moved++
		default:
			t.Fatalf("seed %d: old name %v, new name %v", seed, errA, errB)
		}
	}
	if moved == 0 || stayed == 0 {
		t.Errorf("moved %d, stayed %d", moved, stayed)
	}
}

// The same seed gives the same disk.
func TestCrashIsDeterministic(t *testing.T) {
	run := func(seed uint64) []byte {
		m := vfs.Mem()
		for _, name := range []string{"c", "a", "b"} {
			must(t, m.MkdirAll("/"+name))
			f, err := m.Create("/" + name + "/f")
			must(t, err)
			_, err = f.Write(bytes.Repeat([]byte(name), 50))
			must(t, err)
		}
		m.Crash(seed)
		var out []byte
		names, err := m.Glob("/*/*")
		must(t, err)
		for _, name := range names {
			content, err := vfs.ReadFile(m, name)
			must(t, err)
			out = append(append(out, name...), content...)
		}
		return out
	}
	for seed := range uint64(20) {
		if a, b := run(seed), run(seed); !bytes.Equal(a, b) {
			t.Fatalf("seed %d: %q and %q", seed, a, b)
		}
	}
}

// A killed process loses its handles and locks, not its data.
func TestKill(t *testing.T) {
	m := vfs.Mem()
	_, err := m.Lock("/lock")
	must(t, err)
	must(t, vfs.WriteFile(m, "/f", []byte("x")))
	m.Kill()
	_, err = m.Lock("/lock")
	must(t, err)
	if got, err := vfs.ReadFile(m, "/f"); string(got) != "x" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// Each kind of fault does what it says and is counted.
func TestFaults(t *testing.T) {
	m := vfs.Mem()
	slow := 0
	var hits []string
	f := vfs.Faulty(m, vfs.Plan{Seed: 7, Slow: func(vfs.Op, string) { slow++ },
		Hit: func(kind vfs.FaultKind, op vfs.Op, p string) { hits = append(hits, fmt.Sprint(kind, " ", op, " ", p)) }})

	f.SetFaults(vfs.Fault{Kind: vfs.Fail, Op: vfs.OpSync, Path: "*.seg", Nth: 2, Err: syscall.EIO})
	must(t, vfs.WriteFile(f, "/one.seg", []byte("x")))
	must(t, vfs.WriteFile(f, "/other", []byte("x")))
	if err := vfs.WriteFile(f, "/two.seg", []byte("x")); !errors.Is(err, syscall.EIO) {
		t.Errorf("fail: %v", err)
	}

	f.SetFaults(vfs.Fault{Kind: vfs.TornWrite})
	if err := vfs.WriteFile(f, "/torn", []byte("0123456789")); !errors.Is(err, vfs.ErrInjected) {
		t.Errorf("torn: %v", err)
	}
	if got, _ := vfs.ReadFile(m, "/torn"); !strings.HasPrefix("0123456789", string(got)) {
		t.Errorf("torn write left %q", got)
	}

	f.SetFaults(vfs.Fault{Kind: vfs.Full, Bytes: 15})
	must(t, vfs.WriteFile(f, "/fits", []byte("0123456789")))
	if err := vfs.WriteFile(f, "/full", []byte("0123456789")); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("full: %v", err)
	}
	if got, _ := vfs.ReadFile(m, "/full"); string(got) != "01234" {
		t.Errorf("the last 5 bytes of space hold %q", got)
	}

	f.SetFaults(vfs.Fault{Kind: vfs.Flip, Nth: 1})
	if got, err := vfs.ReadFile(f, "/fits"); err != nil || string(got) == "0123456789" || len(got) != 10 {
		t.Errorf("flip: %q, %v", got, err)
	}

	f.SetFaults(vfs.Fault{Kind: vfs.Slow, Op: vfs.OpStat})
	_, err := f.Stat("/fits")
	must(t, err)
	if slow != 1 {
		t.Errorf("the hook ran %d times", slow)
	}

	f.SetFaults(vfs.Fault{Kind: vfs.Halt, Nth: 2})
	_, err = f.Stat("/fits")
	must(t, err)
	for range 2 {
		if _, err := f.Stat("/fits"); !errors.Is(err, vfs.ErrHalted) {
			t.Errorf("halt: %v", err)
		}
	}
	if got, want := f.Coverage(), "fail 1, torn-write 1, lost-sync 0, slow 1, full 1, flip 1, halt 1"; got != want {
		t.Errorf("coverage is %q, want %q", got, want)
	}
	want := "fail sync /two.seg, torn-write write /torn, full write /full, flip read /fits, slow stat /fits, halt stat /fits"
	if got := strings.Join(hits, ", "); got != want {
		t.Errorf("hits are %q, want %q", got, want)
	}
}

// A disk that lies about sync loses the file at a crash.
func TestLostSync(t *testing.T) {
	lost := 0
	for seed := range uint64(50) {
		m := vfs.Mem()
		f := vfs.Faulty(m, vfs.Plan{Faults: []vfs.Fault{{Kind: vfs.LostSync}}})
		must(t, vfs.WriteFile(f, "/f", []byte("x")))
		must(t, f.SyncDir("/"))
		m.Crash(seed)
		if got, err := vfs.ReadFile(m, "/f"); err != nil || string(got) != "x" {
			lost++
		}
	}
	if lost == 0 {
		t.Error("nothing was ever lost")
	}
}

// A chance is drawn from the seed: the same plan fires at the same operations.
func TestChanceIsSeeded(t *testing.T) {
	run := func() string {
		f := vfs.Faulty(vfs.Mem(), vfs.Plan{Seed: 3, Faults: []vfs.Fault{{Kind: vfs.Fail, Op: vfs.OpStat, Chance: 0.5}}})
		var log strings.Builder
		for range 40 {
			_, err := f.Stat("/")
			if err == nil {
				log.WriteByte('.')
			} else {
				log.WriteByte('x')
			}
		}
		return log.String()
	}
	a := run()
	if a != run() || !strings.Contains(a, "x") || !strings.Contains(a, ".") {
		t.Errorf("runs are %s and %s", a, run())
	}
}

// File names keep readable text, stay short and differ for different texts.
func TestFileName(t *testing.T) {
	for text, want := range map[string]string{"daily-2.b": "daily-2.b", "a/b c": "a%2Fb%20c", ".x": "%2Ex", "": ""} {
		if got := vfs.FileName(text); got != want {
			t.Errorf("%q gives %q, want %q", text, got, want)
		}
	}
	long := strings.Repeat("é", 200)
	a, b := vfs.FileName(long), vfs.FileName(long+"x")
	if a == b || len(a) > 120 {
		t.Errorf("long names are %q and %q", a, b)
	}
}

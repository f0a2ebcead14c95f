package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// fate is how a mutant ended.
type fate uint8

const (
	survived fate = iota
	// byOwn: the tests of its package failed.
	byOwn
	// byMachines: the tests of another machine failed.
	byMachines
	// bySeeds: a seed of the simulation failed.
	bySeeds
)

// simulation is the package whose seeds a survivor meets last.
const simulation = "testkit"

// memoryKB is what a test may allocate: an endless loop that collects effects
// must not take the machine with it. Where a shell cannot limit it, the timeout has
// to do.
const memoryKB = 6 << 20

// runner builds the tests of a package once and runs them for each mutant.
type runner struct {
	options
	overlay  *overlay
	scratch  string
	binaries map[string]*binary // by package
}

// binary is the compiled tests of one package.
type binary struct {
	path, dir string
	args      []string
}

// runAll decides the fate of the mutants: first by the tests of their own
// package, then by all others.
func (r *runner) runAll(mutants []*mutant) error {
	start := time.Now()
	all, err := goList("./protocol/...")
	if err != nil {
		return err
	}
	for _, pkg := range packagesOf(mutants) {
		if slices.Contains(all, pkg) {
			if err := r.build(pkg); err != nil {
				return err
			}
		}
		own := slices.DeleteFunc(slices.Clone(mutants), func(m *mutant) bool { return m.pkg != pkg })
		caught := r.each(own, pkg, byOwn)
		fmt.Printf("%4.0fs  %-22s %4d guards, %4d caught by their own tests\n", time.Since(start).Seconds(), pkg, len(own), caught)
	}
	for _, pkg := range append(all, simulation) {
		fate := byMachines
		if pkg == simulation {
			fate = bySeeds
		}
		left := slices.DeleteFunc(slices.Clone(mutants), func(m *mutant) bool { return m.fate != survived || m.pkg == pkg })
		if len(left) == 0 || pkg == simulation && r.seeds == 0 {
			continue
		}
		if err := r.build(pkg); err != nil {
			fmt.Printf("survivors so far: %s\n", strings.Join(places(left), " "))
			return err
		}
		caught := r.each(left, pkg, fate)
		fmt.Printf("%4.0fs  %-22s %4d survivors met, %4d caught\n", time.Since(start).Seconds(), pkg, len(left), caught)
	}
	return nil
}

// packagesOf lists the packages of the mutants in their order.
func packagesOf(mutants []*mutant) []string {
	var pkgs []string
	for _, m := range mutants {
		if !slices.Contains(pkgs, m.pkg) {
			pkgs = append(pkgs, m.pkg)
		}
	}
	return pkgs
}

func places(mutants []*mutant) []string {
	var all []string
	for _, m := range mutants {
		all = append(all, m.place())
	}
	return all
}

// goList lists the folders of the packages that have tests.
func goList(pattern string) ([]string, error) {
	out, err := exec.Command("go", "list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}", pattern).Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w", pattern, err)
	}
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, dir := range strings.Fields(string(out)) {
		rel, err := filepath.Rel(root, dir)
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, rel)
	}
	return dirs, nil
}

// build compiles the tests of the package with all mutants inside, and checks
// that they pass while none is active.
func (r *runner) build(pkg string) error {
	if r.binaries[pkg] != nil {
		return nil
	}
	b := &binary{
		path: filepath.Join(r.scratch, strings.ReplaceAll(pkg, "/", "_")+".test"),
		dir:  pkg,
		args: []string{"-test.short", "-test.failfast", "-test.count=1"},
	}
	if pkg == simulation {
		b.args = append(b.args, "-test.run=^TestExactlyOnceUnderFaults$", fmt.Sprintf("-seeds=%d", r.seeds))
	}
	cmd := exec.Command("go", "test", "-c", "-overlay", r.overlay.path(), "-o", b.path, "./"+pkg)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("the tests of %s do not compile with the guards rewritten: %w\n%s", pkg, err, out)
	}
	imports, err := exec.Command("go", "list", "-f", "{{.TestImports}} {{.XTestImports}}", "./"+pkg).Output()
	if err != nil {
		return fmt.Errorf("go list ./%s: %w", pkg, err)
	}
	if strings.Contains(string(imports), "pgregory.net/rapid") {
		// The same inputs each time; a failure is not shrunk and not kept.
		b.args = append(b.args, "-rapid.seed=1", "-rapid.shrinktime=0s", "-rapid.nofailfile")
	}
	if failed, out := r.test(b, nil); failed {
		return fmt.Errorf("the tests of %s fail without a mutant:\n%s", pkg, out)
	}
	r.binaries[pkg] = b
	return nil
}

// each runs the tests of the package for each mutant, some at a time, and marks
// those that are caught.
func (r *runner) each(mutants []*mutant, pkg string, fate fate) (caught int) {
	b := r.binaries[pkg]
	if b == nil { // a package without tests catches nothing
		return 0
	}
	var group sync.WaitGroup
	slots := make(chan struct{}, max(r.parallel, 1))
	for _, m := range mutants {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			failed, out := r.test(b, m)
			if failed {
				m.fate = fate
			}
			if r.run != "" {
				fmt.Printf("%s: %s\n%s", m.place(), m.mutated(r.how), out)
			}
		})
	}
	group.Wait()
	for _, m := range mutants {
		if m.fate == fate {
			caught++
		}
	}
	return caught
}

// test runs the tests as the mutant, or as none, and reports whether they failed.
func (r *runner) test(b *binary, m *mutant) (failed bool, output string) {
	ctx, cancel := context.WithTimeout(context.Background(), r.timeout)
	defer cancel()
	args := append([]string{"-c", fmt.Sprintf(`ulimit -v %d 2>/dev/null; exec "$0" "$@"`, memoryKB), b.path}, b.args...)
	cmd := exec.CommandContext(ctx, "sh", args...)
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), environment+"=0")
	if m != nil {
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d,%s", environment, m.number, r.how))
	}
	out, err := cmd.CombinedOutput()
	return err != nil, string(out)
}

// Command mutate proves that the tests of the machines test their guards. It
// negates every guard of protocol/... in turn - each condition of an if or a for,
// each case, each operand of && and ||, each comparison - and runs the tests: a
// mutant that no test fails on is a guard that nothing proves.
//
//	make mutate                                          all machines
//	bin/mutate -package checkpoint -file abort.go        a part of them
//	bin/mutate -run protocol/checkpoint/abort.go:41:5    one mutant, with what its tests print
//
// The work tree is never touched, and nothing is compiled once per mutant. Each
// package is rewritten once, through go's -overlay, so that every guard C reads
// mutantGuard(N, C), and compiled once; the environment says which N is negated
// (see rewrite.go).
//
// A mutant is caught when a test of its own package fails, crashes, takes too
// much memory or does not end. One that survives meets the tests of the other
// machines, then seeds of the simulation. What is left must be explained in
// tools/mutate/survivors.txt: a guard whose negation changes nothing that can be
// seen, or nothing that can happen. The command fails on a survivor without a
// reason, and on a reason without a survivor.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// options are the flags.
type options struct {
	pkg, file, run string
	how            string
	parallel       int
	seeds          int
	timeout        time.Duration
	survivors      string
}

func main() {
	var o options
	flag.StringVar(&o.pkg, "package", "", "only the package of this name, such as checkpoint")
	flag.StringVar(&o.file, "file", "", "only the file of this name, such as abort.go")
	flag.StringVar(&o.run, "run", "", "only the guard at this place, file:line:column as it is printed; shows the tests' output")
	flag.StringVar(&o.how, "how", "negated", "what a guard becomes: negated, true or false; the last two only report")
	flag.IntVar(&o.parallel, "parallel", 2, "how many tests run at a time")
	flag.IntVar(&o.seeds, "seeds", 50, "seeds of the simulation that a survivor meets; 0 means none")
	flag.DurationVar(&o.timeout, "timeout", 10*time.Second, "how long the tests of a mutant may take; longer counts as caught")
	flag.StringVar(&o.survivors, "survivors", "tools/mutate/survivors.txt", "the file of explained survivors")
	flag.Parse()
	if err := mutate(o); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func mutate(o options) error {
	if !slices.Contains([]string{"negated", "true", "false"}, o.how) {
		return fmt.Errorf("-how %s: it is negated, true or false", o.how)
	}
	if _, err := os.Stat("protocol/doc.go"); err != nil {
		return errors.New("no protocol/doc.go here: run it in the root of the repository, as make mutate does")
	}
	reasons, err := readReasons(o.survivors)
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)

	files, err := machineFiles()
	if err != nil {
		return err
	}
	overlay := newOverlay(scratch)
	var mutants []*mutant
	for _, path := range files {
		found, err := overlay.rewrite(path)
		if err != nil {
			return err
		}
		mutants = append(mutants, found...)
	}
	all := len(mutants)
	mutants = slices.DeleteFunc(mutants, func(m *mutant) bool { return !o.chosen(m) })
	if len(mutants) == 0 {
		return fmt.Errorf("none of the %d guards of protocol/... is chosen by -package, -file and -run", all)
	}
	if err := overlay.write(); err != nil {
		return err
	}

	r := &runner{options: o, overlay: overlay, scratch: scratch, binaries: map[string]*binary{}}
	if err := r.runAll(mutants); err != nil {
		return err
	}
	return report(os.Stdout, o, mutants, reasons)
}

// chosen reports whether the flags select the mutant.
func (o options) chosen(m *mutant) bool {
	return (o.pkg == "" || filepath.Base(m.pkg) == strings.TrimSuffix(filepath.Base(o.pkg), "/")) &&
		(o.file == "" || filepath.Base(m.path) == filepath.Base(o.file)) &&
		(o.run == "" || m.place() == o.run) &&
		(o.how != "true" || m.kind != caseType) // no case is taken for every type
}

// machineFiles lists the Go files of protocol/... that are not tests.
func machineFiles() ([]string, error) {
	var files []string
	for _, pattern := range []string{"protocol/*.go", "protocol/*/*.go"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	files = slices.DeleteFunc(files, func(f string) bool { return strings.HasSuffix(f, "_test.go") })
	slices.SortFunc(files, func(a, b string) int {
		return cmp.Or(strings.Compare(filepath.Dir(a), filepath.Dir(b)), strings.Compare(a, b))
	})
	return files, nil
}

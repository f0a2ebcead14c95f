package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// readReasons reads the explained survivors: a line that starts with "protocol/"
// names a guard as mutant.key does, the indented lines below it say why no test
// can catch its negation. Lines that start with # are for readers.
func readReasons(path string) (map[string]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	reasons := map[string]string{}
	key := ""
	for i, line := range strings.Split(string(text), "\n") {
		switch {
		case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "protocol/"):
			key = line
			if _, twice := reasons[key]; twice {
				return nil, fmt.Errorf("%s:%d: the guard is listed twice", path, i+1)
			}
			reasons[key] = ""
		case strings.HasPrefix(line, "\t") && key != "":
			reasons[key] += strings.TrimSpace(line) + " "
		default:
			return nil, fmt.Errorf("%s:%d: neither a guard, nor an indented reason, nor a # comment", path, i+1)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(reasons)) {
		if reasons[key] == "" {
			return nil, fmt.Errorf("%s: %s has no reason; indent it on the lines below", path, key)
		}
	}
	return reasons, nil
}

// tally counts the fates of one package.
type tally struct {
	fates              [bySeeds + 1]int
	explained, unknown int
}

func (t *tally) all() int {
	n := 0
	for _, f := range t.fates {
		n += f
	}
	return n
}

// report prints the table and the survivors, and fails if one is not explained
// or if an explained one is none.
func report(w io.Writer, o options, mutants []*mutant, reasons map[string]string) error {
	perPackage, total := map[string]*tally{}, &tally{}
	unused := maps.Clone(reasons)
	chosenPaths := map[string]bool{}
	var unknown []*mutant
	for _, m := range mutants {
		t := perPackage[m.pkg]
		if t == nil {
			t = &tally{}
			perPackage[m.pkg] = t
		}
		chosenPaths[m.path] = true
		t.fates[m.fate]++
		total.fates[m.fate]++
		if m.fate != survived {
			continue
		}
		if _, ok := reasons[m.key()]; ok {
			delete(unused, m.key())
			t.explained++
			total.explained++
			continue
		}
		t.unknown++
		total.unknown++
		unknown = append(unknown, m)
	}

	fmt.Fprintf(w, "\n%-22s %7s %7s %9s %6s %10s %10s %8s\n", "package", "guards", "own", "machines", "seeds", "explained", "survivors", "caught")
	for _, pkg := range slices.Sorted(maps.Keys(perPackage)) {
		perPackage[pkg].print(w, pkg)
	}
	total.print(w, "all")

	for _, m := range unknown {
		fmt.Fprintf(w, "\n%s survived: %s\n    -run %s\n", m.key(), m.mutated(o.how), m.place())
	}
	if o.how != "negated" {
		return nil
	}
	var problems []error
	if len(unknown) > 0 {
		problems = append(problems, fmt.Errorf("%d survivors are not explained: write a test that catches them, or the reason into %s", len(unknown), o.survivors))
	}
	for _, key := range slices.Sorted(maps.Keys(unused)) {
		path, _, _ := strings.Cut(key, " ")
		partly := o.pkg != "" || o.file != ""
		if o.run != "" || partly && !chosenPaths[path] {
			continue // not looked at
		}
		problems = append(problems, fmt.Errorf("%s: %q did not survive, or is no guard any more: delete it", o.survivors, key))
	}
	return errors.Join(problems...)
}

func (t *tally) print(w io.Writer, name string) {
	caught := t.all() - t.fates[survived]
	fmt.Fprintf(w, "%-22s %7d %7d %9d %6d %10d %10d %7.1f%%\n", name, t.all(), t.fates[byOwn], t.fates[byMachines], t.fates[bySeeds],
		t.explained, t.unknown, 100*float64(caught)/float64(t.all()))
}

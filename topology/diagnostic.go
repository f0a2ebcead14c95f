package topology

import (
	"fmt"
	"slices"
	"strings"
)

// Severity says whether a topology can run.
type Severity uint8

// Severities.
const (
	// Error: the topology is refused.
	Error Severity = iota
	// Warning: it runs, and probably not as meant.
	Warning
)

// String is the word that messages use.
func (s Severity) String() string {
	if s == Warning {
		return "warning"
	}
	return "error"
}

// Position is a place in a file: line and column from 1, the column in
// characters.
type Position struct{ Line, Column int }

// Diagnostic is one finding about a topology.
type Diagnostic struct {
	Rule     string // such as CW002
	Severity Severity
	File     string
	Position
	// Message is one sentence: what is wrong and what to do.
	Message string
	// Source is the text of the line.
	Source string
}

// String shows the message and points at the place:
//
//	flights.yaml:3:18: error CW002: there is no key "intervall" here; did you mean "interval"?
//	  3 | checkpointing: {intervall: 1s}
//	    |                 ^
func (d Diagnostic) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d:%d: %s %s: %s", d.File, d.Line, d.Column, d.Severity, d.Rule, d.Message)
	if strings.TrimSpace(d.Source) == "" {
		return b.String()
	}
	number := fmt.Sprint(d.Line)
	fmt.Fprintf(&b, "\n  %s | %s\n  %s | %s^", number, d.Source, strings.Repeat(" ", len(number)), indent(d.Source, d.Column-1))
	return b.String()
}

// indent is as wide as the first n characters of a line, tabs kept.
func indent(line string, n int) string {
	var b strings.Builder
	for i, r := range []rune(line) {
		if i == n {
			break
		}
		if r != '\t' {
			r = ' '
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Errors is every error in a topology, in the order of their places.
type Errors []Diagnostic

// Error shows all of them.
func (e Errors) Error() string {
	parts := make([]string, len(e))
	for i, d := range e {
		parts[i] = d.String()
	}
	return strings.Join(parts, "\n")
}

// reporter gathers what is found in one file.
type reporter struct {
	file  string
	lines []string
	found []Diagnostic
}

func newReporter(file string, src []byte) *reporter {
	text := strings.ReplaceAll(strings.TrimPrefix(string(src), "\uFEFF"), "\r\n", "\n")
	return &reporter{file: file, lines: strings.Split(text, "\n")}
}

func (r *reporter) add(rule string, at Position, format string, args ...any) {
	d := Diagnostic{Rule: rule, Severity: severityOf(rule), File: r.file, Position: at, Message: fmt.Sprintf(format, args...)}
	if at.Line >= 1 && at.Line <= len(r.lines) {
		d.Source = r.lines[at.Line-1]
	}
	r.found = append(r.found, d)
}

// sorted returns the findings of a severity by place.
func (r *reporter) sorted(s Severity) []Diagnostic {
	var out []Diagnostic
	for _, d := range r.found {
		if d.Severity == s {
			out = append(out, d)
		}
	}
	slices.SortStableFunc(out, func(a, b Diagnostic) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return out
}

// suggest returns `; did you mean "x"?` for the nearest of the names, or "".
func suggest(word string, names []string) string {
	best, distance := "", max(2, len(word)/3)+1
	for _, name := range names {
		if d := editDistance(word, name); d < distance {
			best, distance = name, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// editDistance counts the insertions, deletions and replacements between two words.
func editDistance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	previous := make([]int, len(b)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := range len(a) {
		current := make([]int, len(b)+1)
		current[0] = i + 1
		for j := range len(b) {
			replace := previous[j]
			if a[i] != b[j] {
				replace++
			}
			current[j+1] = min(replace, previous[j+1]+1, current[j]+1)
		}
		previous = current
	}
	return previous[len(b)]
}

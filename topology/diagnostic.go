package topology

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
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
//
// Of a long line it shows what is around the place.
func (d Diagnostic) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d:%d: %s %s: %s", d.File, d.Line, d.Column, d.Severity, d.Rule, d.Message)
	if strings.TrimSpace(d.Source) == "" {
		return b.String()
	}
	number := fmt.Sprint(d.Line)
	source, column := excerpt(d.Source, d.Column-1)
	fmt.Fprintf(&b, "\n  %s | %s\n  %s | %s^", number, source, strings.Repeat(" ", len(number)), indent(source, column))
	return b.String()
}

// maxLine is how many characters of a line are shown.
const maxLine = 200

// excerpt is the line as a terminal can show it, and where in it the character at
// column is: without control characters, and not longer than maxLine and the marks
// of what was left out.
func excerpt(line string, column int) (string, int) {
	const cut = "..."
	text := []rune(line)
	for i, r := range text {
		if unicode.IsControl(r) && r != '\t' {
			text[i] = unicode.ReplacementChar
		}
	}
	from := max(0, min(column-maxLine/2, len(text)-maxLine))
	shown := string(text[from:min(len(text), from+maxLine)])
	if from+maxLine < len(text) {
		shown += cut
	}
	if from > 0 {
		shown, column = cut+shown, column+len(cut)
	}
	return shown, column - from
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

// add reports what is wrong at a place. Texts of the file that are long are cut.
func (r *reporter) add(rule string, at Position, format string, args ...any) {
	args = slices.Clone(args)
	for i, arg := range args {
		if text, isText := arg.(string); isText {
			args[i] = cutText(text)
		}
	}
	r.found = append(r.found, Diagnostic{Rule: rule, Severity: severityOf(rule), File: r.file, Position: at,
		Message: fmt.Sprintf(format, args...), Source: lineAt(r.lines, at)})
}

// lineAt is the text of the line, or "" for a place in no line.
func lineAt(lines []string, at Position) string {
	if at.Line < 1 || at.Line > len(lines) {
		return ""
	}
	return lines[at.Line-1]
}

// cutText is the beginning of a long text, as a message quotes it.
func cutText(text string) string {
	const most = 500
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

// maxFindings is how many findings of a severity are shown: each of them quotes its
// line, and who has more has one cause for most of them.
const maxFindings = 1000

// sorted returns the findings of a severity by place; the last one that is shown says
// how many are not.
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
	if more := len(out) - maxFindings; more > 0 {
		out = out[:maxFindings]
		out[maxFindings-1].Message += fmt.Sprintf("; %d more of this file are not shown", more)
	}
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

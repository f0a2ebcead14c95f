package command

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"
)

// table prints rows in aligned columns on standard output. The columns stay as they
// are; an empty cell is a dash.
func table(cmd *cobra.Command, header []string, rows [][]string) error {
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(header, "\t"))
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, c := range row {
			cells[i] = cell(c)
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	if err := w.Flush(); err != nil {
		return coded(exitError, fmt.Errorf("standard output cannot be written: %w", err))
	}
	return nil
}

// cell is a text on one line, without what would move the cursor of a terminal.
func cell(s string) string {
	s = strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s))
	if s == "" {
		return "-"
	}
	return s
}

// stamp is a time in milliseconds since 1970, 0 if it is not known.
type stamp int64

// MarshalJSON is RFC 3339 in UTC, or null.
func (s stamp) MarshalJSON() ([]byte, error) {
	if s == 0 {
		return []byte("null"), nil
	}
	return []byte(`"` + s.String() + `"`), nil
}

// String is RFC 3339 in UTC.
func (s stamp) String() string {
	return time.UnixMilli(int64(s)).UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// ago is the time for people, empty if it is not known. The clocks of two machines
// may differ: what is to come is now.
func (s stamp) ago(now time.Time) string {
	passed := now.Sub(time.UnixMilli(int64(s)))
	switch {
	case s == 0:
		return ""
	case passed < time.Second:
		return "now"
	case passed < time.Minute:
		return fmt.Sprintf("%d s ago", passed/time.Second)
	case passed < time.Hour:
		return fmt.Sprintf("%d min ago", passed/time.Minute)
	case passed < 48*time.Hour:
		return fmt.Sprintf("%d h ago", passed/time.Hour)
	}
	return fmt.Sprintf("%d d ago", passed/(24*time.Hour))
}

// shortID is the part of an id that people read.
func shortID(id string) string { return id[:min(len(id), 8)] }

// startOf is the name of the start of a node, given an address of one of its actors.
func startOf(address string) string {
	name, _, _ := strings.Cut(address, "|")
	return name
}

// nodeID is the id of a node, given the name of one of its starts or an address of
// one of its actors.
func nodeID(name string) string {
	id, _, _ := strings.Cut(startOf(name), ".")
	return id
}

// shortNode is a node as people read it.
func shortNode(name string) string { return shortID(nodeID(name)) }

// ranges writes numbers, which ascend, as 0-3,5.
func ranges(numbers []uint32) string {
	var b strings.Builder
	for i := 0; i < len(numbers); {
		last := i
		for last+1 < len(numbers) && numbers[last+1] == numbers[last]+1 {
			last++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprint(&b, numbers[i])
		if last > i {
			fmt.Fprintf(&b, "-%d", numbers[last])
		}
		i = last + 1
	}
	return b.String()
}

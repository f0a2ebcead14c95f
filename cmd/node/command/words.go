package command

import (
	"fmt"
	"strconv"
	"strings"
)

// count is a number with its noun: "1 file", "20,000 files".
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return thousands(uint64(n)) + " " + noun
}

// thousands groups digits by three: 1,234,567.
func thousands(n uint64) string {
	digits := strconv.FormatUint(n, 10)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// size is a number of bytes for people: 531 B, 1.2 kB, 45.0 MB.
func size(bytes uint64) string {
	if bytes < 1000 {
		return fmt.Sprintf("%d B", bytes)
	}
	n, unit := float64(bytes)/1000, 0
	for n >= 999.95 && unit < 3 {
		n, unit = n/1000, unit+1
	}
	return fmt.Sprintf("%.1f %s", n, [...]string{"kB", "MB", "GB", "TB"}[unit])
}

// userFrames is the part of a panic's stack that belongs to the user: below the
// panic itself, and above the actor that runs the operators.
func userFrames(stack string) string {
	if _, below, ok := strings.Cut(stack, "\npanic("); ok {
		if lines := strings.SplitN(below, "\n", 3); len(lines) == 3 { // its arguments, its file
			stack = lines[2]
		}
	}
	stack, _, _ = strings.Cut(stack, "\ncutwater/actors/")
	return stack
}

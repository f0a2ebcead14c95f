// Package leak is a TestMain for packages whose code starts goroutines or opens
// files: what a test leaves behind fails it.
//
//	func TestMain(m *testing.M) { leak.VerifyTestMain(m) }
package leak

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// VerifyTestMain runs the tests and ends the process: with a failure if they pass
// and leave goroutines or open files behind. It is the last call of TestMain.
//
// Goroutines that are in one of the functions late are left out: those of a library
// that end by themselves, but not at once. The names are as in a stack trace.
func VerifyTestMain(m *testing.M, late ...string) {
	before := openFiles()
	var options []goleak.Option
	for _, name := range late {
		options = append(options, goleak.IgnoreAnyFunction(name))
	}
	goleak.VerifyTestMain(m, append(options, goleak.Cleanup(func(code int) {
		if left := added(before, openFiles()); code == 0 && len(left) > 0 {
			fmt.Fprintf(os.Stderr, "leak: the tests left %d files open:\n%s\n", len(left), strings.Join(left, "\n"))
			code = 1
		}
		os.Exit(code)
	}))...)
}

// openFiles lists the files that this process has open, one entry a descriptor,
// sorted; nothing where there is no /proc. Pipes, sockets and the like are left out:
// the runtime has some of its own.
func openFiles() []string {
	descriptors, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		return nil
	}
	var files []string
	for _, d := range descriptors {
		target, err := os.Readlink(d)
		if err == nil && strings.HasPrefix(target, "/") && !strings.HasPrefix(target, "/proc/") && !strings.HasPrefix(target, "/dev/") {
			files = append(files, target)
		}
	}
	slices.Sort(files)
	return files
}

// added returns what is in after more often than in before; both are sorted.
func added(before, after []string) (more []string) {
	count := map[string]int{}
	for _, f := range before {
		count[f]++
	}
	for _, f := range after {
		if count[f]--; count[f] < 0 {
			more = append(more, f)
		}
	}
	return more
}

//go:build failpoints

package failpoint

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// variable is the environment variable that arms a place.
const variable = "CUTWATER_FAILPOINT"

var (
	armed Name
	left  atomic.Int64
)

func init() {
	setting := os.Getenv(variable)
	if setting == "" {
		return
	}
	name, count, counted := strings.Cut(setting, ":")
	n := 1
	if counted {
		n, _ = strconv.Atoi(count)
	}
	if !slices.Contains(Names(), Name(name)) || n < 1 {
		fmt.Fprintf(os.Stderr, "%s=%q is not NAME or NAME:N with one of the names %v\n", variable, setting, Names())
		os.Exit(2)
	}
	armed = Name(name)
	left.Store(int64(n))
}

// Hit marks a place; at the armed one's n-th hit the process dies.
func Hit(name Name) {
	if name != armed || left.Add(-1) != 0 {
		return
	}
	fmt.Fprintf(os.Stderr, "failpoint %s\n", name)
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // The signal is on its way: do nothing more.
}

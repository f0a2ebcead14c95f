package node

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"time"
)

// ErrStuck: a part of the node does not end. What still runs ends with the process;
// until then the data directory stays locked.
var ErrStuck = errors.New("a part of the node does not end")

// endTimeout bounds the end of a node, leaving included. Each part has bounds of its
// own, which are shorter: this one is for what nobody has thought of.
const endTimeout = 30 * time.Second

// maxStacks bounds the stacks that are logged, in bytes.
const maxStacks = 1 << 20

// within calls end, which names each part before it waits for it, and does not wait for
// longer than the limit. Then the error wraps ErrStuck and names the part, and the log
// gets the stacks of all goroutines.
func within(limit time.Duration, log *slog.Logger, end func(waitsFor func(part string)) error) error {
	var part atomic.Value
	part.Store("beginning")
	done := make(chan error, 1)
	go func() { done <- end(func(p string) { part.Store(p) }) }()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
	}
	stacks := make([]byte, maxStacks)
	stacks = stacks[:runtime.Stack(stacks, true)]
	log.Error("a part of the node does not end; the stacks show what it waits for", "part", part.Load(), "stacks", string(stacks))
	return fmt.Errorf("%w: %v has not ended within %v of the request; the process may be killed, nothing is lost by that, and its log shows what every goroutine waited for", ErrStuck, part.Load(), limit)
}

package protocol

import "fmt"

// Assertion is the panic value of a broken invariant. Shells recover it, report
// the message and the stack, and let the restart repair the state.
type Assertion string

// Error makes an Assertion usable as the cause of a failure.
func (a Assertion) Error() string { return string(a) }

// Assert panics with an Assertion unless ok. The format prints the values that
// make the failure understandable. On hot paths test the condition first, so
// that the arguments are not boxed.
func Assert(ok bool, format string, args ...any) {
	if !ok {
		panic(Assertion("assertion failed: " + fmt.Sprintf(format, args...)))
	}
}

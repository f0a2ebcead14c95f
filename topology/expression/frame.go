package expression

import (
	"fmt"
	"unsafe"

	"cutwater/stream/row"
)

// Frame is what expressions are evaluated in: the row, room for the strings that
// they make, and the first failure. One goroutine uses it at a time.
type Frame struct {
	row *row.Row
	err *RowError
	buf []byte
}

// RowError is a value that could not be computed.
type RowError struct {
	// Problem is half a sentence: `int overflow in 9223372036854775807 + 1`.
	Problem string
}

// Error says why.
func (e *RowError) Error() string { return e.Problem }

// Begin sets the row that is evaluated next. It ends the life of the strings
// that were made since the last call and forgets a failure.
func (f *Frame) Begin(r *row.Row) {
	f.row, f.err, f.buf = r, nil, f.buf[:0]
}

// Err is the first failure since Begin, a *RowError, or nil.
func (f *Frame) Err() error {
	if f.err != nil {
		return f.err
	}
	return nil
}

// fail records a failure; the value counts as null from here on.
func (f *Frame) fail(format string, args ...any) {
	if f.err == nil {
		f.err = &RowError{Problem: fmt.Sprintf(format, args...)}
	}
}

// made returns what was appended to buf since start as a string.
func (f *Frame) made(start int) string {
	if start == len(f.buf) {
		return ""
	}
	return unsafe.String(&f.buf[start], len(f.buf)-start)
}

func (f *Frame) text(cell uint64) string {
	return f.row.Text[cell>>32 : cell>>32+cell&0xffffffff]
}

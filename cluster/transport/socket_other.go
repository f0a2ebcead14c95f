//go:build !linux

package transport

import (
	"syscall"
	"time"
)

// setUserTimeout does nothing where the system has no such setting: keepalives end an
// idle connection, and one with bytes on their way ends when the system gives up.
func setUserTimeout(syscall.RawConn, time.Duration) error { return nil }

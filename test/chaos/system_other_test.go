//go:build !linux

package chaos

import (
	"errors"
	"syscall"
)

func enterNamespace(string) (func() error, error) { return nil, errors.ErrUnsupported }
func mountMemory(string, string, int) error       { return errors.ErrUnsupported }
func unmount(string) error                        { return errors.ErrUnsupported }
func mortal() *syscall.SysProcAttr                { return nil }

package chaos

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// enterNamespace moves the calling thread, which must be locked, into a network
// namespace; back returns it.
func enterNamespace(path string) (back func() error, err error) {
	own, err := os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
	if err != nil {
		return nil, err
	}
	other, err := os.Open(path)
	if err != nil {
		return nil, errors.Join(err, own.Close())
	}
	err = errors.Join(unix.Setns(int(other.Fd()), unix.CLONE_NEWNET), other.Close())
	if err != nil {
		return nil, errors.Join(err, own.Close())
	}
	return func() error { return errors.Join(unix.Setns(int(own.Fd()), unix.CLONE_NEWNET), own.Close()) }, nil
}

// mountMemory mounts an empty file system in memory, which has that name.
func mountMemory(name, dir string, bytes int) error {
	return unix.Mount(name, dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", bytes))
}

func unmount(dir string) error { return unix.Unmount(dir, unix.MNT_DETACH) }

// mortal: the process does not outlive the test.
func mortal() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

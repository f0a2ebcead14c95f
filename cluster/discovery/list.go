package discovery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"cutwater/storage/vfs"
)

// maxListBytes bounds a list of addresses.
const maxListBytes = 64 << 10

// File reports the addresses in a file: one a line, as for Seeds; empty lines and
// what follows a # do not count. It is read each time.
type File struct {
	FS   vfs.FS
	Path string
	// Port is for addresses without one.
	Port     uint16
	Resolver Resolver
}

// Name implements Discoverer.
func (f *File) Name() string { return "file:" + f.Path }

// Discover implements Discoverer.
func (f *File) Discover(ctx context.Context, found Found) error {
	file, err := f.FS.Open(f.Path)
	if err != nil {
		return fmt.Errorf("the list of addresses cannot be opened: %w", err)
	}
	content, err := io.ReadAll(io.LimitReader(file, maxListBytes+1))
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("the list of addresses cannot be read: %w", err)
	}
	return reportList(ctx, content, f.Port, f.Resolver, found)
}

// execTimeout bounds one run of a command; execGrace is how long its pipes may stay
// open when it has ended or was killed.
const (
	execTimeout = 10 * time.Second
	execGrace   = time.Second
)

// Exec reports the addresses that a command prints, in the form of File. It is run
// each time, without a shell, and killed with its children after Timeout.
type Exec struct {
	// Command is the program and its arguments.
	Command []string
	// Timeout is 10 seconds if 0.
	Timeout time.Duration
	// Port is for addresses without one.
	Port     uint16
	Resolver Resolver
}

// Name implements Discoverer.
func (e *Exec) Name() string { return "exec:" + strings.Join(e.Command, " ") }

// Discover implements Discoverer.
func (e *Exec) Discover(ctx context.Context, found Found) error {
	output, err := e.run(ctx)
	if err != nil {
		return err
	}
	return reportList(ctx, output, e.Port, e.Resolver, found)
}

func (e *Exec) run(ctx context.Context) ([]byte, error) {
	timeout := e.Timeout
	if timeout == 0 {
		timeout = execTimeout
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	command := exec.CommandContext(limited, e.Command[0], e.Command[1:]...)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.WaitDelay = execGrace
	output, complaint := &bounded{max: maxListBytes + 1}, &bounded{max: 200}
	command.Stdout, command.Stderr = output, complaint
	err := command.Run()
	switch {
	case err == nil:
		return output.Bytes(), nil
	case limited.Err() != nil && ctx.Err() == nil:
		return nil, fmt.Errorf("the command did not end within %v and was killed", timeout)
	case complaint.Len() > 0:
		return nil, fmt.Errorf("the command failed: %w: %s", err, strings.ToValidUTF8(strings.TrimSpace(complaint.String()), "?"))
	}
	return nil, fmt.Errorf("the command failed: %w", err)
}

// bounded keeps the first max bytes and lets the rest go.
type bounded struct {
	bytes.Buffer
	max int
}

func (b *bounded) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), b.max-b.Len())])
	return len(p), nil
}

// reportList reports a list of addresses; the first line that is none is the
// problem of the report.
func reportList(ctx context.Context, content []byte, port uint16, resolver Resolver, found Found) error {
	if len(content) > maxListBytes {
		return fmt.Errorf("%w: the list is longer than %d bytes", ErrAddress, maxListBytes)
	}
	var hosts []host
	var problem error
	number := 0
	for line := range strings.Lines(string(content)) {
		number++
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		h, err := parseHost(line, port)
		switch {
		case err == nil && len(hosts) == MaxAddresses:
			return fmt.Errorf("%w: the list has more than %d addresses; one of a living node is enough", ErrAddress, MaxAddresses)
		case err == nil:
			hosts = append(hosts, h)
		case problem == nil:
			problem = fmt.Errorf("line %d: %w", number, err)
		}
	}
	report(ctx, hosts, problem, resolver, found)
	return nil
}

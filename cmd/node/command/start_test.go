package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"cutwater/cluster/membership"
	"cutwater/node"
)

// fakeMember leaves when it is told to, or when its time is over.
type fakeMember struct {
	leaving chan struct{}
	result  chan error
}

// Leave implements leaver.
func (m *fakeMember) Leave(ctx context.Context) error {
	close(m.leaving)
	select {
	case err := <-m.result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// At the first signal the node leaves, and its failure to do so is an error; a second
// signal does not wait for it.
func TestLeave(t *testing.T) {
	for name, c := range map[string]struct {
		result error
		again  bool
		want   error
		said   string
	}{
		"it leaves":        {said: "leaving the cluster, for at most 30s; once more to stop at once\nleft\n"},
		"it cannot":        {result: context.DeadlineExceeded, want: context.DeadlineExceeded, said: "leaving the cluster"},
		"it is not waited": {again: true, want: errNodeAtOnce, said: "leaving the cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("NOTIFY_SOCKET", "")
			m := &fakeMember{make(chan struct{}), make(chan error, 1)}
			signals := make(chan os.Signal, 2)
			out := &bytes.Buffer{}
			j := &journal{out: out, now: time.Now}
			ended := make(chan error, 1)
			go func() { ended <- leave(m, node.MemberOptions{Log: slog.New(slog.DiscardHandler)}, j, signals) }()
			<-m.leaving
			if c.again {
				signals <- syscall.SIGTERM
			} else {
				m.result <- c.result
			}
			err := <-ended
			if !errors.Is(err, c.want) || (err != nil && err.(*codedError).code != exitError) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if !strings.HasPrefix(untimed(out.String()), c.said) {
				t.Errorf("said %q", out)
			}
			close(m.result)
		})
	}
}

// A node that cannot start has the exit code of the cause.
func TestCannotStart(t *testing.T) {
	for cause, want := range map[error]int{
		node.ErrDataDirInUse: exitConflict, node.ErrPortInUse: exitConflict, membership.ErrInUse: exitConflict,
		membership.ErrNeedsSecret: exitUsage, membership.ErrIdentity: exitError,
	} {
		if err := cannotStart(fmt.Errorf("%w: why", cause)); err.(*codedError).code != want || !errors.Is(err, cause) {
			t.Errorf("%v: exit code %d, want %d", cause, err.(*codedError).code, want)
		}
	}
}

package command

import (
	"fmt"
	"net"
	"os"
	"testing"
)

// The service manager is told by a datagram, without one nobody is, and one that
// does not listen is an error for the log.
func TestNotifySystemd(t *testing.T) {
	t.Chdir(t.TempDir()) // the path of a socket is short
	t.Setenv("NOTIFY_SOCKET", "")
	if err := notifySystemd("READY=1"); err != nil {
		t.Error(err)
	}
	t.Setenv("NOTIFY_SOCKET", "socket")
	if err := notifySystemd("READY=1"); err == nil {
		t.Error("nobody listens, and that is no error")
	}
	for _, name := range []string{"socket", fmt.Sprintf("@cutwater-%s-%d", t.Name(), os.Getpid())} {
		t.Setenv("NOTIFY_SOCKET", name)
		c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		if err := notifySystemd("READY=1"); err != nil {
			t.Fatal(err)
		}
		var b [64]byte
		if n, err := c.Read(b[:]); err != nil || string(b[:n]) != "READY=1" {
			t.Errorf("got %q, %v", b[:n], err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

package command

import (
	"fmt"
	"net"
	"os"
)

// notifySystemd tells the service manager how the process stands, if one asked for
// it: the protocol of sd_notify(3), as for Type=notify.
func notifySystemd(state string) error {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return nil
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"}) // @ is the abstract name space
	if err != nil {
		return fmt.Errorf("the service manager is not told of %s: %w", state, err)
	}
	defer c.Close()
	if _, err := c.Write([]byte(state)); err != nil {
		return fmt.Errorf("the service manager is not told of %s: %w", state, err)
	}
	return nil
}

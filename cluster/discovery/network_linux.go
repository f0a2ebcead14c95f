package discovery

import "golang.org/x/sys/unix"

// onlyOwnGroups keeps out what other sockets of the machine have joined by other
// interfaces, which Linux delivers otherwise.
func onlyOwnGroups(fd int) error {
	return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_ALL, 0)
}

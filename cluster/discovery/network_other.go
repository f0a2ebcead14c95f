//go:build unix && !linux

package discovery

// onlyOwnGroups: a socket receives only what it has joined, outside of Linux.
func onlyOwnGroups(int) error { return nil }

package discovery

import (
	"fmt"
	"net"
	"strings"

	"cutwater/storage/vfs"
)

// Parse makes sources of what a user wants to join: each element is an address as
// for NewSeeds, file:PATH, or exec:COMMAND with arguments that white space
// separates. All addresses become one source. Nothing is opened, run or resolved
// yet. The error wraps ErrAddress.
func Parse(list []string, port uint16, fs vfs.FS) ([]Discoverer, error) {
	var sources []Discoverer
	var addresses []string
	for _, text := range list {
		if p, ok := strings.CutPrefix(text, "file:"); ok {
			if p == "" {
				return nil, fmt.Errorf("%w: file: names no file; write file:PATH", ErrAddress)
			}
			sources = append(sources, &File{FS: fs, Path: p, Port: port, Resolver: net.DefaultResolver})
			continue
		}
		if c, ok := strings.CutPrefix(text, "exec:"); ok {
			command := strings.Fields(c)
			if len(command) == 0 {
				return nil, fmt.Errorf("%w: exec: names no command; write exec:COMMAND", ErrAddress)
			}
			sources = append(sources, &Exec{Command: command, Port: port, Resolver: net.DefaultResolver})
			continue
		}
		addresses = append(addresses, text)
	}
	if len(addresses) == 0 {
		return sources, nil
	}
	seeds, err := NewSeeds(addresses, port, net.DefaultResolver)
	if err != nil {
		return nil, err
	}
	return append([]Discoverer{seeds}, sources...), nil
}

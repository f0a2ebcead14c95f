package discovery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Resolver turns host names into IP addresses; *net.Resolver is one.
type Resolver interface {
	// LookupNetIP is that of net.Resolver; the network is "ip".
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// resolveTimeout bounds the resolution of one name.
const resolveTimeout = 5 * time.Second

// Seeds reports a fixed list of hosts.
type Seeds struct {
	hosts    []host
	resolver Resolver
}

// host is an address as a user wrote it.
type host struct {
	text string
	name string // a name or an IP address
	port uint16
}

// NewSeeds takes addresses of the form HOST or HOST:PORT, where HOST is a name or an
// IP address (one of IPv6 with a port in brackets); port is for those without. The
// error wraps ErrAddress.
func NewSeeds(addresses []string, port uint16, resolver Resolver) (*Seeds, error) {
	if len(addresses) > MaxAddresses {
		return nil, fmt.Errorf("%w: %d addresses to join, at most %d are allowed; one of a living node is enough", ErrAddress, len(addresses), MaxAddresses)
	}
	s := &Seeds{resolver: resolver}
	for _, a := range addresses {
		h, err := parseHost(a, port)
		if err != nil {
			return nil, err
		}
		s.hosts = append(s.hosts, h)
	}
	return s, nil
}

// Name implements Discoverer.
func (s *Seeds) Name() string {
	texts := make([]string, len(s.hosts))
	for i, h := range s.hosts {
		texts[i] = h.text
	}
	return "join " + strings.Join(texts, ",")
}

// Discover implements Discoverer. Names are resolved each time.
func (s *Seeds) Discover(ctx context.Context, found Found) error {
	report(ctx, s.hosts, nil, s.resolver, found)
	return nil
}

// report resolves hosts and reports their addresses, with a problem that is known
// already and one for each name that cannot be resolved.
func report(ctx context.Context, hosts []host, problem error, resolver Resolver, found Found) {
	var addresses []netip.AddrPort
	problems := []error{problem}
	for _, h := range hosts {
		ips, err := h.resolve(ctx, resolver)
		if err != nil {
			problems = append(problems, err)
		}
		for _, ip := range ips {
			addresses = append(addresses, netip.AddrPortFrom(ip.Unmap(), h.port))
		}
	}
	found(addresses, errors.Join(problems...))
}

func (h host) resolve(ctx context.Context, resolver Resolver) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(h.name); err == nil {
		return []netip.Addr{ip}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	ips, err := resolver.LookupNetIP(ctx, "ip", h.name)
	if err != nil {
		return nil, fmt.Errorf("the name %s cannot be resolved: %w", h.name, err)
	}
	return ips, nil
}

// parseHost reads HOST or HOST:PORT.
func parseHost(text string, port uint16) (host, error) {
	name := text
	if h, p, err := net.SplitHostPort(text); err == nil {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			return host{}, fmt.Errorf("%w: %q has the port %q, which must be a number from 1 to 65535", ErrAddress, text, p)
		}
		name, port = h, uint16(n)
	} else if inner, ok := strings.CutPrefix(text, "["); ok {
		if inner, ok = strings.CutSuffix(inner, "]"); ok {
			name = inner
		}
	}
	if ip, err := netip.ParseAddr(name); (err != nil || ip.Zone() != "") && !plausibleName(name) {
		return host{}, fmt.Errorf("%w: %q; write HOST, HOST:PORT or [IPV6]:PORT", ErrAddress, text)
	}
	if port == 0 {
		return host{}, fmt.Errorf("%w: %q has no port; write HOST:PORT", ErrAddress, text)
	}
	return host{text: text, name: name, port: port}, nil
}

// plausibleName reports whether a resolver could know the name.
func plausibleName(name string) bool {
	if name == "" || len(name) > 253 {
		return false
	}
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return true
}

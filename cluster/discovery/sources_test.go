package discovery

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"cutwater/storage/vfs"
)

// names is a resolver that knows what a test has told it.
type names map[string][]string

func (n names) LookupNetIP(_ context.Context, network, host string) (ips []netip.Addr, err error) {
	if network != "ip" {
		return nil, fmt.Errorf("network %s", network)
	}
	for _, text := range n[host] {
		ips = append(ips, netip.MustParseAddr(text))
	}
	if ips == nil {
		return nil, errors.New("no such host")
	}
	return ips, nil
}

// discover runs one round and returns what was reported.
func discover(t *testing.T, d Discoverer) (addresses, problem string, err error) {
	t.Helper()
	reports := 0
	err = d.Discover(t.Context(), func(found []netip.AddrPort, p error) {
		reports++
		for _, a := range found {
			addresses = strings.TrimSpace(addresses + " " + a.String())
		}
		if p != nil {
			problem = p.Error()
		}
	})
	if reports > 1 {
		t.Errorf("%s reported %d times", d.Name(), reports)
	}
	return addresses, problem, err
}

// Names are resolved at each try, to all their addresses; one that cannot be is
// named, and keeps no other from being tried.
func TestSeedsAreResolvedEachTime(t *testing.T) {
	resolver := names{"b.example": {"192.0.2.1", "2001:db8::1"}}
	s, err := NewSeeds([]string{"a.example:9", "b.example", "192.0.2.7:8", "[2001:db8::2]:7", "2001:db8::3"}, 1, resolver)
	if err != nil {
		t.Fatal(err)
	}
	fixed := " 192.0.2.7:8 [2001:db8::2]:7 [2001:db8::3]:1"
	if got, problem, err := discover(t, s); got != "192.0.2.1:1 [2001:db8::1]:1"+fixed || err != nil || !strings.Contains(problem, "a.example") {
		t.Errorf("got %s, %q, %v", got, problem, err)
	}
	resolver["a.example"] = []string{"::ffff:192.0.2.9"}
	resolver["b.example"] = []string{"192.0.2.2"}
	if got, problem, err := discover(t, s); got != "192.0.2.9:9 192.0.2.2:1"+fixed || err != nil || problem != "" {
		t.Errorf("later: got %s, %q, %v", got, problem, err)
	}
}

// What is no address is refused with what to write instead.
func TestBadAddresses(t *testing.T) {
	for _, bad := range []string{"", "a b", "http://a", "a:0", "a:70000", "a:b", "[::1", "::1%eth0 x", ":80", strings.Repeat("x", 300), "file:", "exec: "} {
		if _, err := Parse([]string{bad}, 1, vfs.Mem()); !errors.Is(err, ErrAddress) {
			t.Errorf("%q: got %v", bad, err)
		}
	}
	if _, err := NewSeeds([]string{"a"}, 0, names{}); !errors.Is(err, ErrAddress) || !strings.Contains(err.Error(), "HOST:PORT") {
		t.Errorf("no port: got %v", err)
	}
	if _, err := NewSeeds(slices.Repeat([]string{"a"}, MaxAddresses+1), 1, names{}); !errors.Is(err, ErrAddress) {
		t.Errorf("too many: got %v", err)
	}
}

// A list of what to join becomes one source for all addresses and one for each file
// and command, in their order.
func TestParse(t *testing.T) {
	sources, err := Parse([]string{"a", "file:/etc/nodes", "b:2", "exec:find  nodes"}, 1, vfs.Mem())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range sources {
		got = append(got, s.Name())
	}
	if want := []string{"join a,b:2", "file:/etc/nodes", "exec:find nodes"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if none, err := Parse(nil, 1, vfs.Mem()); err != nil || len(none) != 0 {
		t.Errorf("nothing to join: %v, %v", none, err)
	}
}

// A file is read at each try; a line that is no address is named, a file that is
// missing or too long is an error, and each of them only until it is mended.
func TestFile(t *testing.T) {
	fsys := vfs.Mem()
	f := &File{FS: fsys, Path: "nodes", Port: 5, Resolver: names{}}
	if _, _, err := discover(t, f); err == nil || !strings.Contains(err.Error(), "nodes") {
		t.Errorf("missing: %v", err)
	}
	for _, test := range []struct{ content, addresses, problem, err string }{
		{"# all of them\n192.0.2.1\n\n 192.0.2.2:6 # second\n", "192.0.2.1:5 192.0.2.2:6", "", ""},
		{"192.0.2.1\nnot an address\n192.0.2.3", "192.0.2.1:5 192.0.2.3:5", "line 2", ""},
		{"", "", "", ""},
		{strings.Repeat("#", maxListBytes+1), "", "", "longer than"},
		{strings.Repeat("192.0.2.1\n", MaxAddresses+1), "", "", "more than 256"},
	} {
		if err := vfs.WriteFile(fsys, "nodes", []byte(test.content)); err != nil {
			t.Fatal(err)
		}
		addresses, problem, err := discover(t, f)
		if addresses != test.addresses || !strings.Contains(problem, test.problem) || (problem == "") != (test.problem == "") ||
			(err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%.40q: got %s, %q, %v", test.content, addresses, problem, err)
		}
	}
}

// A command is run at each try. One that fails says why, one that does not end is
// killed with its children, and one that never stops talking is an error: none of
// them can hold up or fill the node.
func TestExec(t *testing.T) {
	shell := func(script string) *Exec {
		return &Exec{Command: []string{"/bin/sh", "-c", script}, Port: 5, Resolver: names{}}
	}
	if got, problem, err := discover(t, shell("echo 192.0.2.1; echo '192.0.2.2:6 # x'; echo noise >&2")); got != "192.0.2.1:5 192.0.2.2:6" || problem != "" || err != nil {
		t.Errorf("got %s, %q, %v", got, problem, err)
	}
	endless := shell("sleep 1000 & sleep 1000")
	endless.Timeout = 50 * time.Millisecond
	for title, test := range map[string]struct {
		source *Exec
		want   string
	}{
		"fails":      {shell("echo 192.0.2.1; echo no such cloud >&2; exit 3"), "exit status 3: no such cloud"},
		"is missing": {&Exec{Command: []string{"/nonexistent"}}, "no such file"},
		"hangs":      {endless, "did not end within 50ms"},
		"floods":     {shell("yes 192.0.2.1 | head -c 1000000"), "longer than"},
	} {
		if got, _, err := discover(t, test.source); err == nil || !strings.Contains(err.Error(), test.want) || got != "" {
			t.Errorf("a command that %s: got %s, %v", title, got, err)
		}
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := shell("sleep 1000").Discover(cancelled, nil); err == nil {
		t.Error("a command of a source that was stopped: no error")
	}
}

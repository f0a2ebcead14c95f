package membership

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"cutwater/cluster/secret"
	"cutwater/messages"
	"cutwater/storage/vfs"
)

func secretOf(t *testing.T, text string) secret.Secret {
	t.Helper()
	s, err := secret.New([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Nodes with the same secret join; another secret or none is refused on both sides,
// in one sentence, and nobody becomes a member.
func TestWrongSecretIsRefused(t *testing.T) {
	name := randomName()
	with := func(s secret.Secret) func(*Config) { return func(c *Config) { c.Secret = s } }
	right, wrong := secretOf(t, "the right secret of all"), secretOf(t, "a secret of someone else")
	a := newFolder(name).run(t, with(right))
	b := newFolder(name).run(t, with(right))
	b.mustJoin(a)
	a.await(Joined, b.identity.Node)
	for title, s := range map[string]secret.Secret{"another": wrong, "none": {}} {
		stranger := newFolder(name).run(t, with(s))
		for _, err := range []error{stranger.join(a), a.join(stranger)} {
			if !errors.Is(err, ErrSecret) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s secret: got %v", title, err)
			}
		}
		if got := len(stranger.Members()); got != 1 {
			t.Errorf("%s secret: the stranger has %d members", title, got)
		}
	}
	if got := len(a.Members()); got != 2 {
		t.Errorf("%d members, want 2", got)
	}
}

// A node of another cluster name, of another cluster id, or of a version without
// common protocol is refused on both sides, each told once; its members stay away
// too. A node without a cluster id is admitted.
func TestOthersAreRefused(t *testing.T) {
	name := randomName()
	as := func(id string) func(*Config) { return func(c *Config) { c.Meta.ClusterId = id } }
	a := newFolder(name).run(t, as("1111"))
	unknown := newFolder(name).run(t)
	unknown.mustJoin(a)
	a.await(Joined, unknown.identity.Node)
	for _, test := range []struct {
		other *testNode
		want  error
	}{
		{newFolder(randomName()).run(t, as("1111")), ErrOtherName},
		{newFolder(name).run(t, as("2222")), ErrOtherCluster},
		{newFolder(name).run(t, func(c *Config) { c.Meta.ClusterId, c.Meta.Supersedes = "3333", []string{"2222", "1111"} }), ErrOtherCluster},
	} {
		for range 3 {
			if err := test.other.join(a); !errors.Is(err, test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want %v", err, test.want)
			}
		}
		// The other side names the first member that it refuses.
		for _, e := range []Event{a.await(Refused, test.other.identity.Node), test.other.await(Refused, "")} {
			if !errors.Is(e.Reason, test.want) {
				t.Errorf("refused because %v, want %v", e.Reason, test.want)
			}
		}
		if got := len(test.other.Members()); got != 1 {
			t.Errorf("the refused node has %d members", got)
		}
		a.mu.Lock()
		if strings.Contains(eventText(a.events), "refused") {
			t.Errorf("told more than once: %v", a.events)
		}
		a.mu.Unlock()
	}
	if got := len(a.Members()); got != 2 {
		t.Errorf("%d members, want 2", got)
	}
}

func eventText(events []Event) string {
	var b strings.Builder
	for _, e := range events {
		b.WriteString(e.String() + "\n")
	}
	return b.String()
}

// A copy of a data folder is noticed: both processes have one id.
func TestCopiedFolderIsAConflict(t *testing.T) {
	name := randomName()
	home := newFolder(name)
	a := newFolder(name).run(t)
	original := home.run(t)
	original.mustJoin(a)
	a.await(Joined, original.identity.Node)
	content, err := vfs.ReadFile(home.fs, "data/"+identityFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, starts := range []string{"0", "41"} { // the copy was made before the start, or has started more often
		double := newFolder(name)
		if err := double.fs.MkdirAll("data"); err != nil {
			t.Fatal(err)
		}
		copied := strings.Replace(string(content), "starts 1", "starts "+starts, 1)
		if err := vfs.WriteFile(double.fs, "data/"+identityFile, []byte(copied)); err != nil {
			t.Fatal(err)
		}
		second := double.run(t)
		_ = second.join(original)
		e := original.await(Conflict, original.identity.Node)
		if e.Member.Gossip != second.Address() || !strings.Contains(e.Reason.Error(), "copied") {
			t.Errorf("starts %s: got %v", starts, e)
		}
	}
}

// An address that others can reach needs a secret, and is refused before a socket is
// opened: the port that it names is in use here.
func TestReachableAddressNeedsSecret(t *testing.T) {
	f := newFolder(randomName())
	id, err := OpenIdentity(f.fs, "data", f.name, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	defer id.Close()
	for _, addresses := range [][2]string{
		{"0.0.0.0:0", ""}, {"192.0.2.1:7946", ""}, {"[::]:0", "[::1]:0"}, {"127.0.0.1:0", "192.0.2.1:7946"},
	} {
		c := f.config(id)
		c.Bind = netip.MustParseAddrPort(addresses[0])
		if addresses[1] != "" {
			c.Advertise = netip.MustParseAddrPort(addresses[1])
		}
		if m, err := Start(c); !errors.Is(err, ErrNeedsSecret) || m != nil {
			t.Errorf("%v: got %v", addresses, err)
		}
	}
}

// A port that was given and is in use is an error that says so.
func TestPortInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	f := newFolder(randomName())
	id, err := OpenIdentity(f.fs, "data", f.name, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	defer id.Close()
	c := f.config(id)
	c.Bind = netip.MustParseAddrPort(taken.Addr().String())
	_, err = Start(c)
	if port := strconv.Itoa(int(c.Bind.Port())); !errors.Is(err, ErrPortInUse) || !strings.Contains(err.Error(), port) {
		t.Errorf("got %v", err)
	}
}

// What cannot be gossiped, an unknown preset and a missing address are refused.
func TestBadConfig(t *testing.T) {
	f := newFolder(randomName())
	id, err := OpenIdentity(f.fs, "data", f.name, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	defer id.Close()
	for title, change := range map[string]func(*Config){
		"cluster name": func(c *Config) { c.Meta.ClusterName = "two words" },
		"zone":         func(c *Config) { c.Meta.Zone = strings.Repeat("x", MaxMetaBytes) },
		"preset":       func(c *Config) { c.Preset = "moon" },
		"address":      func(c *Config) { c.Bind = netip.AddrPort{} },
		"unspecified": func(c *Config) {
			c.Bind = netip.MustParseAddrPort("[::]:0")
			c.Secret = secretOf(t, strings.Repeat("s", 16))
		},
	} {
		c := f.config(id)
		change(&c)
		if m, err := Start(c); err == nil {
			t.Errorf("%s: no error", title)
			m.Close()
		}
	}
}

// An address where nobody is, or where somebody says nothing, is an error and no
// more; a call that is cancelled returns.
func TestNobodyThere(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a := newFolder(randomName()).run(t)
	ctx, cancel := context.WithCancel(t.Context())
	accepted := make(chan net.Conn, 1)
	go func() {
		conn, err := silent.Accept()
		if err != nil {
			t.Error(err)
		}
		accepted <- conn
		cancel()
	}()
	if err := a.Join(ctx, netip.MustParseAddrPort(silent.Addr().String())); !errors.Is(err, context.Canceled) {
		t.Errorf("silence: got %v", err)
	}
	(<-accepted).Close()
	if err := silent.Close(); err != nil {
		t.Fatal(err)
	}
	if err := a.Join(t.Context(), netip.MustParseAddrPort(silent.Addr().String())); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("nobody: got %v", err)
	}
}

// Garbage in packets and streams, and more silent connections than are allowed,
// change nothing: the next node joins.
func TestGarbageChangesNothing(t *testing.T) {
	name := randomName()
	// Silence is not ended by a time-out here, but by the bound and by Close.
	a := newFolder(name).run(t, func(c *Config) { c.tune = func(m *memberlist.Config) { m.TCPTimeout = time.Hour } })
	packets, err := net.Dial("udp", a.Address().String())
	if err != nil {
		t.Fatal(err)
	}
	defer packets.Close()
	garbage := [][]byte{{0}, {1, 2, 3}, []byte("GET / HTTP/1.1\r\n\r\n"), make([]byte, 1400), {7, 255, 255, 255}, {9, 0x81, 0xa3}}
	for _, g := range garbage {
		if _, err := packets.Write(g); err != nil {
			t.Fatal(err)
		}
		stream, err := net.Dial("tcp", a.Address().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Write(g); err != nil {
			t.Fatal(err)
		}
		stream.Close()
	}
	for i := range maxStreams + 1 {
		stream, err := net.Dial("tcp", a.Address().String())
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		if i == maxStreams {
			if err := stream.SetReadDeadline(time.Now().Add(deadline)); err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("connection %d is still open: %v", i+1, err)
			}
		}
	}
	b := newFolder(name).run(t)
	a.mustJoin(b) // a cannot be reached now, and reaches others
	b.await(Joined, a.identity.Node)
}

// Whatever a node says of itself, reading it neither panics nor admits what is not
// its own words.
func FuzzNodeMeta(f *testing.F) {
	const node = "0123456789abcdef0123456789abcdef"
	good, err := encodeMeta(&messages.NodeMeta{Node: node, Start: 3, ClusterName: "c", Roles: []string{"worker"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(gossipName(node, 3), good)
	f.Add(gossipName(node, 4), good)
	f.Add("", []byte{})
	f.Fuzz(func(t *testing.T, name string, encoded []byte) {
		m, err := decodeMeta(name, encoded)
		if err != nil {
			if !errors.Is(err, ErrMeta) {
				t.Fatalf("got %v", err)
			}
			return
		}
		if gossipName(m.Node, m.Start) != name {
			t.Fatalf("%q was admitted as %v", name, m)
		}
		if node, start, ok := splitName(name); !ok || node != m.Node || start != m.Start {
			t.Fatalf("%q is split into %q, %d, %v", name, node, start, ok)
		}
	})
}

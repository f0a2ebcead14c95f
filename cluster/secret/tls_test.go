package secret

import (
	"crypto/tls"
	"io"
	"net"
	"testing"
)

// shake has two sides shake hands, and returns what each says.
func shake(t *testing.T, client, server *tls.Config) (clientErr, serverErr error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	done := make(chan error, 1)
	go func() {
		c := tls.Server(b, server)
		err := c.Handshake()
		if err == nil {
			_, err = c.Write([]byte("x"))
		}
		b.Close()
		done <- err
	}()
	c := tls.Client(a, client)
	if clientErr = c.Handshake(); clientErr == nil {
		_, clientErr = io.ReadFull(c, make([]byte, 1)) // a refusal comes after the handshake
	}
	a.Close()
	return clientErr, <-done
}

// Two nodes of one secret trust each other, whatever keys they drew; nobody else is
// let in, and without a secret there is no TLS.
func TestTLS(t *testing.T) {
	config := func(text string) *tls.Config {
		s, err := New([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		c, err := s.TLS()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	one, same, other := config("the secret of one cluster"), config("the secret of one cluster"), config("the secret of another one")
	if c, s := shake(t, one, same); c != nil || s != nil {
		t.Errorf("one secret: %v, %v", c, s)
	}
	if c, s := shake(t, one, other); c == nil && s == nil {
		t.Error("another secret was let in")
	}
	nobody := &tls.Config{ServerName: serverName, RootCAs: one.RootCAs, MinVersion: tls.VersionTLS13}
	if _, s := shake(t, nobody, one); s == nil {
		t.Error("a client without a certificate was let in")
	}
	if c, err := (Secret{}).TLS(); c != nil || err != nil {
		t.Errorf("without a secret: %v, %v", c, err)
	}
}

package secret

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
)

const text = "0123456789abcdef"

// Keys are the same on every node and in every version of the program: golden
// vectors, computed by RFC 5869 (HKDF-SHA256, no salt).
func TestKeysAreStable(t *testing.T) {
	s, err := New([]byte(" " + text + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	for purpose, want := range map[Purpose]string{
		Gossip:       "e9b09f1a73cb3f4ea865d44d08dd80b00a606f1e6fdd2ab851096e090cbbf3ac",
		API:          "c9ce77297d8d3b10c0500c5721e9557a752528c3b1c96dc8ed3a97cdeca7f79f",
		Announcement: "a95befaa90186b040bf2d4d3d656eb9e9442c069d0798e89fd3e7b49124d4a6d",
	} {
		if got := hex.EncodeToString(s.Key(purpose)); got != want {
			t.Errorf("%s: got %s, want %s", purpose, got, want)
		}
	}
}

// A secret that could be guessed, or that is a wrong file, is refused, and without
// one there is no key.
func TestSizeIsChecked(t *testing.T) {
	for _, bad := range [][]byte{nil, []byte("  \n"), []byte(text[1:]), bytes.Repeat([]byte("x"), MaxBytes+1)} {
		if s, err := New(bad); !errors.Is(err, ErrSize) || s.Given() {
			t.Errorf("%d bytes: got %v, %v", len(bad), s, err)
		}
	}
	if key := (Secret{}).Key(Gossip); key != nil {
		t.Errorf("no secret gives the key %x", key)
	}
}

// No way of printing shows the secret.
func TestSecretIsNotPrinted(t *testing.T) {
	s, err := New([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if got := fmt.Sprintf(format, s); strings.Contains(got, text) {
			t.Errorf("%s prints %s", format, got)
		}
	}
}

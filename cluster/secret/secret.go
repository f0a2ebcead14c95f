// Package secret holds the one secret that nodes of a cluster share, and derives
// from it a key for each purpose: who knows one key learns neither the secret nor
// another key.
//
// It comes from a file or from the environment, never from an argument, which
// everyone on the machine can read.
package secret

import (
	"bytes"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
)

// The size of a secret, in bytes. The least is what a random one needs to resist
// guessing; the most keeps a wrong file from being read as one.
const (
	MinBytes = 16
	MaxBytes = 4096
)

// KeyBytes is the size of each derived key.
const KeyBytes = 32

// Purpose names what a key is for; it ends in the version of its derivation.
type Purpose string

// The purposes.
const (
	// Gossip encrypts what membership sends (AES-256-GCM).
	Gossip Purpose = "cutwater gossip 1"
	// Announcement authenticates datagrams of discovery (HMAC-SHA256).
	Announcement Purpose = "cutwater announcement 1"
	// Authority signs the certificates of connections between nodes (seed of an
	// Ed25519 key).
	Authority Purpose = "cutwater authority 1"
	// API is the token of the HTTP API, in hexadecimal digits.
	API Purpose = "cutwater api token 1"
)

// ErrSize: the secret is too short or too long.
var ErrSize = errors.New("secret: wrong size")

// Secret is a cluster's secret. The zero value is none. It prints as a word that
// tells only whether there is one.
type Secret struct{ text []byte }

// New makes a Secret of the content of a file or a variable; white space around it
// does not count, so that a file may end in a newline. The error wraps ErrSize.
func New(text []byte) (Secret, error) {
	text = bytes.TrimSpace(text)
	if len(text) < MinBytes || len(text) > MaxBytes {
		return Secret{}, fmt.Errorf("%w: the cluster secret has %d bytes, and must have %d to %d; make one with: openssl rand -hex 32", ErrSize, len(text), MinBytes, MaxBytes)
	}
	return Secret{bytes.Clone(text)}, nil
}

// Given reports whether there is a secret.
func (s Secret) Given() bool { return len(s.text) > 0 }

// Key derives the key for a purpose, KeyBytes long; nil without a secret.
func (s Secret) Key(purpose Purpose) []byte {
	if !s.Given() {
		return nil
	}
	key, err := hkdf.Key(sha256.New, s.text, nil, string(purpose), KeyBytes)
	if err != nil {
		panic(err) // only a length above 255 hashes is an error
	}
	return key
}

// String hides the secret from logs.
func (s Secret) String() string {
	if s.Given() {
		return "given"
	}
	return "none"
}

// GoString hides it from %#v.
func (s Secret) GoString() string { return "secret.Secret(" + s.String() + ")" }

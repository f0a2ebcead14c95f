package discovery

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
)

// A datagram is the magic, a messages.Announcement, and, where there is a cluster
// secret, the HMAC-SHA256 of both. The magic ends in the version of the format and
// tells whether the HMAC is there.
var (
	magicPlain  = []byte("CWA\x01")
	magicSealed = []byte("CWA\x81")
)

// maxPacketBytes is what passes every network in one piece.
const maxPacketBytes = 1200

// The outcomes of a datagram that is not believed.
var (
	errGarbage = errors.New("discovery: not an announcement")
	errForged  = errors.New("discovery: not sealed with the cluster secret of this node")
)

// encode makes a datagram; key is nil without a secret.
func encode(a *messages.Announcement, key []byte) ([]byte, error) {
	magic := magicPlain
	if key != nil {
		magic = magicSealed
	}
	packet, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(bytes.Clone(magic), a)
	if err != nil {
		return nil, fmt.Errorf("the announcement cannot be encoded: %w", err)
	}
	if key != nil {
		packet = append(packet, seal(packet, key)...)
	}
	if len(packet) > maxPacketBytes {
		return nil, fmt.Errorf("the announcement has %d bytes, at most %d fit; shorten the cluster name", len(packet), maxPacketBytes)
	}
	return packet, nil
}

// decode reads a datagram that has the seal that key asks for: none, if it is nil.
// The error is errGarbage or errForged.
func decode(packet, key []byte) (*messages.Announcement, netip.AddrPort, error) {
	body, plain := bytes.CutPrefix(packet, magicPlain)
	sealed := false
	if !plain {
		body, sealed = bytes.CutPrefix(packet, magicSealed)
	}
	switch {
	case len(packet) > maxPacketBytes, !plain && !sealed:
		return nil, netip.AddrPort{}, errGarbage
	case sealed != (key != nil), sealed && len(body) < sha256.Size:
		return nil, netip.AddrPort{}, errForged
	}
	if sealed {
		end := len(packet) - sha256.Size
		if !hmac.Equal(packet[end:], seal(packet[:end], key)) {
			return nil, netip.AddrPort{}, errForged
		}
		body = body[:len(body)-sha256.Size]
	}
	a := &messages.Announcement{}
	if err := proto.Unmarshal(body, a); err != nil {
		return nil, netip.AddrPort{}, errGarbage
	}
	address, err := netip.ParseAddrPort(a.GossipAddress)
	if err != nil || address.Port() == 0 || address.Addr().IsUnspecified() || address.Addr().IsMulticast() || address.Addr().Zone() != "" {
		return nil, netip.AddrPort{}, errGarbage
	}
	return a, address, nil
}

func seal(text, key []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write(text)
	return mac.Sum(nil)
}

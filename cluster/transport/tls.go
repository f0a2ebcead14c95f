package transport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
)

// explainTLS finds out whether a failed handshake, or the first read after it, was
// about the secret.
func explainTLS(err error) error {
	var unknown x509.UnknownAuthorityError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var op *net.OpError
	switch {
	case errors.As(err, &unknown), errors.As(err, &record), errors.As(err, &alert),
		errors.As(err, &op) && op.Op == "remote error": // the alert of the other side
		return fmt.Errorf("%w: %w; give all nodes of the cluster the same", ErrSecret, err)
	}
	return err
}

// errTLS: the other side speaks TLS, and this one has no secret.
var errTLS = fmt.Errorf("%w: the other node has one and this one has none; give all nodes of the cluster the same", ErrSecret)

// tlsRecord reports whether the first byte of what should be a frame begins a record
// of TLS: an alert or a handshake. A frame of a hello begins with 0.
func tlsRecord(first byte) bool { return first == 0x15 || first == 0x16 }

// mixed reports whether only one side speaks TLS.
func mixed(err error) bool {
	var record tls.RecordHeaderError
	return errors.Is(err, errTLS) || errors.As(err, &record) && record.Conn != nil
}

package transport

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"

	"cutwater/cluster/secret"
)

// serverName is in all certificates. They prove that a node knows the secret, not
// which node it is: who knows the secret could issue any.
const serverName = "node.cutwater"

// Certificates hold at any time, since no two clocks are compared: they live in
// memory, and end with their process.
var (
	validFrom  = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	validUntil = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
)

// tlsConfig is for both sides of a connection: it shows a certificate of the
// authority that the secret stands for, and accepts no others.
func tlsConfig(s secret.Secret) (*tls.Config, error) {
	key := ed25519.NewKeyFromSeed(s.Key(secret.Authority))
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "cutwater cluster"},
		NotBefore: validFrom, NotAfter: validUntil,
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	raw, err := x509.CreateCertificate(nil, authority, authority, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("transport: the cluster's certificate cannot be made: %w", err)
	}
	if authority, err = x509.ParseCertificate(raw); err != nil {
		return nil, fmt.Errorf("transport: the cluster's certificate cannot be read: %w", err)
	}
	public, own, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("transport: no key can be drawn: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("transport: no serial number can be drawn: %w", err)
	}
	leaf := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "cutwater node"}, DNSNames: []string{serverName},
		NotBefore: validFrom, NotAfter: validUntil, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if raw, err = x509.CreateCertificate(nil, leaf, authority, public, key); err != nil {
		return nil, fmt.Errorf("transport: the node's certificate cannot be made: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(authority)
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{{Certificate: [][]byte{raw}, PrivateKey: own}},
		RootCAs:      pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
		ServerName:             serverName,
		SessionTicketsDisabled: true, // each connection proves the secret anew
		// Batches are large, and small records would be many.
		DynamicRecordSizingDisabled: true,
	}, nil
}

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

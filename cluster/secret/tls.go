package secret

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"time"
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

// TLS is for both sides of a connection between two nodes: it shows a certificate of
// the authority that the secret stands for, made for this call, and accepts no others.
// Without a secret it is nil, which stands for plain connections. Each call draws a
// key, so one configuration should serve a process.
func (s Secret) TLS() (*tls.Config, error) {
	if !s.Given() {
		return nil, nil
	}
	key := ed25519.NewKeyFromSeed(s.Key(Authority))
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "cutwater cluster"},
		NotBefore: validFrom, NotAfter: validUntil,
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	raw, err := x509.CreateCertificate(nil, authority, authority, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("secret: the cluster's certificate cannot be made: %w", err)
	}
	if authority, err = x509.ParseCertificate(raw); err != nil {
		return nil, fmt.Errorf("secret: the cluster's certificate cannot be read: %w", err)
	}
	public, own, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("secret: no key can be drawn: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("secret: no serial number can be drawn: %w", err)
	}
	leaf := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "cutwater node"}, DNSNames: []string{serverName},
		NotBefore: validFrom, NotAfter: validUntil, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if raw, err = x509.CreateCertificate(nil, leaf, authority, public, key); err != nil {
		return nil, fmt.Errorf("secret: the node's certificate cannot be made: %w", err)
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

package remote

import (
	"crypto/x509"
	"io"
	"net"
)

// Keys of the Secret of a repository.
const (
	KeyUsername = "username"
	KeyPassword = "password"
	KeyToken    = "token"
	KeyBearer   = "bearerToken" // as Porch calls it
	KeyCA       = "ca.crt"
)

// Roots returns the CAs of the system and of a Secret, or nil if the Secret has none.
func Roots(secret map[string][]byte) (*x509.CertPool, error) {
	bundle := secret[KeyCA]
	if len(bundle) == 0 {
		return nil, nil
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(bundle) {
		return nil, Errorf(SecretNotFound, "the key %s of the Secret has no certificate in PEM format", KeyCA)
	}
	return roots, nil
}

// IsLoopback reports whether a host is this machine. Only its repositories may use plain HTTP.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Bound returns a reader of a response that fails with the result of exceeded after limit bytes.
func Bound(response io.ReadCloser, limit int64, exceeded func() error) io.ReadCloser {
	return &bounded{response, limit, exceeded}
}

type bounded struct {
	io.ReadCloser
	left     int64
	exceeded func() error
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, b.exceeded()
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

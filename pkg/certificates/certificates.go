package certificates

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

const (
	// authorityLife is how long an authority is valid. It is not renewed: what it signed would
	// become invalid.
	authorityLife = 10 * 365 * 24 * time.Hour

	// backdate is for clocks that are late.
	backdate = time.Hour
)

// ErrLost is returned if an authority has a certificate but no readable key. What it signed is
// in use, so a new authority in its place would make all of it invalid.
var ErrLost = errors.New("the key is lost")

// Pair is a certificate and its key in PEM. A part that is nil does not exist; an empty one is
// damaged.
type Pair struct {
	Certificate, Key []byte
}

// Equal reports whether both pairs have the same bytes.
func (p Pair) Equal(other Pair) bool {
	return bytes.Equal(p.Certificate, other.Certificate) && bytes.Equal(p.Key, other.Key)
}

// Parse returns the certificate with its key. Its Leaf is set. A key that does not belong to the
// certificate is an error.
func (p Pair) Parse() (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(p.Certificate, p.Key)
	return &pair, err
}

// Authority is a certificate authority.
type Authority struct {
	pair *tls.Certificate
}

// EnsureAuthority returns the authority in old, and creates it with the given name if neither part
// of old exists. If only the certificate is lost, it signs another one with the same key: what the
// authority has signed stays valid. The second result is old if nothing changed. The error is an
// ErrLost if there is a certificate without its key.
func EnsureAuthority(old Pair, name string, now time.Time) (*Authority, Pair, error) {
	if pair, err := old.Parse(); err == nil {
		return &Authority{pair}, old, nil
	}
	key, err := parseKey(old.Key)
	switch {
	case err == nil && isOfAnother(old.Certificate, key):
		return nil, old, fmt.Errorf("%w: there is another key in its place", ErrLost)
	case err != nil && old.Certificate != nil:
		return nil, old, fmt.Errorf("%w: %w", ErrLost, err)
	case err != nil:
		// The key is stored before the certificate: without a certificate, nothing was signed.
		if key, err = newKey(); err != nil {
			return nil, old, err
		}
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(authorityLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	created, err := sign(template, template, key, key)
	if err != nil {
		return nil, old, fmt.Errorf("sign certificate %q: %w", name, err)
	}
	pair, err := created.Parse()
	return &Authority{pair}, created, err
}

// Leaf is what a certificate of a server or a client says.
type Leaf struct {
	// User is the name of the client or the server, and Groups are those of the client.
	User   string
	Groups []string
	// Names and IPs are those at which the server is reached. A certificate without them is that of
	// a client.
	Names []string
	IPs   []net.IP
	// Peer is true for a member of etcd, which is a server and a client.
	Peer bool
	// Life is how long it is valid, and RenewBefore how long before its end it is renewed.
	Life, RenewBefore time.Duration
}

func (l Leaf) usages() []x509.ExtKeyUsage {
	switch {
	case l.Peer:
		return []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	case len(l.Names)+len(l.IPs) > 0:
		return []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	default:
		return []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	}
}

// Ensure returns old if it is a valid certificate with this content, and another one otherwise: if
// it expires soon, is of another authority, says something else, or does not match its key.
func (a *Authority) Ensure(old Pair, leaf Leaf, now time.Time) (Pair, error) {
	if pair, err := old.Parse(); err == nil && a.keeps(pair.Leaf, leaf, now) {
		return old, nil
	}
	key, err := newKey()
	if err != nil {
		return old, err
	}
	created, err := sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: leaf.User, Organization: leaf.Groups},
		DNSNames:    leaf.Names,
		IPAddresses: leaf.IPs,
		NotBefore:   now.Add(-backdate),
		NotAfter:    now.Add(leaf.Life),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: leaf.usages(),
	}, a.pair.Leaf, a.pair.PrivateKey, key)
	if err != nil {
		return old, fmt.Errorf("sign certificate %q: %w", leaf.User, err)
	}
	return created, nil
}

// keeps reports whether a certificate need not be replaced.
func (a *Authority) keeps(got *x509.Certificate, want Leaf, now time.Time) bool {
	return got.NotAfter.After(now.Add(want.RenewBefore)) && got.CheckSignatureFrom(a.pair.Leaf) == nil &&
		got.Subject.CommonName == want.User && slices.Equal(got.Subject.Organization, want.Groups) &&
		slices.Equal(got.DNSNames, want.Names) && slices.EqualFunc(got.IPAddresses, want.IPs, net.IP.Equal) &&
		slices.Equal(got.ExtKeyUsage, want.usages())
}

// isOfAnother reports whether a readable certificate is that of another key.
func isOfAnother(certificate []byte, key *ecdsa.PrivateKey) bool {
	certs, err := cert.ParseCertsPEM(certificate)
	return err == nil && !key.PublicKey.Equal(certs[0].PublicKey)
}

func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

func parseKey(data []byte) (*ecdsa.PrivateKey, error) {
	parsed, err := keyutil.ParsePrivateKeyPEM(data)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("the key is of another type than ECDSA")
	}
	return key, nil
}

// sign returns a certificate of key, signed by the parent with its key.
func sign(template, parent *x509.Certificate, parentKey crypto.PrivateKey, key *ecdsa.PrivateKey) (Pair, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		return Pair{}, err
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{Certificate: pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der}), Key: keyPEM}, nil
}

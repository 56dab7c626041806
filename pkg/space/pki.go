package space

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Certificates live long: a fleet is a tool of a developer, and its keys never leave the machine.
// A leaf is made anew by the first `up` in its last month.
const (
	caLife   = 10 * 365 * 24 * time.Hour
	leafLife = 365 * 24 * time.Hour
	renewIn  = 30 * 24 * time.Hour
	backdate = time.Hour
)

// pkiDir is a directory of PEM files: <name>.crt and <name>.key.
type pkiDir struct {
	dir string
	now time.Time
}

func (p pkiDir) crt(name string) string { return filepath.Join(p.dir, name+".crt") }
func (p pkiDir) key(name string) string { return filepath.Join(p.dir, name+".key") }

// identity is a certificate with its key.
type identity struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// load reads an identity; it returns nil where there is none.
func (p pkiDir) load(name string) (*identity, error) {
	certPEM, err := os.ReadFile(p.crt(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // nothing there is an answer
	}
	if err != nil {
		return nil, err
	}
	keyPEM, err := os.ReadFile(p.key(name))
	if err != nil {
		return nil, err
	}
	certDER, _ := pem.Decode(certPEM)
	keyDER, _ := pem.Decode(keyPEM)
	if certDER == nil || keyDER == nil {
		return nil, fmt.Errorf("read %s and its key: no PEM", p.crt(name))
	}
	cert, err := x509.ParseCertificate(certDER.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", p.crt(name), err)
	}
	key, err := x509.ParseECPrivateKey(keyDER.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", p.key(name), err)
	}
	return &identity{cert: cert, key: key}, nil
}

func (p pkiDir) save(name string, certDER []byte, key *ecdsa.PrivateKey) error {
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	// The key first: a certificate without its key would be taken for whole.
	if err := writeFile(p.key(name), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})); err != nil {
		return err
	}
	return writeFile(p.crt(name), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certDER}))
}

// ca returns the certificate authority of that name, made at the first call.
func (p pkiDir) ca(name string) (*identity, error) {
	id, err := p.load(name)
	if id != nil || err != nil {
		return id, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "starling-" + filepath.Base(filepath.Dir(p.dir)) + "-" + name},
		NotBefore:             p.now.Add(-backdate),
		NotAfter:              p.now.Add(caLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	return p.sign(name, template, nil)
}

// client returns a client certificate, made or renewed as needed.
func (p pkiDir) client(name string, ca *identity, user string, groups ...string) error {
	return p.leaf(name, ca, &x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// server returns a serving certificate for the loopback address and the given names.
func (p pkiDir) server(name string, ca *identity, ips []net.IP, names ...string) error {
	return p.leaf(name, ca, &x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		DNSNames:    append([]string{"localhost"}, names...),
		IPAddresses: append([]net.IP{net.IPv4(127, 0, 0, 1)}, ips...),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

func (p pkiDir) leaf(name string, ca *identity, template *x509.Certificate) error {
	old, err := p.load(name)
	if err != nil {
		return err
	}
	if old != nil && old.cert.NotAfter.After(p.now.Add(renewIn)) && old.cert.CheckSignatureFrom(ca.cert) == nil {
		return nil
	}
	template.NotBefore = p.now.Add(-backdate)
	template.NotAfter = p.now.Add(leafLife)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	_, err = p.sign(name, template, ca)
	return err
}

// sign makes a key and a certificate signed by ca, or by itself where ca is nil.
func (p pkiDir) sign(name string, template *x509.Certificate, ca *identity) (*identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	parent := &identity{cert: template, key: key}
	if ca != nil {
		parent = ca
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent.cert, &key.PublicKey, parent.key)
	if err != nil {
		return nil, fmt.Errorf("sign certificate %s: %w", name, err)
	}
	if err := p.save(name, der, key); err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &identity{cert: cert, key: key}, nil
}

// ensureEtcdPKI makes etcd's certificates. Each space gets a client certificate of its own.
func (f *Fleet) ensureEtcdPKI(spaces []string) error {
	p := pkiDir{dir: f.layout.EtcdPKI(), now: f.clock.Now()}
	ca, err := p.ca("ca")
	if err != nil {
		return err
	}
	if err := p.server("server", ca, nil); err != nil {
		return err
	}
	if err := p.client("probe", ca, "starling-probe"); err != nil {
		return err
	}
	for _, s := range spaces {
		if err := p.client("client-"+s, ca, "kube-apiserver-"+s); err != nil {
			return err
		}
	}
	return nil
}

// serviceIP is the address of the Service kubernetes in each space.
var serviceIP = net.IPv4(10, 0, 0, 1)

// ensureSpacePKI makes the certificates of a space. Each space has authorities of its own, so that
// nobody who is somebody in one space is anybody in another.
func (f *Fleet) ensureSpacePKI(space string) error {
	p := pkiDir{dir: f.layout.PKI(space), now: f.clock.Now()}
	ca, err := p.ca("ca")
	if err != nil {
		return err
	}
	front, err := p.ca("front-proxy-ca")
	if err != nil {
		return err
	}
	if slices.Contains(f.state.WDS, space) {
		if err := p.server(programPackages, ca, nil, packagesService); err != nil {
			return err
		}
	}
	// The key of a certificate authority serves to sign ServiceAccount tokens: the API server wants
	// a key pair, in whatever file.
	if _, err := p.ca("service-account"); err != nil {
		return err
	}
	return errors.Join(
		p.server(programAPIServer, ca, []net.IP{serviceIP}, "kubernetes", "kubernetes.default",
			"kubernetes.default.svc", "kubernetes.default.svc.cluster.local"),
		p.server("component", ca, nil),
		p.client("front-proxy-client", front, "front-proxy-client"),
		p.client("admin", ca, "starling-admin", "system:masters"),
		p.client(programControllerManager, ca, "system:kube-controller-manager"),
		p.client(programScheduler, ca, "system:kube-scheduler"),
	)
}

package localfleet

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// Certificates are valid for long: a fleet is a tool for developers, and its keys never leave the
// machine. `starling up` renews a certificate that expires within a month.
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

// load reads a certificate with its key.
func (p pkiDir) load(name string) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(p.crt(name), p.key(name))
	if err != nil {
		return nil, fmt.Errorf("read %q and its key: %w", p.crt(name), err)
	}
	return &pair, nil
}

// ca returns the certificate authority of that name, and creates it if it does not exist. If only
// its certificate is lost, ca signs another one with its key: what the authority has signed stays
// valid.
func (p pkiDir) ca(name string) (*tls.Certificate, error) {
	pair, err := p.load(name)
	if err == nil {
		return pair, nil
	}
	key, keyErr := p.loadKey(name)
	if keyErr != nil {
		// The certificate is written last: without one, nothing was signed yet.
		if _, err := os.Stat(p.crt(name)); !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("the certificate authority %q is lost, and without it the credentials that it signed are invalid: %w. "+
				"Restore the file, or delete the fleet with \"starling down --delete\"", p.crt(name), keyErr)
		}
		if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return nil, err
		}
	}
	err = p.sign(name, &x509.Certificate{
		Subject:               pkix.Name{CommonName: "starling-" + filepath.Base(filepath.Dir(p.dir)) + "-" + name},
		NotBefore:             p.now.Add(-backdate),
		NotAfter:              p.now.Add(caLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}, nil, key)
	if err != nil {
		return nil, err
	}
	return p.load(name)
}

// loadKey reads the key of that name.
func (p pkiDir) loadKey(name string) (*ecdsa.PrivateKey, error) {
	parsed, err := keyutil.PrivateKeyFromFile(p.key(name))
	if err != nil {
		return nil, fmt.Errorf("read key %q: %w", p.key(name), err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("read key %q: it is of another type", p.key(name))
	}
	return key, nil
}

// client creates a client certificate, or renews it if it expires soon.
func (p pkiDir) client(name string, ca *tls.Certificate, user string, groups ...string) error {
	return p.leaf(name, ca, &x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// server creates a serving certificate for the loopback address and the given names, or renews it.
func (p pkiDir) server(name string, ca *tls.Certificate, ips []net.IP, names ...string) error {
	return p.leaf(name, ca, &x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		DNSNames:    append([]string{"localhost"}, names...),
		IPAddresses: append([]net.IP{net.IPv4(127, 0, 0, 1)}, ips...),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

// leaf creates a certificate, or renews it if it expires soon, is of another ca, or does not match
// its key: then an earlier renewal was interrupted.
func (p pkiDir) leaf(name string, ca *tls.Certificate, template *x509.Certificate) error {
	old, err := p.load(name)
	if err == nil && old.Leaf.NotAfter.After(p.now.Add(renewIn)) && old.Leaf.CheckSignatureFrom(ca.Leaf) == nil {
		return nil
	}
	template.NotBefore = p.now.Add(-backdate)
	template.NotAfter = p.now.Add(leafLife)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	return p.sign(name, template, ca, key)
}

// sign writes a key and a certificate for it. The ca signs it. If ca is nil, the certificate is
// self-signed.
func (p pkiDir) sign(name string, template *x509.Certificate, ca *tls.Certificate, key *ecdsa.PrivateKey) error {
	parent := tls.Certificate{Leaf: template, PrivateKey: key}
	if ca != nil {
		parent = *ca
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent.Leaf, &key.PublicKey, parent.PrivateKey)
	if err != nil {
		return fmt.Errorf("sign certificate %q: %w", name, err)
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return err
	}
	// The key is written first: a CA with a certificate is not created again.
	if err := writeFile(p.key(name), keyPEM); err != nil {
		return err
	}
	return writeFile(p.crt(name), pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der}))
}

// ensureEtcdPKI creates or renews etcd's certificates. Each space has its own client certificate.
func (f *Fleet) ensureEtcdPKI(spaces []string) error {
	p := f.pki("")
	ca, err := p.ca("ca")
	if err != nil {
		return err
	}
	errs := []error{p.server("server", ca, nil), p.client("probe", ca, "starling-probe")}
	for _, s := range spaces {
		errs = append(errs, p.client("client-"+s, ca, "kube-apiserver-"+s))
	}
	return errors.Join(errs...)
}

// serviceIP is the cluster IP of the Service kubernetes in each space.
var serviceIP = net.IPv4(10, 0, 0, 1)

// ensureSpacePKI creates or renews the certificates of a space. Each space has its own CAs, so that
// a client certificate of one space is not valid in another.
func (f *Fleet) ensureSpacePKI(space string) error {
	p := f.pki(space)
	ca, err := p.ca("ca")
	if err != nil {
		return err
	}
	front, err := p.ca("front-proxy-ca")
	if err != nil {
		return err
	}
	// ServiceAccount tokens are signed with the key of a CA, because the API server needs some key
	// pair.
	_, err = p.ca("service-account")
	errs := []error{
		err,
		p.server(programAPIServer, ca, []net.IP{serviceIP}, "kubernetes", "kubernetes.default",
			"kubernetes.default.svc", "kubernetes.default.svc.cluster.local"),
		p.server("component", ca, nil),
		p.client("front-proxy-client", front, "front-proxy-client"),
		p.client("admin", ca, "starling-admin", "system:masters"),
		p.client(programControllerManager, ca, "system:kube-controller-manager"),
		p.client(programScheduler, ca, "system:kube-scheduler"),
	}
	if slices.Contains(f.state.WDS, space) {
		errs = append(errs, p.server(programPackages, ca, nil, packagesService))
	}
	return errors.Join(errs...)
}

package localfleet

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/starlinghq/starling/pkg/certificates"
	"github.com/starlinghq/starling/pkg/install/packages"
)

// Certificates are valid for long: a fleet is a tool for developers, and its keys never leave the
// machine. `starling up` renews a certificate that expires within a month.
const (
	leafLife = 365 * 24 * time.Hour
	renewIn  = 30 * 24 * time.Hour
)

// pkiDir is a directory of PEM files: <name>.crt and <name>.key.
type pkiDir struct {
	dir string
	now time.Time
}

func (p pkiDir) crt(name string) string { return filepath.Join(p.dir, name+".crt") }
func (p pkiDir) key(name string) string { return filepath.Join(p.dir, name+".key") }

// read returns the pair of that name. What does not exist is nil.
func (p pkiDir) read(name string) (certificates.Pair, error) {
	crt, err := readIfExists(p.crt(name))
	if err != nil {
		return certificates.Pair{}, err
	}
	key, err := readIfExists(p.key(name))
	return certificates.Pair{Certificate: crt, Key: key}, err
}

func readIfExists(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// write writes what changed. The key is written first: an authority with a certificate is not
// created again.
func (p pkiDir) write(name string, pair certificates.Pair) error {
	if err := writeFile(p.key(name), pair.Key); err != nil {
		return err
	}
	return writeFile(p.crt(name), pair.Certificate)
}

// load reads a certificate with its key.
func (p pkiDir) load(name string) (*tls.Certificate, error) {
	pair, err := p.read(name)
	if err != nil {
		return nil, err
	}
	parsed, err := pair.Parse()
	if err != nil {
		return nil, fmt.Errorf("read %q and its key: %w", p.crt(name), err)
	}
	return parsed, nil
}

// ca returns the certificate authority of that name, and creates it if it does not exist.
func (p pkiDir) ca(name string) (*certificates.Authority, error) {
	old, err := p.read(name)
	if err != nil {
		return nil, err
	}
	ca, pair, err := certificates.EnsureAuthority(old, "starling-"+filepath.Base(filepath.Dir(p.dir))+"-"+name, p.now)
	if errors.Is(err, certificates.ErrLost) {
		return nil, fmt.Errorf("the certificate authority %q is lost, and without it the credentials that it signed are invalid: read %q: %w. "+
			"Restore the file, or delete the fleet with \"starling down --delete\"", p.crt(name), p.key(name), err)
	}
	if err != nil {
		return nil, err
	}
	return ca, p.write(name, pair)
}

// client creates a client certificate, or renews it if it expires soon.
func (p pkiDir) client(name string, ca *certificates.Authority, user string, groups ...string) error {
	return p.leaf(name, ca, certificates.Leaf{User: user, Groups: groups})
}

// server creates a serving certificate for the loopback address and the given names, or renews it.
func (p pkiDir) server(name string, ca *certificates.Authority, ips []net.IP, names ...string) error {
	return p.leaf(name, ca, certificates.Leaf{
		User:  name,
		Names: append([]string{"localhost"}, names...),
		IPs:   append([]net.IP{net.IPv4(127, 0, 0, 1)}, ips...),
	})
}

func (p pkiDir) leaf(name string, ca *certificates.Authority, leaf certificates.Leaf) error {
	leaf.Life, leaf.RenewBefore = leafLife, renewIn
	old, err := p.read(name)
	if err != nil {
		return err
	}
	pair, err := ca.Ensure(old, leaf, p.now)
	if err != nil {
		return err
	}
	return p.write(name, pair)
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
		errs = append(errs, p.server(programPackages, ca, nil, packages.ServerName))
	}
	return errors.Join(errs...)
}

package secrets

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/starlinghq/starling/pkg/certificates"
)

const (
	// leafLife and renewBefore leave two months to notice that certificates are not renewed.
	leafLife    = 90 * 24 * time.Hour
	renewBefore = 30 * 24 * time.Hour
)

// Files are the content of a Secret.
type Files map[string][]byte

// Secrets are the Secrets of a space by the suffix of their names.
type Secrets map[string]Files

// LostError says that Secrets are in use, but the authorities that signed them do not exist.
type LostError struct {
	Space Space
	// InUse are the suffixes of the Secrets that have certificates.
	InUse []string
}

// Error implements error.
func (e *LostError) Error() string {
	return fmt.Sprintf("Secret %q with the certificate authorities does not exist, but they have signed what is in Secret %q. "+
		"With other authorities, no cluster and no controller could connect any more. Restore the Secret from a backup. "+
		"If nothing uses this space, delete all its Secrets instead", e.Space.secret(Authorities), e.Space.secret(e.InUse[0]))
}

// issuer issues the files of one Secret after the other.
type issuer struct {
	old, out Secrets
	now      time.Time
}

// Ensure returns what the Secrets of the space must be, given what they are: the same files as long
// as they are valid, and new ones otherwise. Authorities are created only if nothing exists that
// they could have signed. It keeps files that it does not know.
func (s Space) Ensure(old Secrets, now time.Time) (Secrets, error) {
	if len(old[Authorities]) == 0 {
		var inUse []string
		for suffix, files := range old {
			if len(files) > 0 {
				inUse = append(inUse, suffix)
			}
		}
		if len(inUse) > 0 {
			slices.Sort(inUse)
			return nil, &LostError{Space: s, InUse: inUse}
		}
	}
	i := &issuer{old: old, out: Secrets{}, now: now}
	for suffix, files := range old {
		i.out[suffix] = maps.Clone(files)
	}
	ca, err := i.authority(s, "ca")
	if err != nil {
		return nil, err
	}
	var errs []error
	if !s.External {
		errs = append(errs, s.ensureHosted(i, ca))
	}
	for suffix, names := range s.Servers {
		errs = append(errs, i.leaf(suffix, "server", ca, certificates.Leaf{User: names[0], Names: names}))
		i.put(suffix, "ca.crt", i.out[Authorities]["ca.crt"])
	}
	return i.out, errors.Join(errs...)
}

// ensureHosted adds what a space needs that runs in the hosting cluster.
func (s Space) ensureHosted(i *issuer, ca *certificates.Authority) error {
	front, errFront := i.authority(s, "front-proxy-ca")
	etcd, errEtcd := i.authority(s, "etcd-ca")
	// ServiceAccount tokens are signed with the key of an authority, because the API server needs
	// some key pair.
	_, errAccounts := i.authority(s, "service-account")
	if err := errors.Join(errFront, errEtcd, errAccounts); err != nil {
		return err
	}
	authorities := i.out[Authorities]

	members := serving(s.secret(Etcd), append(s.names(s.secret(Etcd)), "*."+s.secret(Etcd)+"."+s.Namespace+".svc"))
	peer := members
	peer.Peer = true
	i.put(Etcd, "ca.crt", authorities["etcd-ca.crt"])
	i.put(APIServer, "ca.crt", authorities["ca.crt"])
	i.put(APIServer, "front-proxy-ca.crt", authorities["front-proxy-ca.crt"])
	i.put(APIServer, "etcd-ca.crt", authorities["etcd-ca.crt"])
	i.put(APIServer, "service-account.key", authorities["service-account.key"])
	i.put(ControllerManager, "ca.crt", authorities["ca.crt"])
	i.put(ControllerManager, "ca.key", authorities["ca.key"])
	i.put(ControllerManager, "service-account.key", authorities["service-account.key"])
	i.put(Admin, "ca.crt", authorities["ca.crt"])

	names := append(s.names(s.Name), "kubernetes", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc.cluster.local", serviceIP)
	return errors.Join(
		i.leaf(Etcd, "server", etcd, members),
		i.leaf(Etcd, "peer", etcd, peer),
		i.leaf(Etcd, "client", etcd, certificates.Leaf{User: "starling-backup"}),
		i.leaf(APIServer, "server", ca, serving(s.Name, append(names, s.Hosts...))),
		i.leaf(APIServer, "etcd-client", etcd, certificates.Leaf{User: "kube-apiserver"}),
		i.leaf(APIServer, "front-proxy-client", front, certificates.Leaf{User: "front-proxy-client"}),
		i.leaf(ControllerManager, "server", ca, serving(s.secret(ControllerManager), s.names(s.secret(ControllerManager)))),
		i.leaf(ControllerManager, "client", ca, certificates.Leaf{User: "system:kube-controller-manager"}),
		i.leaf(Admin, "client", ca, certificates.Leaf{User: "starling-admin", Groups: []string{"system:masters"}}),
		i.kubeconfig(ControllerManager, "kubeconfig", s.Name, s.inCluster(), authorities["ca.crt"], &clientcmdapi.AuthInfo{
			ClientCertificate: "client.crt", ClientKey: "client.key", // read again after a renewal
		}),
		i.kubeconfig(Admin, "kubeconfig", s.Name, s.inCluster(), authorities["ca.crt"], i.admin()),
		s.ensureExternal(i),
	)
}

// ensureExternal adds the kubeconfig for clients outside. As long as the certificate for them does
// not exist, the kubeconfig stays as it is.
func (s Space) ensureExternal(i *issuer) error {
	ca := i.out[Authorities]["ca.crt"]
	if s.URLSecret != "" {
		if s.URLCertificate == nil {
			return nil
		}
		if err := s.checkURLCertificate(); err != nil {
			return err
		}
		ca = s.URLCertificate["ca.crt"] // without one, clients trust it anyway
	}
	return i.kubeconfig(Admin, "kubeconfig-external", s.Name, s.URL, ca, i.admin())
}

// checkURLCertificate returns an error if the certificate is not one for the host of URL.
func (s Space) checkURLCertificate() error {
	failed := func(err error) error {
		return fmt.Errorf("use the certificate in Secret %q for %s: %w", s.URLSecret, s.URL, err)
	}
	block, _ := pem.Decode(s.URLCertificate["tls.crt"])
	if block == nil {
		return failed(errors.New("its key tls.crt has no certificate in PEM"))
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return failed(err)
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return failed(err)
	}
	if err := certificate.VerifyHostname(u.Hostname()); err != nil {
		return failed(err)
	}
	return nil
}

// serviceIP is the cluster IP of the Service "kubernetes" in each space.
const serviceIP = "10.0.0.1"

// serving returns the certificate of a server with these names and addresses.
func serving(user string, hosts []string) certificates.Leaf {
	leaf := certificates.Leaf{User: user, Names: []string{"localhost"}, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			leaf.IPs = append(leaf.IPs, ip)
		} else {
			leaf.Names = append(leaf.Names, host)
		}
	}
	return leaf
}

func (i *issuer) put(suffix, file string, data []byte) {
	if i.out[suffix] == nil {
		i.out[suffix] = Files{}
	}
	i.out[suffix][file] = data
}

func (i *issuer) pair(suffix, name string) certificates.Pair {
	return certificates.Pair{Certificate: i.old[suffix][name+".crt"], Key: i.old[suffix][name+".key"]}
}

func (i *issuer) putPair(suffix, name string, pair certificates.Pair) {
	i.put(suffix, name+".crt", pair.Certificate)
	i.put(suffix, name+".key", pair.Key)
}

func (i *issuer) authority(s Space, name string) (*certificates.Authority, error) {
	// A Secret is written as a whole: an authority that is not in one was never used.
	authority, pair, err := certificates.EnsureAuthority(i.pair(Authorities, name), s.Name+"-"+name, i.now)
	if err != nil {
		return nil, fmt.Errorf("read the certificate authority %q of Secret %q: %w. Restore the Secret from a backup: "+
			"without the authority, what it has signed cannot be renewed", name, s.secret(Authorities), err)
	}
	i.putPair(Authorities, name, pair)
	return authority, nil
}

func (i *issuer) leaf(suffix, name string, authority *certificates.Authority, leaf certificates.Leaf) error {
	leaf.Life, leaf.RenewBefore = leafLife, renewBefore
	pair, err := authority.Ensure(i.pair(suffix, name), leaf, i.now)
	if err != nil {
		return err
	}
	i.putPair(suffix, name, pair)
	return nil
}

// admin returns the user of the administrator's kubeconfigs. They have the certificate in them, so
// that they can be copied.
func (i *issuer) admin() *clientcmdapi.AuthInfo {
	files := i.out[Admin]
	return &clientcmdapi.AuthInfo{ClientCertificateData: files["client.crt"], ClientKeyData: files["client.key"]}
}

// kubeconfig adds a kubeconfig for a server, whose certificate one of the authorities in ca has
// signed. Without a server there is none.
func (i *issuer) kubeconfig(suffix, file, name, server string, ca []byte, user *clientcmdapi.AuthInfo) error {
	if server == "" {
		delete(i.out[suffix], file)
		return nil
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	config.AuthInfos[name] = user
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	data, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	i.put(suffix, file, data)
	return nil
}

// equal reports whether two Secrets have the same files.
func equal(a, b Files) bool { return maps.EqualFunc(a, b, bytes.Equal) }

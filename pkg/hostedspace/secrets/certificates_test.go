package secrets_test

import (
	"crypto/x509"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/starlinghq/starling/pkg/certificates"
	"github.com/starlinghq/starling/pkg/hostedspace/secrets"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func its() secrets.Space {
	return secrets.Space{
		Name: "its1", Namespace: "starling-system", Hosts: []string{"its1.example.com", "192.0.2.7"}, URL: "https://its1.example.com",
		Servers: map[string][]string{"ocm": {"its1-ocm.starling-system.svc"}},
	}
}

func ensure(t *testing.T, s secrets.Space, old secrets.Secrets, at time.Time) secrets.Secrets {
	t.Helper()
	got, err := s.Ensure(old, at)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// names returns the names of the files of each Secret.
func names(from secrets.Secrets) map[string][]string {
	out := map[string][]string{}
	for suffix, files := range from {
		out[suffix] = slices.Sorted(maps.Keys(files))
	}
	return out
}

func TestFiles(t *testing.T) {
	for name, c := range map[string]struct {
		space secrets.Space
		want  map[string][]string
	}{
		"hosted": {space: its(), want: map[string][]string{
			"authorities": {
				"ca.crt", "ca.key", "etcd-ca.crt", "etcd-ca.key", "front-proxy-ca.crt", "front-proxy-ca.key",
				"service-account.crt", "service-account.key",
			},
			"etcd": {"ca.crt", "client.crt", "client.key", "peer.crt", "peer.key", "server.crt", "server.key"},
			"apiserver": {
				"ca.crt", "etcd-ca.crt", "etcd-client.crt", "etcd-client.key", "front-proxy-ca.crt", "front-proxy-client.crt",
				"front-proxy-client.key", "server.crt", "server.key", "service-account.key",
			},
			"controller-manager": {
				"ca.crt", "ca.key", "client.crt", "client.key", "kubeconfig", "server.crt", "server.key", "service-account.key",
			},
			"admin": {"ca.crt", "client.crt", "client.key", "kubeconfig", "kubeconfig-external"},
			"ocm":   {"ca.crt", "server.crt", "server.key"},
		}},
		"another cluster": {
			space: secrets.Space{
				Name: "wds1", Namespace: "hub", External: true,
				Servers: map[string][]string{"package-server": {"wds1-package-server.hub.svc"}},
			},
			want: map[string][]string{"authorities": {"ca.crt", "ca.key"}, "package-server": {"ca.crt", "server.crt", "server.key"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := ensure(t, c.space, nil, now)
			if diff := cmp.Diff(c.want, names(got)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			for suffix, files := range got {
				for file, data := range files {
					if len(data) == 0 {
						t.Errorf("%s of %s is empty", file, suffix)
					}
				}
			}
			for _, after := range []time.Duration{0, time.Hour, 59 * 24 * time.Hour} {
				if diff := cmp.Diff(got, ensure(t, c.space, got, now.Add(after))); diff != "" {
					t.Errorf("changed after %s:\n%s", after, diff)
				}
			}
		})
	}
}

// TestCertificatesAreTrusted checks each certificate with the authority that its peer has, at the
// name that its peer uses.
func TestCertificatesAreTrusted(t *testing.T) {
	got := ensure(t, its(), nil, now)
	server, client := x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth
	for _, c := range []struct {
		suffix, file    string
		trustedBy       string
		authority, host string
		usage           x509.ExtKeyUsage
	}{
		{"etcd", "server", "apiserver", "etcd-ca", "its1-etcd.starling-system.svc", server},
		{"etcd", "server", "etcd", "ca", "its1-etcd-2.its1-etcd.starling-system.svc", server},
		{"etcd", "peer", "etcd", "ca", "its1-etcd-0.its1-etcd.starling-system.svc", server},
		{"etcd", "peer", "etcd", "ca", "", client},
		{"etcd", "client", "etcd", "ca", "", client},
		{"apiserver", "etcd-client", "etcd", "ca", "", client},
		{"apiserver", "front-proxy-client", "apiserver", "front-proxy-ca", "", client},
		{"apiserver", "server", "admin", "ca", "its1.starling-system.svc", server},
		{"apiserver", "server", "admin", "ca", "its1.example.com", server},
		{"apiserver", "server", "admin", "ca", "192.0.2.7", server},
		{"apiserver", "server", "admin", "ca", "10.0.0.1", server},
		{"controller-manager", "client", "apiserver", "ca", "", client},
		{"admin", "client", "apiserver", "ca", "", client},
		{"ocm", "server", "ocm", "ca", "its1-ocm.starling-system.svc", server},
	} {
		pair, err := certificates.Pair{Certificate: got[c.suffix][c.file+".crt"], Key: got[c.suffix][c.file+".key"]}.Parse()
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(got[c.trustedBy][c.authority+".crt"]) {
			t.Fatalf("%s of %s is no certificate", c.authority, c.trustedBy)
		}
		_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, DNSName: c.host, KeyUsages: []x509.ExtKeyUsage{c.usage}})
		if err != nil {
			t.Errorf("%s of %s at %q: %v", c.file, c.suffix, c.host, err)
		}
	}
}

func TestKubeconfigs(t *testing.T) {
	got := ensure(t, its(), nil, now)
	for _, c := range []struct{ suffix, file, server, clientFile string }{
		{"admin", "kubeconfig", "https://its1.starling-system.svc", ""},
		{"admin", "kubeconfig-external", "https://its1.example.com", ""},
		{"controller-manager", "kubeconfig", "https://its1.starling-system.svc", "client.crt"},
	} {
		config, err := clientcmd.Load(got[c.suffix][c.file])
		if err != nil {
			t.Fatal(err)
		}
		cluster, user := config.Clusters["its1"], config.AuthInfos["its1"]
		if config.CurrentContext != "its1" || cluster.Server != c.server || user.ClientCertificate != c.clientFile {
			t.Errorf("%s of %s: context %q, server %q, file %q", c.file, c.suffix, config.CurrentContext, cluster.Server, user.ClientCertificate)
		}
		// A component that reads a file follows a renewal. One with a copy does not.
		if c.clientFile == "" && string(user.ClientCertificateData) != string(got["admin"]["client.crt"]) {
			t.Errorf("%s of %s has another certificate than the Secret", c.file, c.suffix)
		}
	}
	s := its()
	s.URL = ""
	if _, found := ensure(t, s, got, now)["admin"]["kubeconfig-external"]; found {
		t.Error("there is a kubeconfig for outside without a URL")
	}
}

// TestRenewal checks that all certificates are renewed in time, that authorities never are, and
// that nothing else changes.
func TestRenewal(t *testing.T) {
	old := ensure(t, its(), nil, now)
	old["etcd"]["somebody-elses"] = []byte("kept")
	got := ensure(t, its(), old, now.Add(61*24*time.Hour))
	var kept []string
	for suffix, files := range got {
		for file, data := range files {
			if string(data) == string(old[suffix][file]) {
				kept = append(kept, suffix+"/"+file)
			}
		}
	}
	slices.Sort(kept)
	want := []string{
		"admin/ca.crt", "apiserver/ca.crt", "apiserver/etcd-ca.crt", "apiserver/front-proxy-ca.crt", "apiserver/service-account.key",
		"authorities/ca.crt", "authorities/ca.key", "authorities/etcd-ca.crt", "authorities/etcd-ca.key",
		"authorities/front-proxy-ca.crt", "authorities/front-proxy-ca.key", "authorities/service-account.crt",
		"authorities/service-account.key", "controller-manager/ca.crt", "controller-manager/ca.key",
		"controller-manager/kubeconfig", "controller-manager/service-account.key", "etcd/ca.crt", "etcd/somebody-elses", "ocm/ca.crt",
	}
	if diff := cmp.Diff(want, kept); diff != "" {
		t.Errorf("files that a renewal keeps (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(names(old), names(got)); diff != "" {
		t.Errorf("files (-before +after):\n%s", diff)
	}
}

// TestAuthoritiesAreNeverReplaced checks each Secret of a space that is in use when its authorities
// are lost, and each file of an authority.
func TestAuthoritiesAreNeverReplaced(t *testing.T) {
	whole := ensure(t, its(), nil, now)
	for suffix, files := range whole {
		if suffix == secrets.Authorities {
			continue
		}
		_, err := its().Ensure(secrets.Secrets{suffix: files}, now)
		if _, is := errors.AsType[*secrets.LostError](err); !is {
			t.Errorf("only Secret %s is left: want a LostError, got %v", suffix, err)
		}
	}
	for _, name := range []string{"ca", "front-proxy-ca", "etcd-ca", "service-account"} {
		damaged := ensure(t, its(), whole, now)
		delete(damaged[secrets.Authorities], name+".key")
		if _, err := its().Ensure(damaged, now); !errors.Is(err, certificates.ErrLost) {
			t.Errorf("the key of %s is lost: want an ErrLost, got %v", name, err)
		}
	}
	for suffix := range whole {
		if suffix == secrets.Authorities {
			continue
		}
		damaged := maps.Clone(whole)
		delete(damaged, suffix)
		got := ensure(t, its(), damaged, now)
		if diff := cmp.Diff(whole[secrets.Authorities], got[secrets.Authorities]); diff != "" {
			t.Errorf("Secret %s is lost: the authorities changed", suffix)
		}
		if diff := cmp.Diff(names(whole), names(got)); diff != "" {
			t.Errorf("Secret %s is lost: files (-before +after):\n%s", suffix, diff)
		}
	}
}

func TestValidate(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*secrets.Space)
		want   string
	}{
		"valid":           {change: func(*secrets.Space) {}},
		"a long name":     {change: func(s *secrets.Space) { s.Name = strings.Repeat("a", 36) }, want: "no more than 35 characters"},
		"a capital":       {change: func(s *secrets.Space) { s.Name = "ITS" }, want: `space "ITS" is not valid`},
		"no namespace":    {change: func(s *secrets.Space) { s.Namespace = "" }, want: `namespace "" is not valid`},
		"a URL as a host": {change: func(s *secrets.Space) { s.Hosts = []string{"https://a"} }, want: `host "https://a" is not valid`},
		"another Secret":  {change: func(s *secrets.Space) { s.Servers["admin"] = []string{"a"} }, want: `server "admin" is not valid`},
		"no names":        {change: func(s *secrets.Space) { s.Servers["x"] = nil }, want: `server "x" is not valid: it has no name`},
		"a wrong name":    {change: func(s *secrets.Space) { s.Servers["x"] = []string{"a b"} }, want: `name of server "a b" is not valid`},
	} {
		t.Run(name, func(t *testing.T) {
			s := its()
			c.change(&s)
			switch err := s.Validate(); {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("want an error with %q, got %v", c.want, err)
			}
		})
	}
}

// TestCertificateForTheURL: the kubeconfig for clients outside has the authority of the certificate
// that somebody else keeps for them, and all others have that of the space.
func TestCertificateForTheURL(t *testing.T) {
	company, pair, err := certificates.EnsureAuthority(certificates.Pair{}, "company", now)
	if err != nil {
		t.Fatal(err)
	}
	certificate := func(name string) secrets.Files {
		leaf, err := company.Ensure(certificates.Pair{}, certificates.Leaf{User: name, Names: []string{name}, Life: time.Hour}, now)
		if err != nil {
			t.Fatal(err)
		}
		return secrets.Files{"tls.crt": leaf.Certificate, "tls.key": leaf.Key, "ca.crt": pair.Certificate}
	}
	authorityOf := func(text []byte) string {
		config, err := clientcmd.Load(text)
		if err != nil {
			t.Fatal(err)
		}
		return string(config.Clusters["its1"].CertificateAuthorityData)
	}
	s := its()
	own := ensure(t, s, nil, now)
	if got := authorityOf(own["admin"]["kubeconfig-external"]); got != string(own["authorities"]["ca.crt"]) {
		t.Error("without another certificate, the authority is not that of the space")
	}

	// It may come later: until then, everything is as before.
	s.URLSecret = "its1-external"
	if diff := cmp.Diff(own, ensure(t, s, own, now)); diff != "" {
		t.Errorf("changed before the certificate exists:\n%s", diff)
	}
	if got := ensure(t, s, nil, now); got["admin"]["kubeconfig-external"] != nil || got["admin"]["kubeconfig"] == nil {
		t.Errorf("the kubeconfigs of a new space without the certificate are %v", names(got)["admin"])
	}

	s.URLCertificate = certificate("its1.example.com")
	got := ensure(t, s, own, now)
	if authorityOf(got["admin"]["kubeconfig-external"]) != string(pair.Certificate) {
		t.Error("the authority is not that of the certificate")
	}
	delete(got["admin"], "kubeconfig-external")
	delete(own["admin"], "kubeconfig-external")
	if diff := cmp.Diff(own, got); diff != "" {
		t.Errorf("something else changed:\n%s", diff)
	}

	// Clients trust it anyway.
	delete(s.URLCertificate, "ca.crt")
	if got := authorityOf(ensure(t, s, own, now)["admin"]["kubeconfig-external"]); got != "" {
		t.Errorf("the authority is %s", got)
	}

	s.URLCertificate = certificate("its2.example.com")
	if _, err := s.Ensure(own, now); err == nil || !strings.Contains(err.Error(), `Secret "its1-external"`) || !strings.Contains(err.Error(), "its2.example.com") {
		t.Errorf("a certificate for another host: %v", err)
	}
	s.URLCertificate = secrets.Files{}
	if _, err := s.Ensure(own, now); err == nil || !strings.Contains(err.Error(), "tls.crt") {
		t.Errorf("a Secret without a certificate: %v", err)
	}
	for _, name := range []string{"its1-admin", "its1-ocm", "Not a name"} {
		s.URLSecret = name
		if err := s.Validate(); err == nil {
			t.Errorf("Secret %q is accepted", name)
		}
	}
}

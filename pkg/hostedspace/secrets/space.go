package secrets

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Suffixes of the names of Secrets. Each is the name of the space, "-" and the suffix.
const (
	Authorities       = "authorities"
	Etcd              = "etcd"
	APIServer         = "apiserver"
	ControllerManager = "controller-manager"
	Admin             = "admin"
)

// maxName is the longest name of a space. Names of objects of the chart begin with it, and the
// longest of them are labels too.
const maxName = 35

// Space is what certificates and kubeconfigs of a space depend on.
type Space struct {
	// Name is the name of the space, of its Service and of its context in kubeconfigs. Namespace is
	// where it runs.
	Name, Namespace string
	// External is true for a space that is another cluster. It has only the certificates of
	// Servers.
	External bool
	// Hosts are further names and addresses of its API server.
	Hosts []string
	// URL is where the API server is reached from outside of the hosting cluster. May be empty.
	URL string
	// URLSecret is the name of a Secret with another certificate for the host of URL, which this
	// package does not write. If empty, the space's own certificate is for it too.
	URLSecret string
	// URLCertificate is what is in that Secret. It is nil if the Secret does not exist yet.
	URLCertificate Files
	// Servers are names of Services that the API server connects to, by the suffix of the Secret
	// with the certificate.
	Servers map[string][]string
}

// Validate returns an error that says all that is wrong.
func (s Space) Validate() error {
	var errs []error
	wrong := func(field, value string, problems []string) {
		if len(problems) > 0 {
			errs = append(errs, fmt.Errorf("%s %q is not valid: %s", field, value, strings.Join(problems, "; ")))
		}
	}
	problems := validation.IsDNS1035Label(s.Name)
	if len(s.Name) > maxName {
		problems = append(problems, fmt.Sprintf("must be no more than %d characters, because names of objects begin with it", maxName))
	}
	wrong("space", s.Name, problems)
	wrong("namespace", s.Namespace, validation.IsDNS1123Label(s.Namespace))
	for _, host := range s.Hosts {
		if len(validation.IsValidIP(nil, host)) > 0 {
			wrong("host", host, validation.IsDNS1123Subdomain(host))
		}
	}
	if s.URLSecret != "" {
		wrong("Secret", s.URLSecret, validation.IsDNS1123Subdomain(s.URLSecret))
		if s.URL == "" {
			wrong("Secret", s.URLSecret, []string{"its certificate is for a URL, but there is none"})
		}
		if slices.ContainsFunc(s.suffixes(), func(suffix string) bool { return s.secret(suffix) == s.URLSecret }) {
			wrong("Secret", s.URLSecret, []string{"it has other certificates of the space"})
		}
	}
	own := []string{Authorities, Etcd, APIServer, ControllerManager, Admin}
	for _, suffix := range slices.Sorted(maps.Keys(s.Servers)) {
		wrong("server", suffix, validation.IsDNS1123Label(suffix))
		if slices.Contains(own, suffix) {
			wrong("server", suffix, []string{"this Secret has other content"})
		}
		if len(s.Servers[suffix]) == 0 {
			wrong("server", suffix, []string{"it has no name"})
		}
		for _, name := range s.Servers[suffix] {
			wrong("name of server", name, validation.IsDNS1123Subdomain(name))
		}
	}
	return errors.Join(errs...)
}

func (s Space) secret(suffix string) string { return s.Name + "-" + suffix }

// suffixes returns the suffixes of the Secrets of s, in the order in which they are written.
func (s Space) suffixes() []string {
	out := []string{Authorities}
	if !s.External {
		out = append(out, Etcd, APIServer, ControllerManager, Admin)
	}
	return append(out, slices.Sorted(maps.Keys(s.Servers))...)
}

// names are the names of a Service that pods use.
func (s Space) names(service string) []string {
	return []string{service, service + "." + s.Namespace, service + "." + s.Namespace + ".svc"}
}

// inCluster is the URL of the API server in the hosting cluster.
func (s Space) inCluster() string { return "https://" + s.Name + "." + s.Namespace + ".svc" }

package remote

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Hosts are the hosts that Repositories may name and that credentials may be sent to: names, IP
// addresses, or *.domain for all names below a domain. An empty list allows all hosts.
type Hosts []string

// Validate returns the first pattern that is not valid.
func (h Hosts) Validate() error {
	for _, pattern := range h {
		name := strings.TrimPrefix(pattern, "*.")
		if name == pattern && len(validation.IsValidIP(nil, name)) == 0 || len(validation.IsDNS1123Subdomain(name)) == 0 {
			continue
		}
		return fmt.Errorf("%q is not a host name, an IP address or *.domain", pattern)
	}
	return nil
}

// Allow reports whether a host without port is allowed.
func (h Hosts) Allow(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	return len(h) == 0 || slices.ContainsFunc(h, func(pattern string) bool {
		if domain, ok := strings.CutPrefix(pattern, "*"); ok {
			return strings.HasSuffix(host, domain)
		}
		return host == pattern
	})
}

// Check returns an error if a host that a field of a Repository names is not allowed.
func (h Hosts) Check(field, host string) error {
	if h.Allow(host) {
		return nil
	}
	return Errorf(InvalidSpec, "%s: host %q is not allowed: the flag --repository-hosts of binding-controller has the allowed hosts", field, host)
}

package credentials

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/starlinghq/starling/pkg/install/manifest"
)

// Request is which credentials are to exist.
type Request struct {
	// Space is the name of the space, and of the context in kubeconfigs.
	Space       string
	Credentials List
	// Server is the URL of the space for the controllers. ServerName is the name that its
	// certificate is for, if it is not the host of Server.
	Server, ServerName string
	// CA has the authorities of which one has signed the certificate of the space, in PEM. If
	// empty, those of the pod are used.
	CA []byte
	// Namespace is that of the Secrets. Their names are Prefix and the name of the credential.
	Namespace, Prefix string
	// Lifetime is how long a token is valid. It is renewed when less than RenewBefore is left.
	Lifetime, RenewBefore time.Duration
	// Timeout bounds everything that is waited for.
	Timeout time.Duration
}

// Credential is the credential of one controller.
type Credential struct {
	Name    string
	Account manifest.Account
}

// List is a flag that may be repeated, each time with the value NAME=NAMESPACE/SERVICEACCOUNT.
type List []Credential

var _ pflag.Value = (*List)(nil)

// String implements pflag.Value.
func (l *List) String() string {
	parts := make([]string, 0, len(*l))
	for _, c := range *l {
		parts = append(parts, c.Name+"="+c.Account.String())
	}
	return strings.Join(parts, ",")
}

// Type implements pflag.Value.
func (*List) Type() string { return "NAME=NAMESPACE/SERVICEACCOUNT" }

// Set implements pflag.Value.
func (l *List) Set(value string) error {
	name, account, _ := strings.Cut(value, "=")
	namespace, accountName, _ := strings.Cut(account, "/")
	if name == "" || len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(accountName)) > 0 {
		return errors.New("must be NAME=NAMESPACE/SERVICEACCOUNT")
	}
	if slices.ContainsFunc(*l, func(c Credential) bool { return c.Name == name }) {
		return fmt.Errorf("duplicate name %q", name)
	}
	*l = append(*l, Credential{Name: name, Account: manifest.Account{Namespace: namespace, Name: accountName}})
	return nil
}

// secretName returns the name of the Secret of a credential.
func (r *Request) secretName(c Credential) string { return r.Prefix + c.Name }

// validate returns an error that names the flag with the mistake.
func (r *Request) validate() error {
	// API servers grant no shorter lifetime.
	const shortest = 10 * time.Minute
	switch {
	case r.Space == "":
		return errors.New("--space is required")
	case len(validation.IsDNS1123Label(r.Space)) > 0:
		return fmt.Errorf("invalid --space %q: %s", r.Space, validation.IsDNS1123Label(r.Space)[0])
	case r.Namespace == "":
		return errors.New("--namespace is required: that of the Secrets in the hosting cluster")
	case len(r.Credentials) == 0:
		return errors.New("--credential is required at least once")
	case r.Lifetime < shortest:
		return fmt.Errorf("invalid --lifetime %s: must be at least %s", r.Lifetime, shortest)
	case r.RenewBefore <= 0 || r.RenewBefore >= r.Lifetime:
		return fmt.Errorf("invalid --renew-before %s: must be greater than 0 and less than --lifetime, which is %s", r.RenewBefore, r.Lifetime)
	case r.Timeout <= 0:
		return fmt.Errorf("invalid --timeout %s: must be greater than 0", r.Timeout)
	}
	for _, c := range r.Credentials {
		if problems := validation.IsDNS1123Subdomain(r.secretName(c)); len(problems) > 0 {
			return fmt.Errorf("invalid name %q of a Secret, from --secret-prefix and --credential: %s", r.secretName(c), problems[0])
		}
	}
	return nil
}

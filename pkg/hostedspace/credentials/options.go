package credentials

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/starlinghq/starling/pkg/hostedspace/access"
)

// Options are the flags of the command.
type Options struct {
	// Access says how the space and the hosting cluster are reached.
	Access access.Options

	request  Request
	serverCA string
}

// AddFlags adds the flags.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	const lifetime, renewBefore, timeout = 24 * time.Hour, 18 * time.Hour, 5 * time.Minute
	r := &o.request
	o.Access.AddFlags(flags)
	flags.StringVar(&r.Space, "space", "", "Name of the space.")
	flags.Var(&r.Credentials, "credential", "Name of a credential, and the ServiceAccount in the space that it is for. May be repeated.")
	flags.StringVar(&r.Namespace, "namespace", "", "Namespace of the Secrets in the hosting cluster.")
	flags.StringVar(&r.Prefix, "secret-prefix", "", "What the name of each Secret begins with. The name of the credential follows.")
	flags.StringVar(&r.Server, "server", "", "URL of the space for those who use the credentials. If empty, that in the kubeconfig is used.")
	flags.StringVar(&o.serverCA, "server-ca", "", "File with the authority of the certificate of the space. If empty, that in the kubeconfig is used.")
	flags.DurationVar(&r.Lifetime, "lifetime", lifetime, "How long a token is valid.")
	flags.DurationVar(&r.RenewBefore, "renew-before", renewBefore, "A token is renewed when less than this is left of its lifetime.")
	flags.DurationVar(&r.Timeout, "timeout", timeout, "How long to wait for the space and for the ServiceAccounts.")
}

// Validate returns an error that names the flag with a mistake.
func (o *Options) Validate() error {
	if err := o.request.validate(); err != nil {
		return err
	}
	if err := o.Access.Validate(); err != nil {
		return err
	}
	if server := o.request.Server; server != "" {
		if u, err := url.Parse(server); err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
			return fmt.Errorf("invalid --server %q: must be https://HOST[:PORT][/PATH]", server)
		}
	}
	return nil
}

// Space returns the configuration of the administrator of the space. It waits as long as the flags
// say.
func (o *Options) Space(ctx context.Context, out io.Writer) (*rest.Config, error) {
	return o.Access.Space(ctx, o.request.Space, o.request.Timeout, out)
}

// Request returns what the flags ask for. What they leave empty is that of the configuration with
// which the space is administered.
func (o *Options) Request(space *rest.Config) (*Request, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	r := o.request
	if r.Server == "" {
		r.Server, r.ServerName = space.Host, space.ServerName
	}
	if o.serverCA != "" {
		text, err := os.ReadFile(o.serverCA)
		if err != nil {
			return nil, fmt.Errorf("read --server-ca: %w", err)
		}
		if !x509.NewCertPool().AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("invalid --server-ca %q: the file has no certificate in PEM", o.serverCA)
		}
		r.CA = text
		return &r, nil
	}
	if space.Insecure {
		return nil, errors.New("--server-ca is required: the kubeconfig of the space does not verify its certificate, and credentials must")
	}
	loaded := rest.CopyConfig(space)
	if err := rest.LoadTLSFiles(loaded); err != nil {
		return nil, fmt.Errorf("read the authority in the kubeconfig of the space: %w", err)
	}
	r.CA = loaded.CAData
	return &r, nil
}

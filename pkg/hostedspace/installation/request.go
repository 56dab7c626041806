package installation

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/starlinghq/starling/pkg/install/packages"
)

// Type is the type of a space. It is also the name of its chart.
type Type string

// The types of spaces that can be installed.
const (
	WDS Type = "wds"
	ITS Type = "its"
)

// Request is what a space is to have.
type Request struct {
	Type Type
	// Name is the name of the space in messages. It is recorded in the space.
	Name string
	// Webhooks are OCM's webhooks in an ITS. If nil, OCM's hub must be installed already.
	Webhooks *Endpoint
	// Address is where clusters outside find the space. If nil, it is not published.
	Address *Endpoint
	// Packages is the package-server of a WDS. If nil, none is registered.
	Packages *packages.Server
	// Values override those of the chart.
	Values map[string]any
	// Timeout bounds everything that is waited for.
	Timeout time.Duration
}

// Endpoint is a server, and the authorities of which one has signed its certificate, in PEM. There
// may be none for the address of a space: then its clients trust it anyway.
type Endpoint struct {
	URL string
	CA  []byte
}

// validate returns an error that names the flag with the mistake.
func (r *Request) validate() error {
	switch r.Type {
	case WDS, ITS:
	case "":
		return errors.New("--type is required: wds or its")
	default:
		return fmt.Errorf("invalid --type %q: must be wds or its", r.Type)
	}
	if r.Name == "" {
		return errors.New("--name is required: it is recorded in the space")
	}
	if problems := validation.IsDNS1123Label(r.Name); len(problems) > 0 {
		return fmt.Errorf("invalid --name %q: %s", r.Name, problems[0])
	}
	if r.Webhooks != nil && r.Type != ITS {
		return errors.New("--webhook-url is for an ITS: a WDS has no webhooks of OCM")
	}
	if r.Packages != nil && r.Type != WDS {
		return errors.New("--package-server is for a WDS: an ITS has no packages")
	}
	if r.Timeout <= 0 {
		return fmt.Errorf("invalid --timeout %s: must be greater than 0", r.Timeout)
	}
	return nil
}

// parseURL returns a URL as a prefix of paths.
func parseURL(flag, text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("invalid --%s %q: must be https://HOST[:PORT][/PATH]", flag, text)
	}
	return strings.TrimSuffix(text, "/"), nil
}

// parseServer returns the host and the port in --package-server, HOST[:PORT].
func parseServer(text string) (host string, port int, err error) {
	const https = 443
	host, portText, hasPort := strings.Cut(text, ":")
	port = https
	if hasPort {
		port, err = strconv.Atoi(portText)
	}
	switch {
	case net.ParseIP(text) != nil || net.ParseIP(host) != nil:
		return "", 0, fmt.Errorf("invalid --package-server %q: must be a DNS name, since a Service of type ExternalName cannot have an IP address", text)
	case err != nil || len(validation.IsValidPortNum(port)) > 0 || len(validation.IsDNS1123Subdomain(host)) > 0:
		return "", 0, fmt.Errorf("invalid --package-server %q: must be HOST[:PORT] with a DNS name", text)
	}
	return host, port, nil
}

// checkCA returns an error unless the text has certificates in PEM.
func checkCA(flag, file string, text []byte) error {
	if !x509.NewCertPool().AppendCertsFromPEM(text) {
		return fmt.Errorf("invalid --%s %q: the file has no certificate in PEM", flag, file)
	}
	return nil
}

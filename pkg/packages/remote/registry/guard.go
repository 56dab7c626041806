package registry

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	packageremote "github.com/starlinghq/starling/pkg/packages/remote"
)

// NewTransport returns a transport with bounded waiting times. roots are the CAs that it trusts;
// nil means those of the system. connections bounds the idle connections to one host.
func NewTransport(roots *x509.CertPool, connections int) *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:       &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:   30 * time.Second,
		ResponseHeaderTimeout: time.Minute,
		IdleConnTimeout:       90 * time.Second,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   connections,
	}
}

// Guard is a transport for one registry. It refuses plain HTTP except for loopback addresses,
// bounds responses, and sends credentials to allowed hosts only. A registry names the server that
// exchanges them for a token, and redirects downloads to other servers.
type Guard struct {
	Next http.RoundTripper
	// Host is the host of the registry, without port. If it is not a loopback address, nothing is
	// sent to one.
	Host string
	// Bytes bounds a blob; Documents bounds any other response.
	Bytes     int64
	Documents int64
	// Check returns an error if a host, without port, may not receive credentials.
	Check func(host string) error
}

// ErrPlainHTTP is returned if a registry would be reached without encryption, or redirects there.
var ErrPlainHTTP = errors.New("plain HTTP is allowed for loopback addresses only: use HTTPS")

// errRedirected is returned if a redirect would take credentials, or what was sent, to another
// host.
var errRedirected = errors.New("the registry redirects a request with credentials to another host")

// errLoopback is returned if a registry names a server of this machine.
var errLoopback = errors.New("the registry redirects a request to a loopback address")

// RoundTrip sends a request that is allowed.
func (g *Guard) RoundTrip(request *http.Request) (*http.Response, error) {
	loopback := packageremote.IsLoopback(request.URL.Hostname())
	if request.URL.Scheme != "https" && !loopback {
		return nil, ErrPlainHTTP
	}
	if loopback && !packageremote.IsLoopback(g.Host) {
		return nil, errLoopback
	}
	if secret(request) {
		if via := request.Response; via != nil && via.Request != nil && via.Request.URL.Host != request.URL.Host {
			return nil, errRedirected
		}
		if err := g.Check(request.URL.Hostname()); err != nil {
			return nil, err
		}
	}
	response, err := g.Next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	limit := g.Documents
	if isBlob(request) {
		limit = g.Bytes
	}
	response.Body = packageremote.Bound(response.Body, limit, func() error {
		return packageremote.Errorf(packageremote.TooLarge, "the registry sends more than the limit of %d MiB", limit>>20)
	})
	return response, nil
}

// secret reports whether a request may have credentials: in its header, or in the form of a request
// for a token.
func secret(request *http.Request) bool {
	return request.Header.Get("Authorization") != "" || request.Method == http.MethodPost
}

// isBlob reports whether a request is for a blob, perhaps redirected.
func isBlob(request *http.Request) bool {
	for request.Response != nil && request.Response.Request != nil {
		request = request.Response.Request
	}
	return strings.Contains(request.URL.Path, "/blobs/")
}

// Settings are the options of a client of one registry. It sends each request once: the caller
// repeats what failed.
func Settings(guard *Guard, auth authn.Authenticator, jobs int) []remote.Option {
	return []remote.Option{
		remote.WithAuth(auth), remote.WithTransport(guard), remote.WithJobs(jobs),
		remote.WithRetryPredicate(func(error) bool { return false }), remote.WithRetryStatusCodes(),
	}
}

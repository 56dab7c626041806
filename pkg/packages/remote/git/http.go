package git

import (
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
)

// maxRedirects is the maximum number of redirects, which must stay on one host.
const maxRedirects = 5

// newHTTP returns a source over HTTP. It shares nothing with other repositories, and close closes
// all connections.
func newHTTP(a address, c credentials, o Options) *serverSource {
	connections := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		TLSClientConfig:       &tls.Config{RootCAs: c.roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:   30 * time.Second,
		ResponseHeaderTimeout: o.Limits.Timeout,
		ForceAttemptHTTP2:     true,
	}
	received := &transfer{limit: o.Limits.Bytes}
	client := githttp.NewClient(&http.Client{
		Transport: limitedTransport{connections, received},
		CheckRedirect: func(request *http.Request, via []*http.Request) error {
			// Credentials and requests are sent to the named server only.
			if request.URL.Host != via[0].URL.Host || request.URL.Scheme != via[0].URL.Scheme {
				return errRedirectHost
			}
			if len(via) > maxRedirects {
				return errors.New("the server redirects too often")
			}
			return nil
		},
	})
	var auth transport.AuthMethod
	switch {
	case c.username != "" || c.password != "":
		auth = &githttp.BasicAuth{Username: c.username, Password: c.password}
	case c.token != "":
		auth = &githttp.TokenAuth{Token: c.token}
	}
	endpoint := func() *transport.Endpoint { // sessions modify their endpoint
		return &transport.Endpoint{Protocol: a.scheme, Host: urlHost(a.host), Port: a.port, Path: a.path}
	}
	return &serverSource{
		upload:           func() (transport.UploadPackSession, error) { return client.NewUploadPackSession(endpoint(), auth) },
		receive:          func() (transport.ReceivePackSession, error) { return client.NewReceivePackSession(endpoint(), auth) },
		closeConnections: connections.CloseIdleConnections,
		limits:           o.Limits,
		transfer:         received,
		temp:             o.TempDir,
	}
}

// urlHost returns a host in the form of a URL.
func urlHost(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

// limitedTransport bounds how much of a response is read: the library reads advertisements and
// errors completely.
type limitedTransport struct {
	next     http.RoundTripper
	transfer *transfer
}

func (l limitedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	const errorText = 4 << 10
	response, err := l.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		response.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(response.Body, errorText), response.Body}
		return response, nil
	}
	response.Body = l.transfer.bound(response.Body)
	return response, nil
}

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

	"github.com/starlinghq/starling/pkg/repository"
)

// maxRedirects is how many are followed, all at one host.
const maxRedirects = 5

var errOtherHost = errors.New("the server redirects to another host: name that one in spec.git.repo")

// newHTTP returns how to talk to a server over HTTP. Nothing is shared with other repositories, and close ends all connections.
func newHTTP(a address, c credentials, o Options) *wire {
	connections := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		TLSClientConfig:       &tls.Config{RootCAs: c.roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:   30 * time.Second,
		ResponseHeaderTimeout: o.Limits.Timeout,
		ForceAttemptHTTP2:     true,
	}
	client := githttp.NewClient(&http.Client{
		Transport: limited{connections, o.Limits.Bytes},
		CheckRedirect: func(request *http.Request, via []*http.Request) error {
			// Credentials and requests stay with the server that was named.
			if request.URL.Host != via[0].URL.Host || request.URL.Scheme != via[0].URL.Scheme {
				return errOtherHost
			}
			if len(via) > maxRedirects {
				return errors.New("the server redirects without end")
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
	endpoint := func() *transport.Endpoint { // sessions change theirs
		return &transport.Endpoint{Protocol: a.scheme, Host: inURL(a.host), Port: a.port, Path: a.path}
	}
	return &wire{
		upload:  func() (transport.UploadPackSession, error) { return client.NewUploadPackSession(endpoint(), auth) },
		receive: func() (transport.ReceivePackSession, error) { return client.NewReceivePackSession(endpoint(), auth) },
		finish:  connections.CloseIdleConnections,
		limits:  o.Limits,
		temp:    o.TempDir,
	}
}

// inURL writes a host as a URL has it.
func inURL(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

// limited bounds how much of an answer is read: an advertisement and an error are read whole before they are looked at.
type limited struct {
	next  http.RoundTripper
	bytes int64
}

// RoundTrip sends the request.
func (l limited) RoundTrip(request *http.Request) (*http.Response, error) {
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
	response.Body = &bounded{response.Body, l.bytes, l.bytes}
	return response, nil
}

const tooLargeText = "the server sends more than"

// bounded is a reader that fails after so many bytes.
type bounded struct {
	io.ReadCloser
	left, limit int64
}

// Read reads, up to the limit.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, repository.Errorf(repository.TooLarge, "%s %d MiB at once", tooLargeText, b.limit>>20)
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	return n, err
}

package oci

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"golang.org/x/sync/errgroup"

	"github.com/starlinghq/starling/pkg/repository"
)

// Options say which registry is opened, and how.
type Options struct {
	// Registry is host[:port][/path], as in spec.oci.registry.
	Registry string
	// Packages are looked for; without them, the registry's catalogue tells.
	Packages []string
	// Secret is what the Secret holds that the Repository names; nil if it names none.
	Secret map[string][]byte
	// Limits bound what it costs.
	Limits repository.Limits
}

// Keys of the Secret of a registry.
const (
	keyDockerConfig = ".dockerconfigjson"
	keyUsername     = "username"
	keyPassword     = "password"
	keyToken        = "token"
	keyBearer       = "bearerToken" // as Porch calls it
	keyCA           = "ca.crt"
)

// requests is how many requests are made at once.
const requests = 8

// Repository is a place in a registry that is looked at once. It is not safe for concurrent use. Errors say by their repository.Kind what helps.
type Repository struct {
	options     Options
	host        name.Registry
	prefix      string // of all packages, with a slash at its end; may be empty
	connections *http.Transport
	puller      *remote.Puller
	pusher      *remote.Pusher
	// ids are the digests of all tags.
	ids map[string]string
}

// Open returns a repository. Nothing is asked of the registry yet. Close it.
func Open(o Options) (*Repository, error) {
	host, prefix, _ := strings.Cut(o.Registry, "/")
	registry, err := name.NewRegistry(host)
	if err != nil || host == "" {
		return nil, repository.Errorf(repository.InvalidSpec, "spec.oci.registry %q: must be host[:port][/path]", o.Registry)
	}
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		prefix += "/"
	}
	auth, err := authenticator(o.Secret, host)
	if err != nil {
		return nil, err
	}
	roots, err := certificates(o.Secret)
	if err != nil {
		return nil, err
	}
	r := &Repository{options: o, host: registry, prefix: prefix, connections: &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		TLSClientConfig:       &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:   30 * time.Second,
		ResponseHeaderTimeout: time.Minute,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   requests,
	}}
	settings := []remote.Option{
		remote.WithAuth(auth), remote.WithTransport(guarded{r.connections, o.Limits.Object}), remote.WithJobs(requests),
		remote.WithRetryPredicate(func(error) bool { return false }), remote.WithRetryStatusCodes(), // whoever looks again, looks at all
	}
	if r.puller, err = remote.NewPuller(settings...); err != nil {
		return nil, err
	}
	r.pusher, err = remote.NewPusher(settings...)
	return r, err
}

// Close ends all connections.
func (r *Repository) Close() { r.connections.CloseIdleConnections() }

// Address is where the repository is, as the user wrote it.
func (r *Repository) Address() string { return r.options.Registry }

// Descends is for branches, which registries do not have.
func (r *Repository) Descends(context.Context, string) (bool, error) { return true, nil }

// authenticator reads a Secret; nil is none.
func authenticator(secret map[string][]byte, host string) (authn.Authenticator, error) {
	if text := secret[keyDockerConfig]; len(text) > 0 {
		var config struct {
			Auths map[string]authn.AuthConfig `json:"auths"`
		}
		if json.Unmarshal(text, &config) != nil { // what the parser says may quote it
			return nil, repository.Errorf(repository.SecretNotFound, "the Secret's %s cannot be read: it must be as docker login writes it", keyDockerConfig)
		}
		for server, auth := range config.Auths {
			if strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(server, "https://"), "http://"), "/") == host {
				return authn.FromConfig(auth), nil
			}
		}
		return nil, repository.Errorf(repository.SecretNotFound, "the Secret's %s says nothing of %s", keyDockerConfig, host)
	}
	if token := cmp.Or(string(secret[keyToken]), string(secret[keyBearer])); token != "" {
		return authn.FromConfig(authn.AuthConfig{RegistryToken: token}), nil
	}
	if len(secret[keyUsername])+len(secret[keyPassword]) > 0 {
		return authn.FromConfig(authn.AuthConfig{Username: string(secret[keyUsername]), Password: string(secret[keyPassword])}), nil
	}
	return authn.Anonymous, nil
}

func certificates(secret map[string][]byte) (*x509.CertPool, error) {
	bundle := secret[keyCA]
	if len(bundle) == 0 {
		return nil, nil
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(bundle) {
		return nil, repository.Errorf(repository.SecretNotFound, "the Secret's %s holds no certificate in PEM", keyCA)
	}
	return roots, nil
}

// guarded speaks plain HTTP with loopback addresses only, and reads no endless answers.
type guarded struct {
	next  http.RoundTripper
	bytes int64
}

// errPlain says that a registry is asked, or redirects, without encryption.
var errPlain = errors.New("plain HTTP is spoken with loopback addresses only")

// RoundTrip sends the request.
func (g guarded) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Scheme != "https" && !loopback(request.URL.Hostname()) {
		return nil, errPlain
	}
	response, err := g.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	response.Body = &bounded{response.Body, g.bytes, g.bytes}
	return response, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}

// bounded is a reader that fails after so many bytes.
type bounded struct {
	io.ReadCloser
	left, limit int64
}

// Read reads, up to the limit.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, repository.Errorf(repository.TooLarge, "the registry sends more than %d MiB at once", b.limit>>20)
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	return n, err
}

// List returns the tags of all packages. It is a request for the catalogue, one for each package, and one for each tag.
func (r *Repository) List(ctx context.Context) (*repository.Listing, error) {
	ctx, cancel := r.deadline(ctx)
	defer cancel()
	packages, err := r.packages(ctx)
	if err != nil {
		return nil, err
	}
	var mutex sync.Mutex
	listing := &repository.Listing{}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(requests)
	for _, pkg := range packages {
		group.Go(func() error {
			tags, err := r.puller.List(groupCtx, r.host.Repo(r.prefix+pkg))
			if status(err) == http.StatusNotFound {
				return nil // named, and not there yet; or all its tags were deleted
			}
			if err != nil {
				return classify(fmt.Errorf("list tags of %s: %w", pkg, err))
			}
			mutex.Lock()
			defer mutex.Unlock()
			for _, tag := range tags {
				if tag != "latest" { // it leads to what another one does
					listing.Tags = append(listing.Tags, refOf(pkg, tag))
				}
			}
			if len(listing.Tags) > r.options.Limits.Refs {
				return repository.Errorf(repository.TooLarge, "the registry has more than %d tags", r.options.Limits.Refs)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if err := r.digests(ctx, listing); err != nil {
		return nil, err
	}
	return listing, nil
}

func refOf(pkg, tag string) repository.Ref {
	ref := repository.Ref{Name: pkg + ":" + tag, Package: pkg, Workspace: repository.Workspace(tag), Number: repository.NotNumbered}
	if n, ok := repository.Number(tag); ok {
		ref.Number = n
	}
	return ref
}

// digests finds out what tags lead to.
func (r *Repository) digests(ctx context.Context, listing *repository.Listing) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(requests)
	for i := range listing.Tags {
		ref := &listing.Tags[i]
		group.Go(func() error {
			found, err := r.puller.Head(ctx, r.reference(ref))
			if status(err) == http.StatusNotFound {
				return nil // gone meanwhile
			}
			if err != nil {
				return classify(fmt.Errorf("ask for %s: %w", ref.Name, err))
			}
			ref.ID = found.Digest.String()
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	listing.Tags = slices.DeleteFunc(listing.Tags, func(ref repository.Ref) bool { return ref.ID == "" })
	slices.SortFunc(listing.Tags, func(a, b repository.Ref) int { return strings.Compare(a.Name, b.Name) })
	r.ids = map[string]string{}
	for _, ref := range listing.Tags {
		r.ids[ref.Name] = ref.ID
	}
	return nil
}

// packages returns the names of all packages.
func (r *Repository) packages(ctx context.Context) ([]string, error) {
	if len(r.options.Packages) > 0 {
		for _, pkg := range r.options.Packages {
			if _, err := name.NewRepository(r.host.Name() + "/" + r.prefix + pkg); err != nil {
				return nil, repository.Errorf(repository.InvalidSpec, "spec.oci.packages: %q cannot be the name of a package in a registry", pkg)
			}
		}
		return r.options.Packages, nil
	}
	all, err := r.puller.Catalog(ctx, r.host)
	switch code := status(err); {
	case code == http.StatusNotFound || code == http.StatusMethodNotAllowed:
		return nil, repository.Errorf(repository.InvalidSpec, "the registry has no catalogue: name the packages in spec.oci.packages")
	case err != nil:
		return nil, classify(fmt.Errorf("read the catalogue: %w", err))
	}
	var packages []string
	for _, found := range all {
		if pkg, ok := strings.CutPrefix(found, r.prefix); ok && pkg != "" {
			packages = append(packages, pkg)
		}
	}
	if len(packages) > r.options.Limits.Packages {
		return nil, repository.Errorf(repository.TooLarge, "the registry has %d packages; at most %d are read", len(packages), r.options.Limits.Packages)
	}
	return packages, nil
}

// reference is the tag of a ref.
func (r *Repository) reference(ref *repository.Ref) name.Tag {
	return r.host.Repo(r.prefix + ref.Package).Tag(ref.Name[strings.LastIndex(ref.Name, ":")+1:])
}

func (r *Repository) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	timeout := r.options.Limits.Timeout
	if timeout <= 0 {
		timeout = time.Minute
	}
	return context.WithTimeout(ctx, timeout)
}

func status(err error) int {
	if failed, ok := errors.AsType[*transport.Error](err); ok {
		return failed.StatusCode
	}
	return 0
}

// classify says what an error of the registry means to the owner of the Repository.
func classify(err error) error {
	if err == nil {
		return nil
	}
	if _, own := errors.AsType[*repository.Error](err); own {
		return err
	}
	switch code := status(err); {
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return repository.Errorf(repository.Unauthorized, "the registry does not accept the credentials: %w", err)
	case code == http.StatusNotFound:
		return repository.Errorf(repository.NotFound, "%w", err)
	case code == http.StatusTooManyRequests || code >= http.StatusInternalServerError:
		return repository.Errorf(repository.Unreachable, "%w", err)
	case errors.Is(err, errPlain):
		return repository.Errorf(repository.InvalidSpec, "spec.oci.registry: %w", err)
	}
	return repository.FromNetwork(err)
}

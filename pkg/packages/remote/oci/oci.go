package oci

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"golang.org/x/sync/errgroup"

	packageremote "github.com/starlinghq/starling/pkg/packages/remote"
	"github.com/starlinghq/starling/pkg/packages/remote/registry"
)

// Options say which registry to open, and how.
type Options struct {
	// Registry is host[:port][/path], as in spec.oci.registry.
	Registry string
	// Packages are the packages to read; empty means the registry's catalogue.
	Packages []string
	// Exported are packages that are exported: their tags are listed, whatever Packages or the
	// catalogue have.
	Exported []string
	// Secret is the content of the Secret that the Repository refers to; nil if there is none.
	Secret map[string][]byte
	// Hosts are the hosts that may be named and that may receive credentials.
	Hosts packageremote.Hosts
	// Limits bound the cost.
	Limits packageremote.Limits
}

// maxRequests is the maximum number of concurrent requests.
const maxRequests = 8

// Repository is a path in a registry, as of one List. It is not safe for concurrent use.
// remote.KindOf classifies its errors.
type Repository struct {
	options     Options
	host        name.Registry
	prefix      string // of all packages, with a trailing slash; may be empty
	connections *http.Transport
	puller      *remote.Puller
	pusher      *remote.Pusher
	// ids has the digests of all tags, except of the packages in unread.
	ids    map[string]string
	unread map[string]error
}

// Open returns a Repository. It sends no request. The caller must close it.
func Open(o Options) (*Repository, error) {
	host, prefix, _ := strings.Cut(o.Registry, "/")
	server, err := name.NewRegistry(host)
	if err != nil || host == "" {
		return nil, packageremote.Errorf(packageremote.InvalidSpec, "spec.oci.registry %q: must be host[:port][/path]", o.Registry)
	}
	hostname := (&url.URL{Host: host}).Hostname()
	if err := o.Hosts.Check("spec.oci.registry", hostname); err != nil {
		return nil, err
	}
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		prefix += "/"
	}
	auth, err := authenticator(o.Secret, o.Registry)
	if err != nil {
		return nil, err
	}
	roots, err := packageremote.Roots(o.Secret)
	if err != nil {
		return nil, err
	}
	r := &Repository{options: o, host: server, prefix: prefix, ids: map[string]string{}, connections: registry.NewTransport(roots, maxRequests)}
	settings := registry.Settings(&registry.Guard{
		Next: r.connections, Host: hostname, Bytes: o.Limits.Object, Documents: o.Limits.Object,
		Check: func(host string) error { return o.Hosts.Check("spec.oci.registry", host) },
	}, auth, maxRequests)
	if r.puller, err = remote.NewPuller(settings...); err != nil {
		return nil, err
	}
	r.pusher, err = remote.NewPusher(settings...)
	return r, err
}

// Close closes all connections.
func (r *Repository) Close() { r.connections.CloseIdleConnections() }

// Address returns the address as the user wrote it.
func (r *Repository) Address() string { return r.options.Registry }

// CreateBranch is not called: registries have no branches.
func (r *Repository) CreateBranch(context.Context, string) error {
	return errors.New("registries have no branches")
}

// Descends is for branches, which registries do not have.
func (r *Repository) Descends(context.Context, string) (bool, error) { return true, nil }

// authenticator returns the credentials of a Secret; nil means none.
func authenticator(secret map[string][]byte, repository string) (authn.Authenticator, error) {
	if text := secret[registry.KeyDockerConfig]; len(text) > 0 {
		auth, found, err := registry.Credentials(text, repository)
		if err != nil {
			return nil, packageremote.Errorf(packageremote.SecretNotFound, "%w", err)
		}
		if !found {
			host, _, _ := strings.Cut(repository, "/")
			return nil, packageremote.Errorf(packageremote.SecretNotFound, "the key %s of the Secret has no credentials for %s", registry.KeyDockerConfig, host)
		}
		return authn.FromConfig(auth), nil
	}
	if token := cmp.Or(string(secret[packageremote.KeyToken]), string(secret[packageremote.KeyBearer])); token != "" {
		return authn.FromConfig(authn.AuthConfig{RegistryToken: token}), nil
	}
	auth := authn.AuthConfig{Username: string(secret[packageremote.KeyUsername]), Password: string(secret[packageremote.KeyPassword])}
	if auth.Username+auth.Password != "" {
		return authn.FromConfig(auth), nil
	}
	return authn.Anonymous, nil
}

// List returns the tags of all packages. It takes one request for the catalogue, one for each
// package, and one for each tag.
func (r *Repository) List(ctx context.Context) (*packageremote.Listing, error) {
	ctx, cancel := context.WithTimeout(ctx, r.options.Limits.Timeout)
	defer cancel()
	packages, err := r.packages(ctx)
	if err != nil {
		return nil, err
	}
	var mutex sync.Mutex
	listing := &packageremote.Listing{Unread: map[string]error{}}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(maxRequests)
	for _, pkg := range packages {
		group.Go(func() error {
			tags, err := r.puller.List(groupCtx, r.host.Repo(r.prefix+pkg))
			if registry.Status(err) == http.StatusNotFound {
				return nil // named but not created yet, or all its tags were deleted
			}
			mutex.Lock()
			defer mutex.Unlock()
			if err != nil {
				err = classify(fmt.Errorf("list tags: %w", err))
				if !ofOneItem(err) {
					return fmt.Errorf("package %q: %w", pkg, err)
				}
				listing.Unread[pkg] = err
				return nil
			}
			for _, tag := range tags {
				if tag != "latest" && !ofArtifact.MatchString(tag) { // latest has the same digest as another tag
					listing.Tags = append(listing.Tags, packageremote.TagOf(pkg+":"+tag, pkg, tag))
				}
			}
			if len(listing.Tags) > r.options.Limits.Refs {
				return packageremote.Errorf(packageremote.TooLarge, "the registry has more than %d tags", r.options.Limits.Refs)
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
	listing.Empty = len(listing.Tags) == 0 && len(listing.Unread) == 0
	return listing, nil
}

// ofArtifact matches tags that name the digest of another image: signatures and attestations of
// cosign, and the referrers of an image, in registries without an API for them (OCI distribution
// specification 1.1, "Referrers Tag Schema").
var ofArtifact = regexp.MustCompile(`^sha(256|512)-[0-9a-f]{32,}(\.[a-z0-9.]+)?$`)

// digests resolves the tags.
func (r *Repository) digests(ctx context.Context, listing *packageremote.Listing) error {
	var mutex sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxRequests)
	for i := range listing.Tags {
		ref := &listing.Tags[i]
		group.Go(func() error {
			found, err := r.puller.Head(ctx, r.reference(ref))
			if registry.Status(err) == http.StatusNotFound {
				return nil // deleted in between
			}
			if err != nil {
				err = classify(fmt.Errorf("read tag %q: %w", ref.Name, err))
				if !ofOneItem(err) {
					return err
				}
				mutex.Lock()
				defer mutex.Unlock()
				listing.Unread[ref.Package] = err
				return nil
			}
			ref.ID = found.Digest.String()
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	listing.Tags = slices.DeleteFunc(listing.Tags, func(ref packageremote.Ref) bool { return ref.ID == "" })
	slices.SortFunc(listing.Tags, func(a, b packageremote.Ref) int { return strings.Compare(a.Name, b.Name) })
	r.ids, r.unread = map[string]string{}, listing.Unread
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
				return nil, packageremote.Errorf(packageremote.InvalidSpec, "spec.oci.packages: %q is not a valid name in a registry", pkg)
			}
		}
		return r.withExported(r.options.Packages), nil
	}
	all, err := r.puller.Catalog(ctx, r.host)
	switch code := registry.Status(err); {
	case code == http.StatusNotFound || code == http.StatusMethodNotAllowed:
		return nil, packageremote.Errorf(packageremote.InvalidSpec, "the registry has no catalogue: list the packages in spec.oci.packages")
	case err != nil:
		return nil, classify(fmt.Errorf("list packages in the catalogue: %w", err))
	}
	var packages []string
	for _, found := range all {
		if pkg, ok := strings.CutPrefix(found, r.prefix); ok && pkg != "" {
			packages = append(packages, pkg)
		}
	}
	if len(packages) > r.options.Limits.Packages {
		return nil, packageremote.Errorf(packageremote.TooLarge, "the registry has %d packages, but the limit is %d", len(packages), r.options.Limits.Packages)
	}
	return r.withExported(packages), nil
}

// withExported adds the packages that are exported, except those whose names no registry takes:
// exports say so.
func (r *Repository) withExported(packages []string) []string {
	all := slices.Clone(packages)
	for _, pkg := range r.options.Exported {
		if _, err := name.NewRepository(r.host.Name() + "/" + r.prefix + pkg); err == nil {
			all = append(all, pkg)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// reference returns the tag of a ref.
func (r *Repository) reference(ref *packageremote.Ref) name.Tag {
	return r.host.Repo(r.prefix + ref.Package).Tag(ref.Name[strings.LastIndex(ref.Name, ":")+1:])
}

// ofOneItem reports whether a classified error is about one package or image, so that the others
// can be read. The credentials may be valid for some packages only.
func ofOneItem(err error) bool {
	switch packageremote.KindOf(err) {
	case packageremote.Unreachable, packageremote.InvalidSpec:
		return false
	case packageremote.Unauthorized:
		return registry.Status(err) == http.StatusForbidden
	case packageremote.SecretNotFound, packageremote.NotFound, packageremote.TooLarge, packageremote.Other:
	}
	return !errors.Is(err, context.Canceled)
}

// classify returns an error of the registry with its kind.
func classify(err error) error {
	classified := registry.Classify(err)
	if errors.Is(err, registry.ErrPlainHTTP) && packageremote.KindOf(classified) == packageremote.InvalidSpec {
		return packageremote.Errorf(packageremote.InvalidSpec, "spec.oci.registry: %w", err)
	}
	return classified
}

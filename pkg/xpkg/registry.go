package xpkg

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/google/go-containerregistry/pkg/name"
	ociremote "github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/starlinghq/starling/pkg/core/xpkg"
	"github.com/starlinghq/starling/pkg/packages/remote"
	"github.com/starlinghq/starling/pkg/packages/remote/registry"
)

// registryRepository is a repository in a registry.
type registryRepository struct {
	name    name.Repository
	puller  *ociremote.Puller
	maxTags int
}

func (r *registryRepository) tags(ctx context.Context) ([]string, error) {
	lister, err := r.puller.Lister(ctx, r.name)
	if err != nil {
		return nil, classify(err)
	}
	tags := []string{}
	for lister.HasNext() {
		page, err := lister.Next(ctx)
		if err != nil {
			return nil, classify(err)
		}
		if tags = append(tags, page.Tags...); len(tags) > r.maxTags {
			return nil, remote.Errorf(remote.TooLarge, "the repository has more than %d tags", r.maxTags)
		}
	}
	slices.Sort(tags)
	return slices.Compact(tags), nil
}

func (r *registryRepository) resolve(ctx context.Context, tag string) (string, error) {
	found, err := r.puller.Head(ctx, r.name.Tag(tag))
	if err == nil {
		return found.Digest.String(), nil
	}
	if registry.Status(err) == 0 && remote.KindOf(classify(err)) != remote.Other {
		return "", classify(err) // there is no answer
	}
	// Not every registry answers HEAD, and only the answer to GET says why it failed.
	descriptor, err := r.puller.Get(ctx, r.name.Tag(tag))
	if err != nil {
		return "", classify(err)
	}
	return descriptor.Digest.String(), nil
}

func (r *registryRepository) manifest(ctx context.Context, digest string) ([]byte, error) {
	descriptor, err := r.puller.Get(ctx, r.name.Digest(digest))
	if err != nil {
		return nil, classify(err)
	}
	return descriptor.Manifest, nil
}

func (r *registryRepository) blob(ctx context.Context, digest string) (io.ReadCloser, error) {
	layer, err := r.puller.Layer(ctx, r.name.Digest(digest))
	if err != nil {
		return nil, classify(err)
	}
	content, err := layer.Compressed()
	if err != nil {
		if registry.Status(err) == http.StatusNotFound {
			return nil, remote.Errorf(remote.Other, "the registry has the image, but not all of its layers: %w", err)
		}
		return nil, classify(err)
	}
	return content, nil
}

// classify returns an error of a registry with its kind.
func classify(err error) error {
	failed, ok := errors.AsType[*transport.Error](err)
	if !ok {
		return registry.Classify(err)
	}
	unknown := slices.ContainsFunc(failed.Errors, func(d transport.Diagnostic) bool {
		return d.Code == transport.NameUnknownErrorCode || d.Code == transport.ManifestUnknownErrorCode
	})
	switch code := failed.StatusCode; {
	case failed.Request != nil && failed.Request.URL.Path == "/v2/" && code == http.StatusNotFound:
		return remote.Errorf(remote.Unreachable, "the server is not a registry: %w", err)
	case unknown && code != http.StatusUnauthorized && code != http.StatusForbidden && code < http.StatusInternalServerError:
		return remote.Errorf(remote.NotFound, "%w", err)
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return remote.Errorf(remote.Unauthorized, "the registry does not accept the credentials, or there is no such repository: %w", err)
	}
	return registry.Classify(err)
}

// open returns a repository in a registry. The first use of a client connects, and may get a token.
func (f *Fetcher) open(source string, access Access) (*registryRepository, error) {
	repositoryName, settings, err := f.settings(source, access)
	if err != nil {
		return nil, err
	}
	key := source + " " + access.identity()
	f.mu.Lock()
	defer f.mu.Unlock()
	puller, ok := f.pullers[key]
	if !ok {
		if puller, err = ociremote.NewPuller(settings...); err != nil {
			return nil, err
		}
		if len(f.pullers) >= maxPullers {
			clear(f.pullers)
		}
		f.pullers[key] = puller
	}
	return &registryRepository{repositoryName, puller, f.options.Limits.Tags}, nil
}

// settings returns those of a client of a repository.
func (f *Fetcher) settings(source string, access Access) (name.Repository, []ociremote.Option, error) {
	repository, err := name.NewRepository(source, name.StrictValidation)
	if err != nil {
		return repository, nil, remote.Errorf(remote.InvalidSpec, "%w", err)
	}
	host := xpkg.Reference{Source: source}.Host()
	if err := f.check(host); err != nil {
		return repository, nil, err
	}
	auth, err := access.authenticator(source)
	if err != nil {
		return repository, nil, err
	}
	guard := &registry.Guard{Next: f.connections, Host: host, Bytes: f.options.Limits.Layer, Documents: maxDocument, Check: f.check}
	return repository, registry.Settings(guard, auth, 1), nil
}

// Push writes an image to a registry. reference has a tag. It returns the digest.
func (f *Fetcher) Push(ctx context.Context, reference xpkg.Reference, image ociremote.Taggable, access Access) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, f.options.Limits.Timeout)
	defer cancel()
	repository, settings, err := f.settings(reference.Source, access)
	if err != nil {
		return "", fmt.Errorf("push package %q: %w", reference, err)
	}
	pusher, err := ociremote.NewPusher(settings...)
	if err != nil {
		return "", fmt.Errorf("push package %q: %w", reference, err)
	}
	if err := pusher.Push(ctx, repository.Tag(reference.Tag), image); err != nil {
		return "", fmt.Errorf("push package %q: %w", reference, classify(err))
	}
	manifest, err := image.RawManifest()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(manifest)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// forget drops the client of a repository, which remembers that it could not connect.
func (f *Fetcher) forget(source string, access Access) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.pullers, source+" "+access.identity())
}

// check returns an error if a host is not allowed.
func (f *Fetcher) check(host string) error {
	if f.options.Hosts.Allow(host) {
		return nil
	}
	return remote.Errorf(remote.InvalidSpec, "host %q is not allowed: the flag --package-hosts has the allowed hosts", host)
}

package xpkg

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	ociremote "github.com/google/go-containerregistry/pkg/v1/remote"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	"github.com/starlinghq/starling/pkg/core/xpkg"
	"github.com/starlinghq/starling/pkg/packages/remote"
	"github.com/starlinghq/starling/pkg/packages/remote/registry"
)

// Limits bound the cost of one call.
type Limits struct {
	// Layer bounds the compressed size of a layer that is read.
	Layer int64
	// Unpacked bounds the unpacked size of the layers that are searched for package.yaml.
	Unpacked int64
	// Tags bounds the number of tags of a repository.
	Tags int
	// Timeout bounds the duration.
	Timeout time.Duration
}

// DefaultLimits returns limits that no published package exceeds.
func DefaultLimits() Limits {
	return Limits{Layer: 1 << 30, Unpacked: 4 << 30, Tags: 50_000, Timeout: 2 * time.Minute}
}

const (
	// maxDocument bounds a manifest, and a page with tags.
	maxDocument = 16 << 20
	// maxRemembered bounds the number of tags, tag lists and descriptions of packages in memory,
	// each.
	maxRemembered = 4096
	// maxPullers bounds the number of clients, each with the token for one repository.
	maxPullers = 1024
	// maxParsed bounds the bytes of package.yaml that are parsed at the same time: the objects need
	// several times the memory. A larger one is parsed alone.
	maxParsed = 64 << 20
	// maxConnections bounds the idle connections to one registry.
	maxConnections = 16
)

// Options say where packages are, and what they may cost.
type Options struct {
	// Hosts are the registries that may be named and that may receive credentials.
	Hosts remote.Hosts
	// Roots are the CAs of registries; nil means those of the system.
	Roots *x509.CertPool
	// Directory has packages that are read from it and from no registry; "" means none. See
	// package directory in the documentation.
	Directory string
	// Cache is the directory for what was fetched, which several processes may share; "" means
	// none.
	Cache string
	// CacheBytes bounds the size of the cache.
	CacheBytes int64
	Limits     Limits
	Clock      clock.PassiveClock
}

// Access says how one call may reach a registry.
type Access struct {
	// PullSecrets are values of the key .dockerconfigjson of Secrets, in the order of precedence.
	// The first that has credentials for a repository counts. Without any, the access is anonymous.
	PullSecrets [][]byte
	// Policy is the pull policy. PullAlways ignores MaxAge; PullNever sends no request.
	Policy pkgv1.PullPolicy
	// MaxAge is the age of tags and of their digests up to which they are not read again.
	MaxAge time.Duration
}

// identity returns a text that differs for different credentials. It does not reveal them.
func (a Access) identity() string {
	sum := sha256.New()
	for _, secret := range a.PullSecrets {
		one := sha256.Sum256(secret)
		sum.Write(one[:])
	}
	return hex.EncodeToString(sum.Sum(nil))
}

func (a Access) authenticator(source string) (authn.Authenticator, error) {
	for _, secret := range a.PullSecrets {
		auth, found, err := registry.Credentials(secret, source)
		if err != nil {
			return nil, remote.Errorf(remote.SecretNotFound, "%w", err)
		}
		if found {
			return authn.FromConfig(auth), nil
		}
	}
	return authn.Anonymous, nil
}

// Fetcher reads packages. It is safe for concurrent use: equal calls at the same time share one
// request. A call that ends early does not end the request of the others.
type Fetcher struct {
	options     Options
	connections *http.Transport
	cache       *cache     // nil if there is none
	directory   *directory // nil if there is none
	flights     singleflight.Group
	// recent has the tags of repositories and the digests of tags, with the time of the request.
	recent *lru.Cache
	// metas has the descriptions of packages, by digest.
	metas *lru.Cache
	// parsing has maxParsed bytes.
	parsing *semaphore.Weighted

	mu      sync.Mutex
	pullers map[string]*ociremote.Puller
}

// New returns a Fetcher. The caller must close it.
func New(o Options) (*Fetcher, error) {
	f := &Fetcher{
		options: o, connections: registry.NewTransport(o.Roots, maxConnections),
		recent: lru.New(maxRemembered), metas: lru.New(maxRemembered), parsing: semaphore.NewWeighted(maxParsed), pullers: map[string]*ociremote.Puller{},
	}
	var err error
	if o.Directory != "" {
		if f.directory, err = openDirectory(o.Directory); err != nil {
			return nil, err
		}
	}
	if o.Cache != "" {
		if f.cache, err = openCache(o.Cache, o.CacheBytes, o.Clock); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// Close closes all connections.
func (f *Fetcher) Close() { f.connections.CloseIdleConnections() }

// Tags returns the tags of a repository, sorted. The caller owns them.
func (f *Fetcher) Tags(ctx context.Context, source string, access Access) ([]string, error) {
	tags, err := once(ctx, f, "tags "+source+" "+access.identity(), source, access, repository.tags)
	if err != nil {
		return nil, fmt.Errorf("list tags of %q: %w", source, err)
	}
	return slices.Clone(tags), nil
}

// Resolve returns the digest of a reference. One that has a digest is not looked up.
func (f *Fetcher) Resolve(ctx context.Context, reference xpkg.Reference, access Access) (string, error) {
	if reference.Digest != "" {
		return reference.Digest, nil
	}
	digest, err := once(ctx, f, "digest "+reference.String()+" "+access.identity(), reference.Source, access, func(r repository, ctx context.Context) (string, error) {
		digest, err := r.resolve(ctx, reference.Tag)
		if err == nil && !xpkg.IsDigest(digest) {
			err = remote.Errorf(remote.Other, "%q is not a digest of the form sha256: and 64 hexadecimal digits", digest)
		}
		return digest, err
	})
	if err != nil {
		return "", fmt.Errorf("resolve %q: %w", reference, err)
	}
	return digest, nil
}

// dated is a value with the time when it was read.
type dated struct {
	value any
	at    time.Time
}

// once returns what read returns for a repository, or what it returned for the key at most MaxAge
// ago.
func once[T any](ctx context.Context, f *Fetcher, key, source string, access Access, read func(repository, context.Context) (T, error)) (T, error) {
	var none T
	if f.directory.has(source) {
		return read(&directoryRepository{f.directory, source}, ctx)
	}
	if found, ok := f.recent.Get(key); ok {
		found := found.(dated)
		age := f.options.Clock.Since(found.at)
		if access.Policy == pkgv1.PullNever || access.Policy != pkgv1.PullAlways && age < access.MaxAge {
			return found.value.(T), nil
		}
	}
	if access.Policy == pkgv1.PullNever {
		return none, errNever
	}
	value, err := f.share(ctx, key, func(ctx context.Context) (any, error) {
		at := f.options.Clock.Now()
		value, err := inRegistry(ctx, f, source, access, read)
		if err == nil {
			f.recent.Add(key, dated{value, at})
		}
		return value, err
	})
	if err != nil {
		return none, err
	}
	return value.(T), nil
}

// errNever is returned if a package is not available and may not be fetched.
var errNever = remote.Errorf(remote.NotFound, "it is not cached, and the pull policy is %s", pkgv1.PullNever)

// inRegistry calls read with a repository in a registry.
func inRegistry[T any](ctx context.Context, f *Fetcher, source string, access Access, read func(repository, context.Context) (T, error)) (T, error) {
	var none T
	repository, err := f.open(source, access)
	if err != nil {
		return none, err
	}
	value, err := read(repository, ctx)
	if err != nil && remote.KindOf(err) != remote.NotFound {
		f.forget(source, access)
	}
	return value, err
}

// share calls read, unless a call for the same key is running: then it returns the result of that
// one. read has its own time, because others may wait for it too.
func (f *Fetcher) share(ctx context.Context, key string, read func(context.Context) (any, error)) (any, error) {
	done := f.flights.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.options.Limits.Timeout)
		defer cancel()
		return read(ctx)
	})
	select {
	case result := <-done:
		return result.Val, result.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Get returns the package with a digest. It is shared with other callers, who must not modify it.
func (f *Fetcher) Get(ctx context.Context, source, digest string, access Access) (*xpkg.Package, error) {
	reference := xpkg.Reference{Source: source, Digest: digest}
	if !xpkg.IsDigest(digest) {
		return nil, remote.Errorf(remote.InvalidSpec, "read package %q: %q is not a digest", source, digest)
	}
	found, err := f.share(ctx, "package "+reference.String()+" "+string(access.Policy)+" "+access.identity(), func(ctx context.Context) (any, error) {
		return f.get(ctx, source, digest, access)
	})
	if err != nil {
		return nil, fmt.Errorf("read package %q: %w", reference, err)
	}
	return found.(*xpkg.Package), nil
}

// Meta returns the description of the package with a digest. It reads the whole package if it was
// not read before. The result is shared with other callers, who must not modify it.
func (f *Fetcher) Meta(ctx context.Context, source, digest string, access Access) (*xpkg.Meta, error) {
	if found, ok := f.metas.Get(digest); ok {
		return found.(*xpkg.Meta), nil
	}
	pkg, err := f.Get(ctx, source, digest, access)
	if err != nil {
		return nil, err
	}
	return &pkg.Meta, nil
}

func (f *Fetcher) get(ctx context.Context, source, digest string, access Access) (*xpkg.Package, error) {
	if packed := f.cache.get(digest); packed != nil {
		pkg, err := f.parse(ctx, digest, packed)
		if err == nil || xpkg.IsInvalid(err) {
			return pkg, err
		}
		f.cache.remove(digest) // it is damaged
	}
	packed, err := f.extract(ctx, source, digest, access)
	if err != nil {
		return nil, err
	}
	if err := f.cache.put(digest, packed); err != nil {
		return nil, fmt.Errorf("cache it: %w", err)
	}
	return f.parse(ctx, digest, packed)
}

// extract returns the package.yaml of an image, compressed with gzip.
func (f *Fetcher) extract(ctx context.Context, source, digest string, access Access) ([]byte, error) {
	read := func(r repository, ctx context.Context) ([]byte, error) {
		return extract(ctx, r, digest, f.options.Limits)
	}
	if f.directory.has(source) {
		packed, err := read(&directoryRepository{f.directory, source}, ctx)
		if err == nil || remote.KindOf(err) != remote.NotFound || access.Policy == pkgv1.PullNever {
			return packed, err
		}
	}
	if access.Policy == pkgv1.PullNever {
		return nil, errNever
	}
	return inRegistry(ctx, f, source, access, read)
}

func (f *Fetcher) parse(ctx context.Context, digest string, packed []byte) (*xpkg.Package, error) {
	size := min(unpackedSize(packed), maxParsed)
	if err := f.parsing.Acquire(ctx, size); err != nil {
		return nil, err
	}
	defer f.parsing.Release(size)
	content, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	pkg, err := xpkg.Parse(content)
	if err != nil {
		return nil, err
	}
	meta := pkg.Meta
	f.metas.Add(digest, &meta)
	return pkg, nil
}

// unpackedSize returns the size that the end of a gzip stream says.
func unpackedSize(packed []byte) int64 {
	const last = 4
	if len(packed) < last {
		return 0
	}
	return int64(binary.LittleEndian.Uint32(packed[len(packed)-last:]))
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// Package fetch reads packages as the ImageConfigs and pull secrets of a WDS say.
package fetch

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/pkg/core/transaction"
	corexpkg "github.com/starlinghq/starling/pkg/core/xpkg"
	"github.com/starlinghq/starling/pkg/packages/remote"
	"github.com/starlinghq/starling/pkg/xpkg"
)

// Reader reads packages. It is safe for concurrent use.
type Reader struct {
	// Fetcher reads from registries, directories and its cache.
	Fetcher *xpkg.Fetcher
	// ImageConfigs returns all ImageConfigs.
	ImageConfigs func() []*pkgv1beta1.ImageConfig
	// Secrets are those of the namespace of pull secrets.
	Secrets typedcorev1.SecretInterface
}

// Options are those of one package.
type Options struct {
	PullSecrets []string
	// Inherited are pull secrets of what requires the package. One that does not exist is left out.
	Inherited []string
	Policy    pkgv1.PullPolicy
}

// OptionsOf returns the options that a package has.
func OptionsOf(spec *pkgv1.PackageSpec) Options {
	var o Options
	for _, secret := range spec.PackagePullSecrets {
		o.PullSecrets = append(o.PullSecrets, secret.Name)
	}
	if spec.PackagePullPolicy != nil {
		o.Policy = *spec.PackagePullPolicy
	}
	return o
}

// maxAge is how long tags are remembered: transactions that follow each other at once do not read
// them again.
const maxAge = 10 * time.Second

// Tags returns the tags of a repository.
func (r *Reader) Tags(ctx context.Context, source string, o Options) ([]string, error) {
	image, access, err := r.access(ctx, corexpkg.Reference{Source: source}, o)
	if err != nil {
		return nil, err
	}
	tags, err := r.Fetcher.Tags(ctx, image.Source, access)
	return tags, denied(image, err)
}

// Resolved is an image with its digest.
type Resolved struct {
	// Image says how it is fetched, after ImageConfigs.
	Image  corexpkg.Image
	Digest string
}

// Resolve returns the digest of an image.
func (r *Reader) Resolve(ctx context.Context, reference corexpkg.Reference, o Options) (Resolved, error) {
	image, access, err := r.access(ctx, reference, o)
	if err != nil {
		return Resolved{}, err
	}
	digest, err := r.Fetcher.Resolve(ctx, image.Reference, access)
	return Resolved{Image: image, Digest: digest}, denied(image, err)
}

// Meta returns the description of a package.
func (r *Reader) Meta(ctx context.Context, source, digest string, o Options) (*corexpkg.Meta, error) {
	image, access, err := r.access(ctx, corexpkg.Reference{Source: source}, o)
	if err != nil {
		return nil, err
	}
	meta, err := r.Fetcher.Meta(ctx, image.Source, digest, access)
	return meta, denied(image, err)
}

// Get returns a package. It is shared: copy before you change it.
func (r *Reader) Get(ctx context.Context, source, digest string, o Options) (*corexpkg.Package, error) {
	image, access, err := r.access(ctx, corexpkg.Reference{Source: source}, o)
	if err != nil {
		return nil, err
	}
	pkg, err := r.Fetcher.Get(ctx, image.Source, digest, access)
	return pkg, denied(image, err)
}

// denied says what to do if a registry does not let an image be read.
func denied(image corexpkg.Image, err error) error {
	if err != nil && remote.KindOf(err) == remote.Unauthorized {
		return &transaction.AccessError{Source: image.Source, Err: err}
	}
	return err
}

// access returns how an image is fetched.
func (r *Reader) access(ctx context.Context, reference corexpkg.Reference, o Options) (corexpkg.Image, xpkg.Access, error) {
	access := xpkg.Access{Policy: o.Policy, MaxAge: maxAge}
	image, err := corexpkg.Configure(reference, r.ImageConfigs(), slices.Concat(o.PullSecrets, o.Inherited)...)
	if err != nil {
		return image, access, corexpkg.Invalidf("%v", err)
	}
	for _, name := range image.PullSecrets {
		secret, err := r.Secrets.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) && slices.Contains(o.Inherited, name) && !slices.Contains(o.PullSecrets, name) {
			continue
		} else if err != nil {
			return image, access, fmt.Errorf("get pull secret %q: %w", name, err)
		}
		if secret.Type != corev1.SecretTypeDockerConfigJson {
			return image, access, corexpkg.Invalidf("pull secret %q has type %q, want %q", name, secret.Type, corev1.SecretTypeDockerConfigJson)
		}
		access.PullSecrets = append(access.PullSecrets, secret.Data[corev1.DockerConfigJsonKey])
	}
	return image, access, nil
}

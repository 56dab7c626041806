package repositories

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	"github.com/starlinghq/starling/pkg/packages/informers"
	"github.com/starlinghq/starling/pkg/packages/remote"
	"github.com/starlinghq/starling/pkg/packages/remote/git"
	"github.com/starlinghq/starling/pkg/packages/remote/oci"
)

// Remote is a git repository or a registry, opened for one pass.
type Remote interface {
	// List returns its refs.
	List(ctx context.Context) (*remote.Listing, error)
	// Load reads the revisions of refs.
	Load(ctx context.Context, refs []remote.Ref, found func(remote.Revision) error) error
	// Descends reports whether the branch contains a commit.
	Descends(ctx context.Context, from string) (bool, error)
	// CreateBranch creates the branch at a commit that the repository still has.
	CreateBranch(ctx context.Context, commit string) error
	// Export writes revisions.
	Export(ctx context.Context, exports []remote.Export) ([]remote.ExportResult, error)
	// Remove deletes tags that still have their IDs.
	Remove(ctx context.Context, tags []remote.Ref) error
	// Address names it in locks of revisions.
	Address() string
	// Close ends its connections.
	Close()
}

// newSecretInformer returns an informer of the identity of Secrets, without their data.
func newSecretInformer(config *rest.Config) (*informers.Informer[metav1.PartialObjectMetadata], error) {
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("build metadata client: %w", err)
	}
	resource := corev1.SchemeGroupVersion.WithResource("secrets")
	informer := metadatainformer.NewFilteredMetadataInformer(client, resource, metav1.NamespaceAll, 0, cache.Indexers{}, func(o *metav1.ListOptions) {
		// These are many, and never credentials of repositories.
		o.FieldSelector = "type!=kubernetes.io/service-account-token,type!=helm.sh/release.v1"
	}).Informer()
	err = informer.SetTransform(func(obj any) (any, error) {
		if secret, ok := obj.(*metav1.PartialObjectMetadata); ok {
			return &metav1.PartialObjectMetadata{TypeMeta: secret.TypeMeta, ObjectMeta: metav1.ObjectMeta{
				Namespace: secret.Namespace, Name: secret.Name, UID: secret.UID, ResourceVersion: secret.ResourceVersion,
			}}, nil
		}
		return obj, nil
	})
	return &informers.Informer[metav1.PartialObjectMetadata]{SharedIndexInformer: informer, Name: "Secrets"}, err
}

// known is what is known of a repository before it is opened.
type known struct {
	// exported are the packages that are exported to it.
	exported []string
	// branch is true if the branch was imported once.
	branch bool
}

// openRemote opens the repository of a Repository.
func (p *pass) openRemote(secret map[string][]byte, known known) (Remote, error) {
	c, spec := p.Controller, &p.repo.Spec
	switch {
	case spec.Type == configv1alpha1.RepositoryTypeGit && spec.Git != nil:
		return opened(git.Open(git.Options{
			Repo: spec.Git.Repo, Branch: spec.Git.Branch, CreateBranch: spec.Git.CreateBranch, HadBranch: known.branch, Directory: spec.Git.Directory, RootPackage: spec.Git.RootPackage, Insecure: spec.Git.Insecure,
			Author: spec.Git.Author, Email: spec.Git.Email, Secret: secret, FileRoots: c.FileRoots, Hosts: c.Hosts, Limits: remote.DefaultLimits(), TempDir: c.TempDir,
		}))
	case spec.Type == configv1alpha1.RepositoryTypeOCI && spec.Oci != nil:
		return opened(oci.Open(oci.Options{
			Registry: spec.Oci.Registry, Packages: spec.Oci.Packages, Exported: known.exported, Secret: secret, Hosts: c.Hosts, Limits: remote.DefaultLimits(),
		}))
	}
	return nil, remote.Errorf(remote.InvalidSpec, "spec.type %q is none that can be read", spec.Type)
}

// opened returns a nil Remote, not one that holds a nil pointer, with an error.
func opened[R Remote](r R, err error) (Remote, error) {
	if err != nil {
		return nil, err
	}
	return r, nil
}

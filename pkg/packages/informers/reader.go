package informers

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
)

// Reader reads current objects from the API server and not from a cache. It is used before
// something is deleted. Its errors are those of the API server. It is safe for concurrent use.
type Reader struct {
	bindings     *client.Client
	revisions    clientFunc[*storev1alpha1.PackageRevision, *storev1alpha1.PackageRevisionList]
	repositories clientFunc[*configv1alpha1.Repository, *configv1alpha1.RepositoryList]
}

// NewReader returns a Reader of a WDS.
func NewReader(wds *rest.Config) (*Reader, error) {
	var r Reader
	var err error
	if r.bindings, err = client.New(wds); err != nil {
		return nil, err
	}
	if r.revisions, err = newClient[*storev1alpha1.PackageRevision, *storev1alpha1.PackageRevisionList](wds, storev1alpha1.PackageRevisions); err != nil {
		return nil, err
	}
	if r.repositories, err = newClient[*configv1alpha1.Repository, *configv1alpha1.RepositoryList](wds, configv1alpha1.Repositories); err != nil {
		return nil, err
	}
	return &r, nil
}

// Binding reads a Binding.
func (r *Reader) Binding(ctx context.Context, name string) (*controlv1alpha1.Binding, error) {
	return r.bindings.Bindings().Get(ctx, name, metav1.GetOptions{})
}

// Revision reads a stored revision.
func (r *Reader) Revision(ctx context.Context, namespace, name string) (*storev1alpha1.PackageRevision, error) {
	return r.revisions(namespace).Get(ctx, name, metav1.GetOptions{})
}

// Repository reads a Repository.
func (r *Reader) Repository(ctx context.Context, namespace, name string) (*configv1alpha1.Repository, error) {
	return r.repositories(namespace).Get(ctx, name, metav1.GetOptions{})
}

// Empty reports whether a Repository has no revisions.
func (r *Reader) Empty(ctx context.Context, namespace, repository string) (bool, error) {
	some, err := r.revisions(namespace).List(ctx, metav1.ListOptions{FieldSelector: "spec.repository=" + repository, Limit: 1})
	if err != nil {
		return false, fmt.Errorf("list revisions of Repository %q: %w", repository, err)
	}
	return len(some.Items) == 0, nil
}

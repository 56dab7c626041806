package packagewatch

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

// Reader reads what is there now, whatever was watched: for the look before something is taken away. Its errors are those of the API
// server. It is safe for concurrent use.
type Reader struct {
	bindings     *client.Client
	revisions    namespaced[*storev1alpha1.PackageRevision, *storev1alpha1.PackageRevisionList]
	repositories namespaced[*configv1alpha1.Repository, *configv1alpha1.RepositoryList]
}

// NewReader returns a Reader of a WDS.
func NewReader(wds *rest.Config) (*Reader, error) {
	c, err := newClients(wds)
	if err != nil {
		return nil, err
	}
	var r Reader
	if r.bindings, err = client.New(wds); err != nil {
		return nil, err
	}
	if r.revisions, err = kindOf[*storev1alpha1.PackageRevision, *storev1alpha1.PackageRevisionList](c, storev1alpha1.PackageRevisions); err != nil {
		return nil, err
	}
	if r.repositories, err = kindOf[*configv1alpha1.Repository, *configv1alpha1.RepositoryList](c, configv1alpha1.Repositories); err != nil {
		return nil, err
	}
	return &r, nil
}

// Binding reads a Binding.
func (r *Reader) Binding(ctx context.Context, name string) (*controlv1alpha1.Binding, error) {
	return r.bindings.Bindings().Get(ctx, name, metav1.GetOptions{})
}

// Revision reads a kept revision.
func (r *Reader) Revision(ctx context.Context, namespace, name string) (*storev1alpha1.PackageRevision, error) {
	return r.revisions(namespace).Get(ctx, name, metav1.GetOptions{})
}

// Repository reads a Repository.
func (r *Reader) Repository(ctx context.Context, namespace, name string) (*configv1alpha1.Repository, error) {
	return r.repositories(namespace).Get(ctx, name, metav1.GetOptions{})
}

// Empty tells whether there is no revision in a Repository.
func (r *Reader) Empty(ctx context.Context, namespace, repository string) (bool, error) {
	some, err := r.revisions(namespace).List(ctx, metav1.ListOptions{FieldSelector: "spec.repository=" + repository, Limit: 1})
	if err != nil {
		return false, fmt.Errorf("look whether there are revisions in Repository %s: %w", repository, err)
	}
	return len(some.Items) == 0, nil
}

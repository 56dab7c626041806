package deployments

import (
	"context"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
)

// Reader reads what is there now, whatever was watched. Its errors are those of the API server. packagewatch.Reader is one.
type Reader interface {
	Binding(ctx context.Context, name string) (*controlv1alpha1.Binding, error)
	Revision(ctx context.Context, namespace, name string) (*storev1alpha1.PackageRevision, error)
	Repository(ctx context.Context, namespace, name string) (*configv1alpha1.Repository, error)
}

package packages

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/content"
	"github.com/starlinghq/starling/pkg/core/kptpkg"
	"github.com/starlinghq/starling/pkg/core/kptpkg/upgrade"
)

// follow notes what a draft is made from, where its files say another lock than before: somebody merged a newer revision of the upstream
// into it, or took the upstream out. That revision is protected from then on, and the one before no longer. A lock that names nothing
// known here protects nothing.
func (s *Store) follow(ctx context.Context, draft *storev1alpha1.PackageRevision, lock *porchv1alpha1.Locator, dryRun bool) error {
	if apiequality.Semantic.DeepEqual(draft.Status.UpstreamLock, lock) {
		return nil
	}
	upstream, err := s.locked(ctx, draft, lock)
	if err != nil {
		return err
	}
	draft.Content.Upstream, draft.Content.UpstreamDigest = "", ""
	digest := ""
	if _, _, here := upgrade.Here(lock); here && kptpkg.IsDigest(lock.Git.Commit) {
		digest = lock.Git.Commit // a draft that is an upstream may have gone on
	}
	if upstream != nil {
		draft.Content.Upstream = upstream.Name
		if digest == "" {
			digest = upstream.Content.Digest
		}
	}
	if digest == "" || dryRun {
		return nil
	}
	// The next merge begins with what the lock says, so that stays as long as the draft. What is gone cannot.
	switch err := s.Content.Keep(ctx, digest); {
	case errors.Is(err, content.ErrNotFound):
		return nil
	case err != nil:
		return apierrors.NewInternalError(fmt.Errorf("keep what %s is made of: %w", draft.Name, err))
	}
	draft.Content.UpstreamDigest = digest
	return nil
}

// locked returns the revision that a lock names, nil if there is none in the namespace of the draft. A revision is not the upstream of
// itself, nor of its own upstream: neither could ever be deleted.
func (s *Store) locked(ctx context.Context, draft *storev1alpha1.PackageRevision, lock *porchv1alpha1.Locator) (*storev1alpha1.PackageRevision, error) {
	if lock == nil || lock.Git == nil {
		return nil, nil //nolint:nilnil // made from nothing is an answer
	}
	o := metav1.ListOptions{LabelSelector: locatedLabel + "=" + located(lock.Git)}
	if namespace, repository, here := upgrade.Here(lock); here {
		if namespace != draft.Namespace {
			return nil, nil //nolint:nilnil // nobody is protected across namespaces
		}
		o = metav1.ListOptions{LabelSelector: withinLabel(repository, lock.Git.Directory) + "=" + itself}
	}
	found, err := s.Revisions(draft.Namespace).List(ctx, o)
	if err != nil {
		return nil, Explain(err, draft.Name)
	}
	i := slices.IndexFunc(found.Items, func(cr storev1alpha1.PackageRevision) bool {
		return upgrade.IsAt(&cr, lock) && cr.Name != draft.Name && cr.Content.Upstream != draft.Name
	})
	if i < 0 {
		return nil, nil //nolint:nilnil // it is not known here
	}
	return &found.Items[i], nil
}

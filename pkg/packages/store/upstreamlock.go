package store

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
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/upgrade"
	"github.com/starlinghq/starling/pkg/packages/content"
)

// updateUpstream records the upstream of a draft if the upstreamLock in its files changed: the user
// merged a newer revision of the upstream, or removed the upstream. The recorded revision is
// protected from deletion, and the previous one no longer is. A lock that refers to nothing in the
// namespace protects nothing.
func (s *Store) updateUpstream(ctx context.Context, draft *storev1alpha1.PackageRevision, lock *porchv1alpha1.Locator, dryRun bool) error {
	if apiequality.Semantic.DeepEqual(draft.Status.UpstreamLock, lock) {
		return nil
	}
	upstream, err := s.lockedRevision(ctx, draft, lock)
	if err != nil {
		return err
	}
	draft.Content.Upstream, draft.Content.UpstreamDigest = "", ""
	digest := ""
	if _, _, here := upgrade.Here(lock); here && kpt.IsDigest(lock.Git.Commit) {
		digest = lock.Git.Commit // an upstream that is a draft may have changed since
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
	// The next merge starts from the locked content, so that content is retained as long as the
	// draft exists. Content that is already collected cannot be retained.
	switch err := s.Content.Retain(ctx, digest); {
	case errors.Is(err, content.ErrNotFound):
		return nil
	case err != nil:
		return apierrors.NewInternalError(fmt.Errorf("retain the upstream content of revision %q: %w", draft.Name, err))
	}
	draft.Content.UpstreamDigest = digest
	return nil
}

// lockedRevision returns the revision that a lock refers to, or nil if the namespace of the draft
// has none. A revision is never the upstream of itself or of its own upstream: neither could then
// be deleted.
func (s *Store) lockedRevision(ctx context.Context, draft *storev1alpha1.PackageRevision, lock *porchv1alpha1.Locator) (*storev1alpha1.PackageRevision, error) {
	if lock == nil || lock.Git == nil {
		return nil, nil //nolint:nilnil // a package without upstream is a valid result
	}
	o := metav1.ListOptions{LabelSelector: lockLabel + "=" + lockHash(lock.Git)}
	if namespace, repository, here := upgrade.Here(lock); here {
		if namespace != draft.Namespace {
			return nil, nil //nolint:nilnil // revisions of other namespaces are not protected
		}
		o = metav1.ListOptions{LabelSelector: withinLabel(repository, lock.Git.Directory) + "=" + selfValue}
	}
	found, err := s.Revisions(draft.Namespace).List(ctx, o)
	if err != nil {
		return nil, TranslateError(err, draft.Name)
	}
	i := slices.IndexFunc(found.Items, func(cr storev1alpha1.PackageRevision) bool {
		return upgrade.IsAt(&cr, lock) && cr.Name != draft.Name && cr.Content.Upstream != draft.Name
	})
	if i < 0 {
		return nil, nil //nolint:nilnil // unknown in this namespace
	}
	return &found.Items[i], nil
}

package store

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/lifecycle"
	kptversion "github.com/starlinghq/starling/pkg/core/packages/kpt/version"
	"github.com/starlinghq/starling/pkg/core/text"
)

// Delete deletes a revision unless it changed since it was read. A revision with finalizers remains
// until they are removed.
func (s *Store) Delete(ctx context.Context, cr *storev1alpha1.PackageRevision, dryRun bool) error {
	if why := lifecycle.CheckDelete(cr.Spec.Lifecycle); why != "" {
		return forbidden(cr.Name, why)
	}
	downstream, err := s.list(ctx, cr.Namespace, "content.upstream="+cr.Name)
	if err != nil {
		return err
	}
	if len(downstream) > 0 {
		return forbidden(cr.Name, fmt.Sprintf("it is the upstream of %s: delete or upgrade these revisions first", names(downstream)))
	}
	if cr.DeletionTimestamp == nil && cr.Labels[porchv1alpha1.LatestRevisionLabel] != "" && !dryRun {
		// The previous revision gets the label before this one is deleted, so that one revision
		// always has it.
		if err := s.labelLatest(ctx, cr.Namespace, cr.Spec.RepositoryName, cr.Spec.PackageName, cr.Name); err != nil {
			return err
		}
	}
	err = s.Revisions(cr.Namespace).Delete(ctx, cr.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &cr.UID, ResourceVersion: &cr.ResourceVersion}, DryRun: dryRunOption(dryRun),
	})
	if err != nil {
		return TranslateError(err, cr.Name)
	}
	return nil
}

// LabelLatest puts the label kpt.dev/latest-revision on the latest revision of a package (see
// version.Latest), and removes it from all others. Approve and Delete call it. The Housekeeper
// repeats it if they ended too early.
func (s *Store) LabelLatest(ctx context.Context, namespace, repository, packageName string) error {
	const attempts = 3
	var err error
	for range attempts { // another request may write one of them at the same time
		if err = s.labelLatest(ctx, namespace, repository, packageName, ""); !apierrors.IsConflict(err) {
			return err
		}
	}
	return err
}

// labelLatest is LabelLatest while the revision named leaving is about to be deleted. That one is
// not changed.
func (s *Store) labelLatest(ctx context.Context, namespace, repository, packageName, leaving string) error {
	all, err := s.list(ctx, namespace, packageSelector(repository, packageName))
	if err != nil {
		return err
	}
	staying := make([]*storev1alpha1.PackageRevision, 0, len(all))
	for i := range all {
		if all[i].Name != leaving {
			staying = append(staying, &all[i])
		}
	}
	for _, cr := range kptversion.Relabel(staying) {
		if _, err := s.write(ctx, cr, false); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("label revision %q: %w", cr.Name, err)
		}
	}
	return nil
}

// names lists at most three revisions by name.
func names(revisions []storev1alpha1.PackageRevision) string {
	const limit = 3
	all := make([]string, len(revisions))
	for i := range revisions {
		all[i] = revisions[i].Name
	}
	return text.List(all, limit)
}

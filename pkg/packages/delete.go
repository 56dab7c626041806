package packages

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/kptpkg/lifecycle"
)

// Delete deletes a revision if it is still what it was when it was read. One with finalizers stays until they are gone.
func (s *Store) Delete(ctx context.Context, cr *storev1alpha1.PackageRevision, dryRun bool) error {
	if text := lifecycle.CheckDelete(cr.Spec.Lifecycle); text != "" {
		return forbidden(cr.Name, text)
	}
	downstream, err := s.list(ctx, cr.Namespace, "content.upstream="+cr.Name)
	if err != nil {
		return err
	}
	if len(downstream) > 0 {
		return forbidden(cr.Name, fmt.Sprintf("it is the upstream of %s; delete or upgrade those first", names(downstream)))
	}
	if cr.DeletionTimestamp == nil && cr.Labels[porchv1alpha1.LatestRevisionLabel] != "" && !dryRun {
		// The one before is the latest before this one is gone, so that there always is one.
		if err := s.relabel(ctx, cr.Namespace, cr.Spec.RepositoryName, cr.Spec.PackageName, cr.Name); err != nil {
			return err
		}
		s.Reached(PointDeleteLabel)
	}
	err = s.Revisions(cr.Namespace).Delete(ctx, cr.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &cr.UID, ResourceVersion: &cr.ResourceVersion}, DryRun: dryRuns(dryRun),
	})
	if err != nil {
		return Explain(err, cr.Name)
	}
	if !dryRun {
		s.Reached(PointDeleteRevision)
	}
	return nil
}

// Relabel makes sure that of the published revisions of a package the last one, and no other, has the label that says so. Approve and
// Delete do it; it is done again wherever more than one is seen, since they may have ended in between.
func (s *Store) Relabel(ctx context.Context, namespace, repository, packageName string) error {
	const attempts = 3
	var err error
	for range attempts { // somebody may write one of them at the same time
		if err = s.relabel(ctx, namespace, repository, packageName, ""); !apierrors.IsConflict(err) {
			return err
		}
	}
	return err
}

// relabel is Relabel for when one of the revisions is about to be deleted. That one is left as it is.
func (s *Store) relabel(ctx context.Context, namespace, repository, packageName, leaving string) error {
	all, err := s.list(ctx, namespace, ofPackage(repository, packageName))
	if err != nil {
		return err
	}
	last := -1
	for i := range all {
		cr := &all[i]
		if cr.Spec.Lifecycle.Published() && cr.Spec.Revision > 0 && cr.DeletionTimestamp == nil && cr.Name != leaving &&
			(last < 0 || cr.Spec.Revision > all[last].Spec.Revision) {
			last = i
		}
	}
	for i := range all {
		cr := &all[i]
		if _, has := cr.Labels[porchv1alpha1.LatestRevisionLabel]; has == (i == last) || cr.Name == leaving {
			continue
		}
		if i == last {
			if cr.Labels == nil {
				cr.Labels = map[string]string{}
			}
			cr.Labels[porchv1alpha1.LatestRevisionLabel] = "true"
		} else {
			delete(cr.Labels, porchv1alpha1.LatestRevisionLabel)
		}
		if _, err := s.write(ctx, cr, false); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("label %s: %w", cr.Name, err)
		}
	}
	return nil
}

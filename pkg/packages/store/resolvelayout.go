package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
)

// Resolution is the result of ResolveLayout.
type Resolution struct {
	// Deleted are the names of deleted drafts. No request returned them, and nobody edited them.
	Deleted []string
	// Conflicts describes conflicts that the authors have to resolve, one text for each.
	Conflicts []string
}

// LayoutSuspects receives a value when the layout index has a revision that may conflict with
// another one.
func (s *Store) LayoutSuspects() <-chan struct{} { return s.layout.suspected }

// ResolveLayout deletes drafts that conflict with others and whose creation ended before it could
// check that. One replica calls it, some time after LayoutSuspects, because requests in progress
// check by themselves. After an error the revision is suspected again.
func (s *Store) ResolveLayout(ctx context.Context) (Resolution, error) {
	var out Resolution
	var errs []error
	for _, name := range s.layout.takeSuspects() {
		deleted, why, err := s.resolveSuspect(ctx, name)
		switch {
		case err != nil:
			s.layout.suspectAgain(name)
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		case deleted:
			out.Deleted = append(out.Deleted, name.String())
		case why != "":
			out.Conflicts = append(out.Conflicts, why)
		}
	}
	return out, errors.Join(errs...)
}

func (s *Store) resolveSuspect(ctx context.Context, name types.NamespacedName) (deleted bool, left string, err error) {
	cr, err := s.Revisions(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && (cr.DeletionTimestamp != nil || cr.Content.Imported) {
		return false, "", nil
	}
	if err != nil {
		return false, "", err
	}
	pr := &porchv1alpha1.PackageRevision{ObjectMeta: metav1.ObjectMeta{Namespace: cr.Namespace, Name: cr.Name}, Spec: cr.Spec}
	find := s.listNeighbours(ctx, cr.Name)
	if isUnmodified(cr) {
		earlier, why := checkNeighbours(pr, cr.UID, func(key layoutKey) ([]neighbour, error) {
			found, err := find(key)
			return slices.DeleteFunc(found, func(n neighbour) bool { return !s.createdEarlier(&n, cr) }), err
		})
		if earlier != nil {
			err := s.Revisions(cr.Namespace).Delete(ctx, cr.Name, metav1.DeleteOptions{
				Preconditions: &metav1.Preconditions{UID: &cr.UID, ResourceVersion: &cr.ResourceVersion},
			})
			return err == nil, "", err
		}
		if why != nil {
			return false, "", why
		}
	}
	if createsPackage(&cr.Spec) { // further revisions of its package are no conflict any more
		pr.Spec.Tasks = nil
	}
	other, why := checkNeighbours(pr, cr.UID, find)
	if other == nil {
		return false, "", why
	}
	return false, name.Namespace + ": " + why.Error(), nil
}

// isUnmodified reports whether a draft is as it was created: the API server knows one field manager
// and no update.
func isUnmodified(cr *storev1alpha1.PackageRevision) bool {
	return cr.Spec.Lifecycle == porchv1alpha1.LifecycleDraft && cr.Generation == 1 && len(cr.ManagedFields) == 1
}

// maxRequestDuration is longer than any request takes. A revision that is older by this much was
// written earlier, even if the clocks differ.
const maxRequestDuration = 5 * time.Minute

// createdEarlier reports whether a neighbour was certainly created before an unmodified draft.
func (s *Store) createdEarlier(n *neighbour, draft *storev1alpha1.PackageRevision) bool {
	if other, own, ok := s.layout.creationVersions(draft.Namespace, n.name, draft.Name); ok {
		return other < own
	}
	version, err := strconv.ParseUint(n.version, 10, 64)
	own, err2 := strconv.ParseUint(draft.ResourceVersion, 10, 64)
	return err == nil && err2 == nil && version < own || n.created.Add(maxRequestDuration).Before(draft.CreationTimestamp.Time)
}

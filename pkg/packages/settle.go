package packages

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

// Settled is what became of revisions that may not be beside others.
type Settled struct {
	// Deleted are the names of those that nobody had been told of, nor had gone on with.
	Deleted []string
	// Left says which are for their authors to choose from, and why they cannot both be.
	Left []string
}

// Suspected gets a value when the watch has found a revision that may not be beside another.
func (s *Store) Suspected() <-chan struct{} { return s.places.found }

// Settle deletes what was created where it may not be, and whose creation ended before its second look. It is for one replica, some time
// after Suspected: who is still at it looks itself. What fails is suspected again.
func (s *Store) Settle(ctx context.Context) (Settled, error) {
	var out Settled
	var errs []error
	suspects := s.places.takeSuspects()
	slices.SortFunc(suspects, func(a, b types.NamespacedName) int {
		return slices.Compare([]string{a.Namespace, a.Name}, []string{b.Namespace, b.Name})
	})
	for _, name := range suspects {
		deleted, why, err := s.settle(ctx, name)
		switch {
		case err != nil:
			s.places.again(name)
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		case deleted:
			out.Deleted = append(out.Deleted, name.String())
		case why != "":
			out.Left = append(out.Left, why)
		}
	}
	return out, errors.Join(errs...)
}

func (s *Store) settle(ctx context.Context, name types.NamespacedName) (deleted bool, left string, err error) {
	cr, err := s.Revisions(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && (cr.DeletionTimestamp != nil || cr.Content.Imported) {
		return false, "", nil
	}
	if err != nil {
		return false, "", err
	}
	pr := &porchv1alpha1.PackageRevision{ObjectMeta: metav1.ObjectMeta{Namespace: cr.Namespace, Name: cr.Name}, Spec: cr.Spec}
	find := s.lister(ctx, cr.Name)
	if untouched(cr) {
		earlier, why := misplaced(pr, cr.UID, func(key placeKey) ([]neighbour, error) {
			found, err := find(key)
			return slices.DeleteFunc(found, func(n neighbour) bool { return !s.earlier(&n, cr) }), err
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
	if isClone(&cr.Spec) { // that there are others of its package says nothing about it any more
		pr.Spec.Tasks = nil
	}
	other, why := misplaced(pr, cr.UID, find)
	if other == nil {
		return false, "", why
	}
	return false, name.Namespace + ": " + why.Error(), nil
}

// untouched tells that a draft is as it was created. The API server knows one manager of it, and none of what was updated since.
func untouched(cr *storev1alpha1.PackageRevision) bool {
	return cr.Spec.Lifecycle == porchv1alpha1.LifecycleDraft && cr.Generation == 1 && len(cr.ManagedFields) == 1
}

// slowest is more than a request takes: what was created so much earlier was written earlier, whatever the clock says.
const slowest = 5 * time.Minute

// earlier tells whether a revision was certainly created before a draft that is as it was created.
func (s *Store) earlier(n *neighbour, draft *storev1alpha1.PackageRevision) bool {
	if other, own, ok := s.places.sinceOf(draft.Namespace, n.name, draft.Name); ok {
		return other < own
	}
	version, err := strconv.ParseUint(n.version, 10, 64)
	own, err2 := strconv.ParseUint(draft.ResourceVersion, 10, 64)
	return err == nil && err2 == nil && version < own || n.created.Add(slowest).Before(draft.CreationTimestamp.Time)
}

package store

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
)

// Reserver prevents imports and approvals from giving the same number to two revisions of a
// package. An approval can choose its number, an import cannot.
type Reserver struct{ store *Store }

// NewReserver returns a Reserver for a WDS. It sends no request.
func NewReserver(space *rest.Config) (*Reserver, error) {
	s, err := connect(Config{Space: space, Clock: clock.RealClock{}})
	if err != nil {
		return nil, err
	}
	return &Reserver{s}, nil
}

// Reserve makes sure that no later approval gives a number up to upTo to a revision of the package.
// It returns the numbers that approvals have already given. It can be repeated after any error. A
// new package takes one request.
//
// Approvals respect the reservation in the PackageNumber. An approval that was in progress when the
// reservation was written is fenced: it fails and starts again. If it was faster, its revision is
// published and its number is returned.
func (r *Reserver) Reserve(ctx context.Context, revision *storev1alpha1.PackageRevision, upTo int) (given map[int]bool, err error) {
	const patience = 20
	for attempt := 0; ; attempt++ {
		given, err = r.tryReserve(ctx, revision, upTo)
		if (apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)) && attempt < patience {
			continue // a concurrent write: read its result
		}
		return given, err
	}
}

func (r *Reserver) tryReserve(ctx context.Context, revision *storev1alpha1.PackageRevision, upTo int) (map[int]bool, error) {
	numbers := r.store.numbers(revision.Namespace)
	name := numberName(revision)
	_, err := numbers.Create(ctx, &storev1alpha1.PackageNumber{
		TypeMeta: numberType, ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: revision.Namespace}, Imported: upTo,
	}, metav1.CreateOptions{})
	if err == nil || !apierrors.IsAlreadyExists(err) {
		return nil, err // no revision of the package was approved before
	}
	held, err := numbers.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if held.Imported < upTo {
		held.TypeMeta, held.Imported = numberType, upTo
		if held, err = numbers.Update(ctx, held, metav1.UpdateOptions{}); err != nil {
			return nil, err
		}
	}
	if held.Holder == "" {
		return nil, nil
	}
	if held.Number <= upTo {
		if _, err := r.store.fence(ctx, held, revision.Namespace, true, false); err != nil {
			return nil, err
		}
	}
	all, err := r.store.list(ctx, revision.Namespace, packageSelector(revision.Spec.RepositoryName, revision.Spec.PackageName))
	if err != nil {
		return nil, err
	}
	given := map[int]bool{}
	for i := range all {
		if all[i].Spec.Revision > 0 {
			given[all[i].Spec.Revision] = true
		}
	}
	return given, nil
}

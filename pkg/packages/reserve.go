package packages

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
)

// Reserver keeps imports and approvals from giving two revisions of a package the same number: an approval can choose its number, an
// import cannot.
type Reserver struct{ store *Store }

// NewReserver returns a Reserver for a WDS. It talks to nobody yet.
func NewReserver(space *rest.Config) (*Reserver, error) {
	s, err := connect(Config{Space: space, Clock: clock.RealClock{}, Reached: func(string) {}})
	if err != nil {
		return nil, err
	}
	return &Reserver{s}, nil
}

// Reserve sees to it that from now on no approval gives a number up to upTo to a revision of the package, and returns those that
// approvals have given already, as far as they may be among these. It can be repeated after whatever ended it. For a package that is new
// it is one request.
//
// The PackageNumber says up to where numbers are reserved, and approvals go by that; so what is left is the approval that was under way
// when it began to say so. That one is fenced, as one approval fences another: it fails, and begins anew. If it was faster, it is published, and
// among those that are returned.
func (r *Reserver) Reserve(ctx context.Context, revision *storev1alpha1.PackageRevision, upTo int) (given map[int]bool, err error) {
	const patience = 20
	for attempt := 0; ; attempt++ {
		given, err = r.try(ctx, revision, upTo)
		if (apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)) && attempt < patience {
			continue // somebody else wrote, so we read what they wrote
		}
		return given, err
	}
}

func (r *Reserver) try(ctx context.Context, revision *storev1alpha1.PackageRevision, upTo int) (map[int]bool, error) {
	numbers := r.store.numbers(revision.Namespace)
	name := numberName(revision)
	_, err := numbers.Create(ctx, &storev1alpha1.PackageNumber{
		TypeMeta:   metav1.TypeMeta{APIVersion: storev1alpha1.GroupVersion.String(), Kind: "PackageNumber"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: revision.Namespace}, Imported: upTo,
	}, metav1.CreateOptions{})
	if err == nil || !apierrors.IsAlreadyExists(err) {
		return nil, err // nothing of the package was approved before
	}
	held, err := numbers.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if held.Imported < upTo {
		held.APIVersion, held.Kind = storev1alpha1.GroupVersion.String(), "PackageNumber"
		held.Imported = upTo
		if held, err = numbers.Update(ctx, held, metav1.UpdateOptions{}); err != nil {
			return nil, err
		}
	}
	if held.Holder == "" {
		return nil, nil
	}
	if held.Number <= upTo {
		if err := r.store.fence(ctx, held, revision.Namespace, true); err != nil {
			return nil, err
		}
	}
	all, err := r.store.list(ctx, revision.Namespace, ofPackage(revision.Spec.RepositoryName, revision.Spec.PackageName))
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

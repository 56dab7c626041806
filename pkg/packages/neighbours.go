package packages

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
)

// look finds neighbours.
type look func(key placeKey) ([]neighbour, error)

// watchPatience is how long a creation waits to hear of itself before it lists.
const watchPatience = 2 * time.Second

// checkPlace refuses a revision that may not be beside those that are there. What the watch says is enough to go on; what it refuses
// may be gone already, so that is listed.
func (s *Store) checkPlace(ctx context.Context, pr *porchv1alpha1.PackageRevision) error {
	watched := true
	_, refused := misplaced(pr, "", func(key placeKey) ([]neighbour, error) {
		found, ok := s.places.look(key, math.MaxUint64)
		watched = watched && ok
		return found, nil
	})
	if watched && refused == nil {
		return nil
	}
	_, refused = misplaced(pr, "", s.lister(ctx, pr.Name))
	return refused
}

// checkPlaceAgain refuses a revision that was made, and may not be beside those that were made before.
//
// Whoever created a package around this one, or cloned it too, at the same moment did not see this one. Of two, the later does now: it
// waits until it hears of itself, and has heard of all before. Where nothing is heard, all of them are listed; then one gives way, or both
// do. If the replica ends before that, a Housekeeper does it.
func (s *Store) checkPlaceAgain(ctx context.Context, pr *porchv1alpha1.PackageRevision, made *storev1alpha1.PackageRevision) error {
	find := s.lister(ctx, pr.Name)
	at, err := strconv.ParseUint(made.ResourceVersion, 10, 64)
	if err == nil && s.places.await(ctx, types.NamespacedName{Namespace: made.Namespace, Name: made.Name}, made.UID, watchPatience) {
		find = func(key placeKey) ([]neighbour, error) {
			found, _ := s.places.look(key, at)
			return found, nil
		}
	}
	_, refused := misplaced(pr, made.UID, find)
	return refused
}

// misplaced returns why a revision may not be beside others, and which: packages may not lie in each other, and a clone is the first of
// its package. The revision of that UID is not looked at.
func misplaced(pr *porchv1alpha1.PackageRevision, uid types.UID, find look) (*neighbour, error) {
	repo, name := pr.Spec.RepositoryName, pr.Spec.PackageName
	first := func(label string, itself bool) (*neighbour, error) {
		found, err := find(placeKey{pr.Namespace, label, itself})
		if err != nil {
			return nil, err
		}
		found = slices.DeleteFunc(found, func(n neighbour) bool { return n.uid == uid })
		if len(found) == 0 {
			return nil, nil //nolint:nilnil // nobody is there
		}
		least := slices.MinFunc(found, func(a, b neighbour) int { return strings.Compare(a.name, b.name) })
		return &least, nil
	}
	around := []placeKey{{label: withinLabel(repo, name)}}
	for i, char := range name {
		if char == '/' {
			around = append(around, placeKey{label: withinLabel(repo, name[:i]), itself: true})
		}
	}
	for _, key := range around {
		other, err := first(key.label, key.itself)
		switch {
		case err != nil:
			return nil, err
		case other != nil:
			return other, invalid(pr.Name, fmt.Sprintf("spec.packageName: Invalid value: %q: packages may not lie in each other: there is %s", name, other.name))
		}
	}
	if !isClone(&pr.Spec) {
		return nil, nil
	}
	other, err := first(withinLabel(repo, name), true)
	switch {
	case err != nil:
		return nil, err
	case other == nil:
		return nil, nil
	case other.name == pr.Name:
		return other, apierrors.NewAlreadyExists(revisionResource, pr.Name)
	}
	return other, invalid(pr.Name, fmt.Sprintf("spec.tasks[0].clone: Forbidden: `clone` cannot create a new revision for package %q that already exists in repo %q; "+
		"make subsequent revisions using `edit` or `upgrade` (there is %s)", name, repo, other.name))
}

// lister looks at what there is now.
func (s *Store) lister(ctx context.Context, name string) look {
	return func(key placeKey) ([]neighbour, error) {
		selector := key.label + "="
		if key.itself {
			selector += itself
		}
		found, err := s.metadata.Resource(storev1alpha1.PackageRevisions).Namespace(key.namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return nil, Explain(err, name)
		}
		out := make([]neighbour, len(found.Items))
		for i := range found.Items {
			m := &found.Items[i]
			out[i] = neighbour{m.Name, m.UID, m.ResourceVersion, m.CreationTimestamp}
		}
		return out, nil
	}
}

func isClone(spec *porchv1alpha1.PackageRevisionSpec) bool {
	return len(spec.Tasks) > 0 && spec.Tasks[0].Clone != nil
}

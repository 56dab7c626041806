package store

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/lifecycle"
)

// neighbourFinder returns the revisions at a key of the layout.
type neighbourFinder func(key layoutKey) ([]neighbour, error)

// watchTimeout is how long a creation waits for the watch to show its revision before it lists
// instead.
const watchTimeout = 2 * time.Second

// writeTimeout bounds what a creation does from when it writes the revision.
const writeTimeout = 10 * time.Second

// checkLayout refuses a revision that conflicts with existing ones. The layout index is enough to
// accept. Before a refusal the neighbours are listed, because a revision in the index may have been
// deleted.
func (s *Store) checkLayout(ctx context.Context, pr *porchv1alpha1.PackageRevision) error {
	watched := true
	_, refused := checkNeighbours(pr, "", func(key layoutKey) ([]neighbour, error) {
		found, ok := s.layout.find(key, math.MaxUint64)
		watched = watched && ok
		return found, nil
	})
	if watched && refused == nil {
		return nil
	}
	_, refused = checkNeighbours(pr, "", s.listNeighbours(ctx, pr.Name))
	return refused
}

// recheckLayout returns the revision created before with which a new one conflicts, and the error.
//
// Two concurrent requests may create packages around or within each other, or two first revisions
// of one package. Neither sees the other in checkLayout. The later one sees the earlier here: it
// waits until the watch shows its own revision, so the index has all earlier ones. Without a watch
// it lists the neighbours; then one or both are undone. If the replica ends before that, the
// Housekeeper resolves it.
func (s *Store) recheckLayout(ctx context.Context, pr *porchv1alpha1.PackageRevision, made *storev1alpha1.PackageRevision) (*neighbour, error) {
	find := s.listNeighbours(ctx, pr.Name)
	at, err := strconv.ParseUint(made.ResourceVersion, 10, 64)
	if err == nil && s.layout.waitFor(ctx, types.NamespacedName{Namespace: made.Namespace, Name: made.Name}, made.UID, watchTimeout) {
		find = func(key layoutKey) ([]neighbour, error) {
			found, _ := s.layout.find(key, at)
			return found, nil
		}
	}
	return checkNeighbours(pr, made.UID, find)
}

// checkNeighbours returns the revision that pr conflicts with, and the error. A package may not be
// within another one, and what init and clone create must be the first revision of its package. The
// revision with the given UID is ignored.
func checkNeighbours(pr *porchv1alpha1.PackageRevision, uid types.UID, find neighbourFinder) (*neighbour, error) {
	repo, name := pr.Spec.RepositoryName, pr.Spec.PackageName
	first := func(label string, itself bool) (*neighbour, error) {
		found, err := find(layoutKey{pr.Namespace, label, itself})
		if err != nil {
			return nil, err
		}
		found = slices.DeleteFunc(found, func(n neighbour) bool { return n.uid == uid })
		if len(found) == 0 {
			return nil, nil //nolint:nilnil // no neighbour
		}
		least := slices.MinFunc(found, func(a, b neighbour) int { return strings.Compare(a.name, b.name) })
		return &least, nil
	}
	around := []layoutKey{{label: withinLabel(repo, name)}}
	for i, char := range name {
		if char == '/' {
			around = append(around, layoutKey{label: withinLabel(repo, name[:i]), self: true})
		}
	}
	for _, key := range around {
		other, err := first(key.label, key.self)
		switch {
		case err != nil:
			return nil, err
		case other != nil:
			return other, invalid(pr.Name, lifecycle.FieldErrorf("spec.packageName", "Invalid value: %q: a package must not be within another one: it conflicts with revision %q", name, other.name))
		}
	}
	if !createsPackage(&pr.Spec) {
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
	task := pr.Spec.Tasks[0].Type
	return other, invalid(pr.Name, lifecycle.FieldErrorf("spec.tasks[0]."+string(task), "Forbidden: `%s` cannot create a new revision for package %q that already exists in repo %q; "+
		"make subsequent revisions using `edit` or `upgrade` (existing revision: %q)", task, name, repo, other.name))
}

// listNeighbours returns a neighbourFinder that lists stored revisions.
func (s *Store) listNeighbours(ctx context.Context, name string) neighbourFinder {
	return func(key layoutKey) ([]neighbour, error) {
		selector := key.label + "="
		if key.self {
			selector += selfValue
		}
		found, err := s.metadata.Resource(storev1alpha1.PackageRevisions).Namespace(key.namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return nil, TranslateError(err, name)
		}
		out := make([]neighbour, len(found.Items))
		for i := range found.Items {
			m := &found.Items[i]
			out[i] = neighbour{m.Name, m.UID, m.ResourceVersion, m.CreationTimestamp}
		}
		return out, nil
	}
}

// WatchLayout keeps the layout index up to date until ctx ends. Until the index has synced, each
// creation lists its neighbours.
func (s *Store) WatchLayout(ctx context.Context) {
	all := s.metadata.Resource(storev1alpha1.PackageRevisions)
	lists := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return all.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return all.Watch(ctx, o)
		},
	}
	cache.NewReflectorWithOptions(lists, &metav1.PartialObjectMetadata{}, s.layout, cache.ReflectorOptions{Name: "places of packages"}).RunWithContext(ctx)
}

// LayoutIsRead reports whether WatchLayout has read which packages exist.
func (s *Store) LayoutIsRead() bool {
	s.layout.mu.Lock()
	defer s.layout.mu.Unlock()
	return s.layout.synced
}

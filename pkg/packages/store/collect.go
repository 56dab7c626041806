package store

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/pager"

	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
)

// ReferencedDigests returns the digests of all content that revisions refer to.
func (s *Store) ReferencedDigests(ctx context.Context) (map[string]bool, error) {
	named := map[string]bool{}
	err := s.forEachRevision(ctx, func(cr *storev1alpha1.PackageRevision) {
		for _, digest := range []string{cr.Content.Digest, cr.Content.Base, cr.Content.UpstreamDigest} {
			if digest != "" {
				named[digest] = true
			}
		}
	})
	return named, err
}

// forEachRevision calls do for every stored revision.
func (s *Store) forEachRevision(ctx context.Context, do func(*storev1alpha1.PackageRevision)) error {
	list := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return s.Revisions(metav1.NamespaceAll).List(ctx, o)
	})
	err := list.EachListItem(ctx, metav1.ListOptions{}, func(obj runtime.Object) error {
		if cr, ok := obj.(*storev1alpha1.PackageRevision); ok {
			do(cr)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("list revisions: %w", err)
	}
	return nil
}

// CollectNumbers deletes the PackageNumbers of packages that have no revisions and whose Repository
// does not exist either, and returns how many it deleted. As long as a Repository exists, no number
// of a package in it is used again, even if all revisions of the package were deleted.
func (s *Store) CollectNumbers(ctx context.Context) (int, error) {
	all, err := s.numbers(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil || len(all.Items) == 0 {
		return 0, err
	}
	// Repositories are listed after the numbers: a number of a Repository that is created later is
	// not in the list.
	repositories, err := s.repositories(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, fmt.Errorf("list Repositories: %w", err)
	}
	used := map[types.NamespacedName]bool{}
	for i := range repositories.Items {
		used[types.NamespacedName{Namespace: repositories.Items[i].Namespace, Name: repositories.Items[i].Name}] = true
	}
	err = s.forEachRevision(ctx, func(cr *storev1alpha1.PackageRevision) {
		used[types.NamespacedName{Namespace: cr.Namespace, Name: cr.Spec.RepositoryName}] = true
	})
	if err != nil {
		return 0, err
	}
	deleted := 0
	for i := range all.Items {
		n := &all.Items[i]
		repository, _, _ := strings.Cut(n.Name, ".") // the name of a Repository has no dots
		if used[types.NamespacedName{Namespace: n.Namespace, Name: repository}] {
			continue
		}
		err := s.numbers(n.Namespace).Delete(ctx, n.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &n.UID, ResourceVersion: &n.ResourceVersion},
		})
		switch {
		case err == nil:
			deleted++
		case !apierrors.IsNotFound(err) && !apierrors.IsConflict(err):
			return deleted, fmt.Errorf("delete PackageNumber %q: %w", n.Name, err)
		}
	}
	return deleted, nil
}

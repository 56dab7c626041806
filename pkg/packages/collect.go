package packages

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"

	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
)

// Named lists the digests that revisions name.
func (s *Store) Named(ctx context.Context) (map[string]bool, error) {
	named := map[string]bool{}
	err := s.each(ctx, func(cr *storev1alpha1.PackageRevision) {
		for _, digest := range []string{cr.Content.Digest, cr.Content.Base, cr.Content.UpstreamDigest} {
			if digest != "" {
				named[digest] = true
			}
		}
	})
	return named, err
}

// each calls do for every revision there is.
func (s *Store) each(ctx context.Context, do func(*storev1alpha1.PackageRevision)) error {
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

// importGrace is how long a PackageNumber waits for the revisions that an import made it for.
const importGrace = time.Hour

// CollectNumbers deletes the PackageNumbers of packages that are gone, and returns how many those were.
func (s *Store) CollectNumbers(ctx context.Context) (int, error) {
	all, err := s.numbers(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil || len(all.Items) == 0 {
		return 0, err
	}
	type key struct{ namespace, name string }
	packages := map[key]bool{}
	err = s.each(ctx, func(cr *storev1alpha1.PackageRevision) {
		packages[key{cr.Namespace, numberName(cr)}] = true
	})
	if err != nil {
		return 0, err
	}
	deleted := 0
	for i := range all.Items {
		n := &all.Items[i]
		if packages[key{n.Namespace, n.Name}] || n.Imported > 0 && s.Clock.Since(n.CreationTimestamp.Time) < importGrace {
			continue
		}
		err := s.numbers(n.Namespace).Delete(ctx, n.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &n.UID, ResourceVersion: &n.ResourceVersion},
		})
		switch {
		case err == nil:
			deleted++
		case !apierrors.IsNotFound(err) && !apierrors.IsConflict(err):
			return deleted, fmt.Errorf("delete PackageNumber %s: %w", n.Name, err)
		}
	}
	return deleted, nil
}

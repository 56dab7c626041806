package foresight

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/foresight"
	"github.com/starlinghq/starling/pkg/core/foresight/explain"
	packagebinding "github.com/starlinghq/starling/pkg/core/packages/binding"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/lifecycle"
)

// PackageQuery says of which package facts are read: of a revision, or of a package of a
// Repository.
type PackageQuery struct {
	Namespace, Revision, Repository, Name string
}

// Package reads what is known of a package.
func (r *Reader) Package(ctx context.Context, q PackageQuery) *explain.Package {
	p := &explain.Package{Namespace: q.Namespace, Repository: q.Repository, Name: q.Name, Revision: q.Revision}
	p.Revisions = r.revisions(ctx, p)
	of := packagebinding.Package{Namespace: q.Namespace, Repository: p.Repository, Name: p.Name}
	together(
		func() { p.Fleet = r.fleet(ctx, p.Repository) },
		func() { r.repository(ctx, p) },
		func() { p.Binding = r.binding(ctx, packagebinding.Name(of)) },
	)
	what := reading{cluster: p.Repository}
	if b := p.Binding.Value; b != nil {
		what.bindings = []types.UID{b.UID}
	}
	r.readMailboxes(ctx, &p.Fleet, what)
	return p
}

// revisions reads the revisions of a package, and finds its Repository and name if a revision was
// asked for.
func (r *Reader) revisions(ctx context.Context, p *explain.Package) foresight.Fact[[]explain.Revision] {
	const resource = "packagerevisions"
	list, err := r.objects.Resource(porchv1alpha1.ResourcePackageRevisions).Namespace(p.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return foresight.Unread[[]explain.Revision](r.unreadInWDS("list", resource, err))
	}
	all := make([]porchv1alpha1.PackageRevision, len(list.Items))
	for i := range list.Items {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &all[i]); err != nil {
			return foresight.Unread[[]explain.Revision](r.unreadInWDS("read", resource, err))
		}
		if all[i].Name == p.Revision {
			p.Repository, p.Name = all[i].Spec.RepositoryName, all[i].Spec.PackageName
		}
	}
	var revisions []explain.Revision
	for i := range all {
		if one := &all[i]; one.Spec.RepositoryName == p.Repository && one.Spec.PackageName == p.Name && one.Spec.Revision >= 0 {
			revisions = append(revisions, revisionOf(one))
		}
	}
	slices.SortFunc(revisions, func(a, b explain.Revision) int { return cmp.Compare(a.Object, b.Object) })
	return foresight.Known(revisions)
}

func revisionOf(r *porchv1alpha1.PackageRevision) explain.Revision {
	of := explain.Revision{
		Object: r.Name, Shown: strconv.Itoa(r.Spec.Revision), Lifecycle: string(cmp.Or(r.Spec.Lifecycle, porchv1alpha1.LifecycleDraft)),
		Latest: r.Labels[porchv1alpha1.LatestRevisionLabel] == "true",
	}
	for _, unmet := range lifecycle.Unmet(&r.Spec, &r.Status) {
		of.Gates = append(of.Gates, "gate "+unmet)
	}
	return of
}

func (r *Reader) repository(ctx context.Context, p *explain.Package) {
	if p.Repository == "" {
		return
	}
	repository, err := r.objects.Resource(configv1alpha1.Repositories).Namespace(p.Namespace).Get(ctx, p.Repository, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return
	}
	p.RepositoryExists = true
	if err != nil {
		p.Deploys = true // what may not be read is not called wrong
		return
	}
	spec, _ := repository.Object["spec"].(map[string]any)
	p.Deploys, _ = spec["deployment"].(bool)
}

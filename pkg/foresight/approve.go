package foresight

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/foresight/forecast"
	packagebinding "github.com/starlinghq/starling/pkg/core/packages/binding"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/lifecycle"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/upgrade"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/version"
)

// ReadApprovals reads the packages of these PackageRevisions of a namespace, as they are and as
// they are after an approval, which is tried by a dry run. notes say whose approval cannot be
// tried.
func (r *WorldReader) ReadApprovals(ctx context.Context, namespace string, names []string) (packages []*forecast.Package, notes []string, err error) {
	objects, err := dynamic.NewForConfig(quick(r.WDS.Config))
	if err != nil {
		return nil, nil, err
	}
	revisions := objects.Resource(porchv1alpha1.ResourcePackageRevisions).Namespace(namespace)
	byID := map[packagebinding.Package]*forecast.Package{}
	for _, name := range names {
		live, err := revisions.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, nil, fmt.Errorf("read PackageRevision %q: %w", name, err)
		}
		before, err := revisionIn(live)
		if err != nil {
			return nil, nil, err
		}
		id := packagebinding.Package{Namespace: namespace, Repository: before.Spec.RepositoryName, Name: before.Spec.PackageName}
		p := byID[id]
		if p == nil {
			if p, err = readPackage(ctx, objects, id, before.Status.Deployment); err != nil {
				return nil, nil, err
			}
			byID[id] = p
			packages = append(packages, p)
		}
		after, refused, err := tryApproval(ctx, revisions, name)
		if apierrors.IsForbidden(err) {
			notes = append(notes, fmt.Sprintf("you may not approve %s: this is what happens if somebody else does", name))
			after, refused = approved(before)
			err = nil
		}
		if err != nil {
			return nil, nil, fmt.Errorf("approve PackageRevision %q by a dry run: %w", name, err)
		}
		approve(p, name, after, refused)
	}
	return packages, notes, nil
}

// readPackage reads all revisions of a package, and its Repository. A Repository that may not be
// read is that of a cluster if deployment is true.
func readPackage(ctx context.Context, objects dynamic.Interface, id packagebinding.Package, deployment bool) (*forecast.Package, error) {
	p := &forecast.Package{ID: id}
	selector := fields.Set{"spec.repository": id.Repository, "spec.packageName": id.Name}.AsSelector().String()
	list, err := objects.Resource(porchv1alpha1.ResourcePackageRevisions).Namespace(id.Namespace).List(ctx, metav1.ListOptions{FieldSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("read the revisions of package %s: %w", id, err)
	}
	for i := range list.Items {
		one, err := revisionIn(&list.Items[i])
		if err != nil {
			return nil, err
		}
		p.Before = append(p.Before, stored(one))
	}
	p.After = slices.Clone(p.Before)
	found, err := objects.Resource(configv1alpha1.Repositories).Namespace(id.Namespace).Get(ctx, id.Repository, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return p, nil
	case apierrors.IsForbidden(err):
		p.Repository = &configv1alpha1.Repository{Spec: configv1alpha1.RepositorySpec{Deployment: deployment}}
		return p, nil
	case err != nil:
		return nil, fmt.Errorf("read Repository %q: %w", id.Repository, err)
	}
	p.Repository = &configv1alpha1.Repository{}
	return p, runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, p.Repository)
}

func revisionIn(o *unstructured.Unstructured) (*porchv1alpha1.PackageRevision, error) {
	r := &porchv1alpha1.PackageRevision{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, r); err != nil {
		return nil, fmt.Errorf("read PackageRevision %q: %w", o.GetName(), err)
	}
	return r, nil
}

// stored returns a stored revision that has what decisions need of a served one.
func stored(r *porchv1alpha1.PackageRevision) *storev1alpha1.PackageRevision {
	s := &storev1alpha1.PackageRevision{ObjectMeta: r.ObjectMeta, Spec: r.Spec, Status: r.Status}
	s.OwnerReferences, s.Served.OwnerReferences = nil, r.OwnerReferences
	s.Spec.Lifecycle = cmp.Or(r.Spec.Lifecycle, porchv1alpha1.LifecycleDraft)
	s.Content.Digest = r.Status.ContentDigest
	if _, _, here := upgrade.Here(r.Status.SelfLock); here { // a published revision names the digest of its content
		s.Content.Digest = r.Status.SelfLock.Git.Commit
	}
	s.External.Ref = version.OfServed(r).Tag
	s.External.Branch = r.Spec.Revision < 0 && s.External.Ref == ""
	return s
}

// tryApproval approves a revision by a dry run. refused says why the server refuses that, as it
// would refuse the approval.
func tryApproval(ctx context.Context, revisions dynamic.ResourceInterface, name string) (after *porchv1alpha1.PackageRevision, refused string, err error) {
	var made *unstructured.Unstructured
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		live, err := revisions.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if err := unstructured.SetNestedField(live.Object, string(porchv1alpha1.LifecyclePublished), "spec", "lifecycle"); err != nil {
			return err
		}
		made, err = revisions.Update(ctx, live, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}}, "approval")
		return err
	})
	switch {
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		return nil, err.Error(), nil
	case err != nil:
		return nil, "", err
	}
	after, err = revisionIn(made)
	return after, "", err
}

// approved returns a revision after its approval by somebody else, without its number.
func approved(before *porchv1alpha1.PackageRevision) (after *porchv1alpha1.PackageRevision, refused string) {
	from, to := before.Spec.Lifecycle, porchv1alpha1.LifecyclePublished
	if text := lifecycle.CheckApproval(from, to); text != "" {
		return nil, text
	}
	if unmet := lifecycle.Unmet(&before.Spec, &before.Status); lifecycle.GatesOf(from, to) && len(unmet) > 0 {
		return nil, lifecycle.NotReady(unmet)
	}
	after = before.DeepCopy()
	after.Spec.Lifecycle = to
	return after, ""
}

// approve replaces a revision of a package by the one after the approval. A dry run gives the next
// number to each revision, so of several, each gets the number after those before it.
func approve(p *forecast.Package, name string, after *porchv1alpha1.PackageRevision, refused string) {
	one := forecast.ApprovedRevision{Name: name, Refused: refused}
	if after != nil {
		highest := 0
		for _, r := range p.After {
			if r.Name != name {
				highest = max(highest, r.Spec.Revision)
			}
		}
		is := stored(after)
		i := slices.IndexFunc(p.After, func(r *storev1alpha1.PackageRevision) bool { return r.Name == name })
		if i < 0 || p.After[i].Spec.Revision == 0 { // else it has a version already
			is.Spec.Revision = max(is.Spec.Revision, highest+1)
		}
		if i >= 0 {
			p.After[i] = is
		} else {
			p.After = append(p.After, is)
		}
		one.Version = forecast.Version(is)
	}
	p.Approved = append(p.Approved, one)
}

package variants

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/binding"
	"github.com/starlinghq/starling/pkg/core/packages/variant"
	"github.com/starlinghq/starling/pkg/dynamicinformer"
	"github.com/starlinghq/starling/pkg/packages/informers"
)

func (c *Controller) enqueue(all ...*configv1alpha1.PackageVariant) {
	for _, pv := range all {
		c.queue.Add(informers.KeyOf(pv))
	}
}

func (c *Controller) onVariant(before, after *configv1alpha1.PackageVariant) {
	c.count(before, after)
	c.enqueue(cmp.Or(after, before))
	if after != nil {
		return
	}
	if down := before.Spec.Downstream; down != nil { // others may wait for the package
		c.enqueue(c.Watch.VariantsOf(before.Namespace, variant.Package{Repository: down.Repo, Name: down.Package})...)
	}
}

// count counts the kinds in use.
func (c *Controller) count(before, after *configv1alpha1.PackageVariant) {
	kinds := func(pv *configv1alpha1.PackageVariant) []schema.GroupKind {
		if pv == nil {
			return nil
		}
		var all []schema.GroupKind
		for _, o := range pv.Status.Injected {
			all = append(all, schema.GroupKind{Group: o.Group, Kind: o.Kind})
		}
		return all
	}
	was, is := kinds(before), kinds(after)
	if slices.Equal(was, is) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, kind := range was {
		c.use[kind]--
		if c.use[kind] <= 0 {
			delete(c.use, kind)
		}
	}
	for _, kind := range is {
		c.use[kind]++
	}
	use := make(map[schema.GroupKind]struct{}, len(c.use))
	for kind := range c.use {
		use[kind] = struct{}{}
	}
	c.objects.Use(use)
}

func (c *Controller) onRevision(before, after *storev1alpha1.PackageRevision) {
	one := cmp.Or(after, before)
	p := informers.PackageOf(one)
	c.enqueue(c.Watch.VariantsOf(one.Namespace, p)...)
	if concernsDownstreams(before, after) {
		c.enqueue(c.Watch.VariantsFrom(one.Namespace, p)...)
	}
	for _, r := range []*storev1alpha1.PackageRevision{before, after} {
		if r == nil {
			continue
		}
		for i := range r.Served.OwnerReferences {
			if owner := &r.Served.OwnerReferences[i]; owner.Kind == "PackageVariant" {
				c.queue.Add(types.NamespacedName{Namespace: r.Namespace, Name: owner.Name})
			}
		}
	}
	if after != nil && (before == nil || !slices.Equal(variant.Locks(before), variant.Locks(after))) {
		c.mu.Lock()
		for key := range c.lost {
			if key.Namespace == after.Namespace {
				c.queue.Add(key)
			}
		}
		c.mu.Unlock()
	}
}

// concernsDownstreams reports whether a change of a revision may matter to PackageVariants whose
// upstream is its package. Other changes, such as the loss of a label when the next revision is
// published, must not requeue a thousand PackageVariants.
func concernsDownstreams(before, after *storev1alpha1.PackageRevision) bool {
	if before == nil || after == nil {
		return true
	}
	tags := func(r *storev1alpha1.PackageRevision) map[string]string {
		all := map[string]string{}
		for key := range r.Labels {
			if strings.HasPrefix(key, configv1alpha1.LabelTagPrefix) {
				all[key] = ""
			}
		}
		return all
	}
	return before.UID != after.UID || before.Spec.Lifecycle != after.Spec.Lifecycle || before.Spec.Revision != after.Spec.Revision ||
		before.Content.Digest != after.Content.Digest || (before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
		!slices.Equal(variant.Locks(before), variant.Locks(after)) || !maps.Equal(tags(before), tags(after))
}

func (c *Controller) onRepository(before, after *configv1alpha1.Repository) {
	exists := func(r *configv1alpha1.Repository) bool { return r != nil && r.DeletionTimestamp == nil }
	one := cmp.Or(after, before)
	if exists(before) != exists(after) {
		c.enqueue(c.Watch.VariantsIn(one.Namespace, one.Name)...)
	}
}

// onBinding requeues the PackageVariants of the package that a Binding delivers.
func (c *Controller) onBinding(before, after *controlv1alpha1.Binding) {
	one := cmp.Or(after, before)
	if p, ok := binding.PackageOf(one); ok {
		c.enqueue(c.Watch.VariantsOf(p.Namespace, variant.Package{Repository: p.Repository, Name: p.Name})...)
	}
}

// OnObject implements dynamicinformer.KindHandler.
func (c *Controller) OnObject(r dynamicinformer.Resource, before, after metav1.Object) {
	current := after
	switch {
	case after == nil:
		current = before
	case before != nil && versionOf(before, r) == versionOf(after, r):
		return
	}
	for _, pv := range c.Watch.VariantsInjecting(r.Group, r.Kind, current.GetName()) {
		if current.GetNamespace() == "" || pv.Namespace == current.GetNamespace() {
			c.enqueue(pv)
		}
	}
}

// OnKind implements dynamicinformer.KindHandler. It iterates over all PackageVariants.
func (c *Controller) OnKind(kind schema.GroupKind) {
	for _, pv := range c.Watch.Variants.All() {
		if slices.ContainsFunc(pv.Status.Injected, func(o configv1alpha1.InjectedObject) bool { return o.Group == kind.Group && o.Kind == kind.Kind }) {
			c.enqueue(pv)
		}
	}
}

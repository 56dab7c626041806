package variants

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/deploy"
	"github.com/starlinghq/starling/pkg/core/variant"
	"github.com/starlinghq/starling/pkg/packagewatch"
)

// watch has the informers tell of changes.
func (c *Controller) watch() error {
	w := c.config.Watch
	type watched struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
	}
	all := []watched{
		{w.Variants, packagewatch.Handler(c.onVariant)},
		{w.Revisions, packagewatch.Handler(c.onRevision)},
		{w.Repositories, packagewatch.Handler(c.onRepository)},
	}
	if c.config.Bindings != nil {
		all = append(all, watched{c.config.Bindings.Informer, packagewatch.Handler(c.onBinding)})
	}
	for _, h := range all {
		registered, err := h.informer.AddEventHandler(h.handler)
		if err != nil {
			return fmt.Errorf("watch what PackageVariants depend on: %w", err)
		}
		c.synced = append(c.synced, registered.HasSynced)
	}
	return nil
}

func (c *Controller) enqueue(all ...*configv1alpha1.PackageVariant) {
	for _, pv := range all {
		c.queue.Add(keyOf(pv))
	}
}

func (c *Controller) onVariant(before, after *configv1alpha1.PackageVariant) {
	c.count(before, after)
	if after != nil {
		c.enqueue(after)
		return
	}
	c.enqueue(before)
	if down := before.Spec.Downstream; down != nil { // somebody may have waited for the package
		c.enqueue(c.config.Watch.VariantsOf(before.Namespace, variant.Package{Repository: down.Repo, Name: down.Package})...)
	}
}

// count keeps which kinds are in use.
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
	c.config.Objects.Use(use)
}

func (c *Controller) onRevision(before, after *storev1alpha1.PackageRevision) {
	one := after
	if one == nil {
		one = before
	}
	p := packagewatch.PackageOf(one)
	c.enqueue(c.config.Watch.VariantsOf(one.Namespace, p)...)
	if concernsDownstreams(before, after) {
		c.enqueue(c.config.Watch.VariantsFrom(one.Namespace, p)...)
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

// concernsDownstreams tells whether a change of a revision may matter to those that have its package as their upstream. What else
// happens to it, as the loss of a label when the next one is published, is nothing to a thousand PackageVariants.
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
	there := func(r *configv1alpha1.Repository) bool { return r != nil && r.DeletionTimestamp == nil }
	one := after
	if one == nil {
		one = before
	}
	if there(before) != there(after) {
		c.enqueue(c.config.Watch.VariantsIn(one.Namespace, one.Name)...)
	}
}

// onBinding notes that a package is carried, or how it does in its cluster.
func (c *Controller) onBinding(before, after *controlv1alpha1.Binding) {
	one := after
	if one == nil {
		one = before
	}
	if p, ok := deploy.PackageOf(one); ok {
		c.enqueue(c.config.Watch.VariantsOf(p.Namespace, variant.Package{Repository: p.Repository, Name: p.Name})...)
	}
}

// OnObject is to be called when an object of a kind in use comes, changes or goes. The namespace is "" for one without.
func (c *Controller) OnObject(kind schema.GroupKind, namespace, name string) {
	for _, pv := range c.config.Watch.VariantsInjecting(kind.Group, kind.Kind, name) {
		if namespace == "" || pv.Namespace == namespace {
			c.enqueue(pv)
		}
	}
}

// OnKind is to be called when a kind in use was read, or is not served any more. It costs a look at all PackageVariants.
func (c *Controller) OnKind(kind schema.GroupKind) {
	for _, obj := range c.config.Watch.Variants.GetStore().List() {
		pv, ok := obj.(*configv1alpha1.PackageVariant)
		if ok && slices.ContainsFunc(pv.Status.Injected, func(o configv1alpha1.InjectedObject) bool { return o.Group == kind.Group && o.Kind == kind.Kind }) {
			c.enqueue(pv)
		}
	}
}

package variantsets

import (
	"fmt"
	"maps"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/variant"
	"github.com/starlinghq/starling/pkg/packagewatch"
)

// watch has the Controller told of what changes.
func (c *Controller) watch() error {
	for _, h := range []struct {
		what     string
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
	}{
		{"PackageVariantSets", c.config.Watch.Sets, packagewatch.Handler(c.onSet)},
		{"PackageVariants", c.config.Watch.Variants, packagewatch.Handler(c.onVariant)},
		{"Repositories", c.config.Watch.Repositories, packagewatch.Handler(c.onRepository)},
		{"PackageRevisions", c.config.Watch.Revisions, packagewatch.Handler(c.onRevision)},
	} {
		registration, err := h.informer.AddEventHandler(h.handler)
		if err != nil {
			return fmt.Errorf("watch %s: %w", h.what, err)
		}
		c.synced = append(c.synced, registration.HasSynced)
	}
	return nil
}

func keyOf(obj metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

func (c *Controller) onSet(before, after *configv1alpha2.PackageVariantSet) {
	switch {
	case after == nil:
		c.enqueue(keyOf(before), urgent)
	case before == nil, before.UID != after.UID, before.Generation != after.Generation, (before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil),
		!maps.Equal(before.Annotations, after.Annotations):
		c.enqueue(keyOf(after), urgent)
	case !c.isOwn(keyOf(after), &after.Status): // somebody else wrote it
		c.enqueue(keyOf(after), idle)
	}
}

func (c *Controller) isOwn(key types.NamespacedName, status *configv1alpha2.PackageVariantSetStatus) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.states[key]
	return s != nil && s.status != nil && apiequality.Semantic.DeepEqual(s.status, status)
}

func (c *Controller) onVariant(before, after *configv1alpha1.PackageVariant) {
	u := urgent
	if before != nil && after != nil && before.UID == after.UID {
		same := before.Generation == after.Generation && (before.DeletionTimestamp == nil) == (after.DeletionTimestamp == nil) &&
			before.Labels[configv1alpha1.LabelPackageVariantSet] == after.Labels[configv1alpha1.LabelPackageVariantSet] &&
			apiequality.Semantic.DeepEqual(before.OwnerReferences, after.OwnerReferences)
		if same && sameProgress(&before.Status, &after.Status) {
			return
		}
		if same {
			u = idle
		}
	}
	for _, pv := range []*configv1alpha1.PackageVariant{before, after} {
		if pv == nil {
			continue
		}
		if u == urgent {
			c.enqueueWaiting(pv)
		}
		if controller := metav1.GetControllerOfNoCopy(pv); controller != nil {
			c.enqueueUID(controller.UID, u)
		} else if uid := pv.Labels[configv1alpha1.LabelPackageVariantSet]; uid != "" {
			c.enqueueUID(types.UID(uid), u)
		}
	}
}

// sameProgress tells whether two statuses say the same, as far as sets show it.
func sameProgress(a, b *configv1alpha1.PackageVariantStatus) bool {
	if a.State != b.State {
		return false
	}
	for _, kind := range []string{
		configv1alpha1.ConditionStalled, configv1alpha1.ConditionReady,
		configv1alpha1.PackageVariantConditionApplied, configv1alpha1.PackageVariantConditionHealthy,
	} {
		one, other := meta.FindStatusCondition(a.Conditions, kind), meta.FindStatusCondition(b.Conditions, kind)
		if (one == nil) != (other == nil) {
			return false
		}
		if one != nil && (one.Status != other.Status || one.Reason != other.Reason || one.Message != other.Message) {
			return false
		}
	}
	return true
}

func (c *Controller) enqueueUID(uid types.UID, u urgency) {
	c.mu.Lock()
	key, ok := c.byUID[uid]
	c.mu.Unlock()
	if ok {
		c.enqueue(key, u)
	}
}

// enqueueWaiting wakes the sets that want the package of a PackageVariant.
func (c *Controller) enqueueWaiting(pv *configv1alpha1.PackageVariant) {
	if pv.Spec.Downstream == nil {
		return
	}
	c.mu.Lock()
	keys := slices.Collect(maps.Keys(c.waiting[namespacedPackage{pv.Namespace, variant.Package{Repository: pv.Spec.Downstream.Repo, Name: pv.Spec.Downstream.Package}}]))
	c.mu.Unlock()
	for _, key := range keys {
		c.enqueue(key, urgent)
	}
}

// onRepository costs a look at all sets of the namespace.
func (c *Controller) onRepository(before, after *configv1alpha1.Repository) {
	if before != nil && after != nil && before.Detached() == after.Detached() && maps.Equal(before.Labels, after.Labels) &&
		maps.Equal(before.Annotations, after.Annotations) {
		return // its status, mostly
	}
	there := after
	if there == nil {
		there = before
	}
	// Those that have something in it, whether they still ask for it or not.
	keeping := map[types.UID]bool{}
	for _, pv := range c.config.Watch.VariantsIn(there.Namespace, there.Name) {
		if controller := metav1.GetControllerOfNoCopy(pv); controller != nil {
			keeping[controller.UID] = true
		}
	}
	for _, key := range c.find(func(key types.NamespacedName, s *state) bool {
		if key.Namespace != there.Namespace {
			return false
		}
		return keeping[s.uid] || s.interest.asksFor(before) || s.interest.asksFor(after)
	}) {
		c.enqueue(key, urgent)
	}
}

func (c *Controller) onRevision(before, after *storev1alpha1.PackageRevision) {
	if before != nil && after != nil && before.Spec.Lifecycle == after.Spec.Lifecycle && before.Spec.Revision == after.Spec.Revision &&
		maps.Equal(before.Labels, after.Labels) && maps.Equal(before.Annotations, after.Annotations) {
		return
	}
	there := after
	if there == nil {
		there = before
	}
	pkg := packagewatch.PackageOf(there)
	for _, key := range c.find(func(key types.NamespacedName, s *state) bool {
		return key.Namespace == there.Namespace && s.interest.upstream == pkg
	}) {
		c.enqueue(key, urgent)
	}
}

// OnObject says that an object of a kind that is in use came (before is nil), changed, or went (after is nil).
func (c *Controller) OnObject(kind schema.GroupKind, before, after *variant.Metadata) {
	there := after
	if there == nil {
		there = before
	}
	for _, key := range c.ofKind(kind, func(key types.NamespacedName, s *state) bool {
		return (there.Namespace == "" || there.Namespace == key.Namespace) && (s.interest.selects(kind, before) || s.interest.selects(kind, after))
	}) {
		c.enqueue(key, urgent)
	}
}

// OnKind says that it changed whether, or how much of, a kind that is in use can be read.
func (c *Controller) OnKind(kind schema.GroupKind) {
	for _, key := range c.ofKind(kind, func(types.NamespacedName, *state) bool { return true }) {
		c.enqueue(key, urgent)
	}
}

// find returns the sets that match, of those that were planned.
func (c *Controller) find(matches func(types.NamespacedName, *state) bool) []types.NamespacedName {
	c.mu.Lock()
	defer c.mu.Unlock()
	var keys []types.NamespacedName
	for key, s := range c.states {
		if s.interest != nil && matches(key, s) {
			keys = append(keys, key)
		}
	}
	return keys
}

func (c *Controller) ofKind(kind schema.GroupKind, matches func(types.NamespacedName, *state) bool) []types.NamespacedName {
	c.mu.Lock()
	defer c.mu.Unlock()
	var keys []types.NamespacedName
	for key := range c.byKind[kind] {
		if s := c.states[key]; s != nil && s.interest != nil && matches(key, s) {
			keys = append(keys, key)
		}
	}
	return keys
}

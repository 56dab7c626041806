package variantsets

import (
	"cmp"
	"maps"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/binding"
	"github.com/starlinghq/starling/pkg/core/packages/variant"
	"github.com/starlinghq/starling/pkg/packages/informers"
)

func (c *Controller) onSet(before, after *configv1alpha2.PackageVariantSet) {
	switch {
	case after == nil, before == nil, before.UID != after.UID, before.Generation != after.Generation, (before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil),
		!maps.Equal(before.Annotations, after.Annotations):
		c.enqueue(informers.KeyOf(cmp.Or(after, before)), urgent)
	case !c.isOwn(informers.KeyOf(after), &after.Status): // another client wrote it
		c.enqueue(informers.KeyOf(after), idle)
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
			before.Annotations[configv1alpha1.AnnotationApprovalPolicy] == after.Annotations[configv1alpha1.AnnotationApprovalPolicy] &&
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
		}
	}
}

// sameProgress reports whether two statuses are the same in what sets show of them.
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
		if one != nil && (one.Status != other.Status || one.Reason != other.Reason || one.Message != other.Message || one.ObservedGeneration != other.ObservedGeneration) {
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

// enqueueWaiting requeues the sets that wait for the package of a PackageVariant.
func (c *Controller) enqueueWaiting(pv *configv1alpha1.PackageVariant) {
	if pv.Spec.Downstream == nil {
		return
	}
	c.mu.Lock()
	keys := slices.Collect(maps.Keys(c.waiting[binding.Package{Namespace: pv.Namespace, Repository: pv.Spec.Downstream.Repo, Name: pv.Spec.Downstream.Package}]))
	c.mu.Unlock()
	for _, key := range keys {
		c.enqueue(key, urgent)
	}
}

func (c *Controller) onRepository(before, after *configv1alpha1.Repository) {
	if before != nil && after != nil && before.Detached() == after.Detached() && maps.Equal(before.Labels, after.Labels) &&
		maps.Equal(before.Annotations, after.Annotations) {
		return // its status, mostly
	}
	current := cmp.Or(after, before)
	keeping := c.keeping(current.Namespace, current.Name)
	c.enqueueMatching(current.Namespace, func(s *state) bool {
		return keeping[s.uid] || s.interest.asksFor(before) || s.interest.asksFor(after)
	})
}

// keeping returns the sets that have something in a Repository, whether they still request it or
// not.
func (c *Controller) keeping(namespace, repository string) map[types.UID]bool {
	sets := map[types.UID]bool{}
	for _, pv := range c.Watch.VariantsIn(namespace, repository) {
		if controller := metav1.GetControllerOfNoCopy(pv); controller != nil {
			sets[controller.UID] = true
		}
	}
	return sets
}

func (c *Controller) onRevision(before, after *storev1alpha1.PackageRevision) {
	if before != nil && after != nil && before.Spec.Lifecycle == after.Spec.Lifecycle && before.Spec.Revision == after.Spec.Revision &&
		maps.Equal(before.Labels, after.Labels) && maps.Equal(before.Annotations, after.Annotations) {
		return
	}
	current := cmp.Or(after, before)
	pkg := informers.PackageOf(current)
	var keeping map[types.UID]bool
	if after == nil && c.Watch.Repositories.Get(current.Namespace, pkg.Repository) == nil { // a PackageVariant stays for its revisions
		keeping = c.keeping(current.Namespace, pkg.Repository)
	}
	c.enqueueMatching(current.Namespace, func(s *state) bool { return keeping[s.uid] || s.interest.upstream == pkg })
}

// onObject requeues the sets that select an object of a kind, before or after a change of its
// labels or annotations.
func (c *Controller) onObject(kind schema.GroupKind, before, after *variant.Metadata) {
	c.enqueueMatching(cmp.Or(after, before).Namespace, func(s *state) bool {
		return s.interest.selects(kind, before) || s.interest.selects(kind, after)
	})
}

// onKind requeues the sets that select from a kind.
func (c *Controller) onKind(kind schema.GroupKind) {
	c.enqueueMatching("", func(s *state) bool { return len(s.interest.kinds[kind]) > 0 })
}

// enqueueMatching requeues the sets of a namespace that match, or with "" of all, of those that
// were planned. It iterates over all sets.
func (c *Controller) enqueueMatching(namespace string, matches func(*state) bool) {
	c.mu.Lock()
	var keys []types.NamespacedName
	for key, s := range c.states {
		if (namespace == "" || namespace == key.Namespace) && matches(s) {
			keys = append(keys, key)
		}
	}
	c.mu.Unlock()
	for _, key := range keys {
		c.enqueue(key, urgent)
	}
}

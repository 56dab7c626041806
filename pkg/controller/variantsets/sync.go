package variantsets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/variant"
	"github.com/starlinghq/starling/pkg/packagewatch"
	"github.com/starlinghq/starling/pkg/write"
)

// Points between two writes, for tests.
const (
	PointCreated  = "set-created"
	PointUpdated  = "set-updated"
	PointDeleted  = "set-deleted"
	PointReleased = "set-released"
	PointTold     = "set-told"
)

// Reasons of writes, in metrics.
const (
	reasonTarget   = "target"
	reasonChanged  = "changed"
	reasonNoTarget = "no-target"
	reasonReleased = "released"
	reasonStatus   = "status"
)

// inFlight is how many PackageVariants of one set are written at once.
const inFlight = 4

// sync does what has to be done for a set, and returns when to look again; 0 is when something changes.
func (c *Controller) sync(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	set := c.config.Watch.Set(key.Namespace, key.Name)
	if set == nil || set.DeletionTimestamp != nil {
		// Its PackageVariants go with it, unless whoever deletes it wants them to stay.
		c.forget(key)
		return 0, nil
	}
	s := c.stateOf(key, set)
	if after := c.behind(set, s); after > 0 {
		return after, nil // or with the event that brings the cache up to date
	}
	if after := c.unread(s); after > 0 {
		return after, nil
	}
	plan := c.plan(key, set, s)
	if len(plan.Delete) > 0 {
		if err := c.confirm(ctx, s); err != nil {
			return 0, err
		}
		plan = c.plan(key, set, s) // what is going is not read any more
	}
	s.begun = plan.Released
	refused, err := c.carryOut(ctx, s, plan)
	if err != nil {
		return 0, err
	}
	if !maps.Equal(refused, s.refused) {
		s.refused = refused
		plan = c.plan(key, set, s)
	}
	after, err := c.tell(ctx, key, set, s, &plan.Status)
	if err != nil {
		return 0, err
	}
	if plan.Spent {
		if err := c.spend(ctx, set); err != nil {
			return 0, err
		}
	}
	if plan.Retry || len(refused) > 0 {
		return 0, errAgain
	}
	return after, nil
}

// behind tells for how long to wait for the cache to show the PackageVariants that were written for a set; 0 if it does. The set itself is
// not waited for: a write that is based on an old one is refused.
func (c *Controller) behind(set *configv1alpha2.PackageVariantSet, s *state) time.Duration {
	return s.wrote.Behind(c.config.Clock.Now(), func(name string) metav1.Object {
		if pv := c.config.Watch.Variant(set.Namespace, name); pv != nil {
			return pv
		}
		return nil
	})
}

func (c *Controller) wrote(made *metav1.PartialObjectMetadata) packagewatch.Written {
	return packagewatch.Written{Version: made.ResourceVersion, At: c.config.Clock.Now()}
}

// unreadPatience is how long a set waits for what it selects from to be read. To say that it is not, and a moment later that it is, would be
// two writes for each restart.
const unreadPatience = 10 * time.Second

// unread tells for how long to wait for what a set selects from; 0 if it was read, or is not said to be after a while.
func (c *Controller) unread(s *state) time.Duration {
	for kind := range s.interest.kinds {
		if errors.Is(c.config.Objects.Readable(kind), ErrUnread) {
			now := c.config.Clock.Now()
			if s.unread.IsZero() {
				s.unread = now
			}
			return max(0, unreadPatience-now.Sub(s.unread))
		}
	}
	s.unread = time.Time{}
	return 0
}

// stateOf returns what is remembered of a set, with its expressions as they are at its generation.
func (c *Controller) stateOf(key types.NamespacedName, set *configv1alpha2.PackageVariantSet) *state {
	c.mu.Lock()
	s := c.states[key]
	c.mu.Unlock()
	if s != nil && s.uid != set.UID {
		c.forget(key)
		s = nil
	}
	if s == nil {
		s = &state{uid: set.UID, wrote: packagewatch.Writes{}, generation: -1}
	}
	if s.generation == set.Generation {
		return s
	}
	s.invalid, s.compiled = variant.ValidateSet(&set.Spec), nil
	if len(s.invalid) == 0 {
		s.compiled, s.invalid = variant.Compile(&set.Spec)
	}
	s.generation = set.Generation
	interest := interestOf(&set.Spec)
	c.mu.Lock()
	c.states[key], c.byUID[set.UID] = s, key
	c.unindexKinds(key)
	s.interest = interest
	for kind := range interest.kinds {
		if c.byKind[kind] == nil {
			c.byKind[kind] = map[types.NamespacedName]struct{}{}
		}
		c.byKind[kind][key] = struct{}{}
	}
	c.mu.Unlock()
	c.use()
	return s
}

// forget drops all that is remembered of a set.
func (c *Controller) forget(key types.NamespacedName) {
	c.mu.Lock()
	s := c.states[key]
	if s != nil {
		c.unindexKinds(key)
		c.indexWaiting(key, s, nil)
		delete(c.states, key)
		delete(c.byUID, s.uid)
	}
	c.mu.Unlock()
	if s != nil {
		c.use()
	}
}

func (c *Controller) unindexKinds(key types.NamespacedName) {
	for kind, keys := range c.byKind {
		delete(keys, key)
		if len(keys) == 0 {
			delete(c.byKind, kind)
		}
	}
}

func (c *Controller) indexWaiting(key types.NamespacedName, s *state, blocked []variant.Package) {
	for _, pkg := range s.blocked {
		at := namespacedPackage{key.Namespace, pkg}
		delete(c.waiting[at], key)
		if len(c.waiting[at]) == 0 {
			delete(c.waiting, at)
		}
	}
	for _, pkg := range blocked {
		at := namespacedPackage{key.Namespace, pkg}
		if c.waiting[at] == nil {
			c.waiting[at] = map[types.NamespacedName]struct{}{}
		}
		c.waiting[at][key] = struct{}{}
	}
	s.blocked = blocked
}

// use says which kinds are selected by any set.
func (c *Controller) use() {
	c.mu.Lock()
	defer c.mu.Unlock()
	kinds := make(map[schema.GroupKind]struct{}, len(c.byKind))
	for kind := range c.byKind {
		kinds[kind] = struct{}{}
	}
	c.config.Objects.Use(kinds) // with the lock held, so that the last to come says what holds
}

// plan decides what is to be done for a set.
func (c *Controller) plan(key types.NamespacedName, set *configv1alpha2.PackageVariantSet, s *state) *variant.SetPlan {
	begin := c.config.Clock.Now()
	plan := variant.PlanSet(c.gather(set, s))
	took := c.config.Clock.Since(begin)
	plannings.WithLabelValues().Observe(took.Seconds())
	c.mu.Lock()
	defer c.mu.Unlock()
	s.planned, s.took = c.config.Clock.Now(), took
	if !slices.Equal(s.blocked, plan.Blocked) {
		c.indexWaiting(key, s, plan.Blocked)
	}
	return plan
}

// confirm asks whether the kinds that a set selects are going: their objects go first, and one after the other.
func (c *Controller) confirm(ctx context.Context, s *state) error {
	for kind := range s.interest.kinds {
		if err := c.config.Objects.Confirm(ctx, kind); err != nil {
			return fmt.Errorf("look whether %s is going: %w", kind, err)
		}
	}
	return nil
}

// carryOut writes what is planned, and returns what the API server does not take. Nothing is deleted unless all else was written.
func (c *Controller) carryOut(ctx context.Context, s *state, plan *variant.SetPlan) (refused map[variant.Package]string, err error) {
	var mu sync.Mutex
	each := func(list []*configv1alpha1.PackageVariant, do func(context.Context, *configv1alpha1.PackageVariant) (packagewatch.Written, error)) error {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(inFlight)
		for _, pv := range list {
			if ctx.Err() != nil {
				break
			}
			group.Go(func() error {
				wrote, err := do(ctx, pv)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					s.wrote[pv.Name] = wrote
				case isRefused(err):
					if refused == nil {
						refused = map[variant.Package]string{}
					}
					refused[variant.Package{Repository: pv.Spec.Downstream.Repo, Name: pv.Spec.Downstream.Package}] = fmt.Sprintf("PackageVariant %s is refused: %s", pv.Name, whyRefused(err))
				default:
					return err
				}
				return nil
			})
		}
		return group.Wait()
	}
	logger := klog.FromContext(ctx)
	if n, m, k := len(plan.Create), len(plan.Update), len(plan.Delete); n+m+k > 0 {
		logger.V(2).Info("Writing PackageVariants", "create", n, "update", m, "delete", k)
	}
	if err := each(plan.Create, c.create); err != nil {
		return refused, err
	}
	if err := each(plan.Update, c.update); err != nil || len(refused) > 0 {
		return refused, err
	}
	return nil, each(plan.Delete, c.delete)
}

// isRefused tells whether the API server will not take an object as it is. What concerns the cache or the connection passes.
func isRefused(err error) bool {
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return false
	}
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// whyRefused is what the API server says, without what we say already.
func whyRefused(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Message
	}
	return err.Error()
}

func target(pv *configv1alpha1.PackageVariant) write.Target {
	return write.Target{Resource: configv1alpha1.PackageVariants, Namespace: pv.Namespace, Name: pv.Name}
}

func (c *Controller) create(ctx context.Context, pv *configv1alpha1.PackageVariant) (packagewatch.Written, error) {
	made, err := c.config.Writer.Create(ctx, target(pv), pv, reasonTarget)
	if err != nil {
		return packagewatch.Written{}, err
	}
	c.config.Reached(PointCreated)
	return c.wrote(made), nil
}

func (c *Controller) update(ctx context.Context, pv *configv1alpha1.PackageVariant) (packagewatch.Written, error) {
	pv.APIVersion, pv.Kind = configv1alpha1.GroupVersion.String(), "PackageVariant"
	made, err := c.config.Writer.Update(ctx, target(pv), pv, reasonChanged)
	if err != nil {
		return packagewatch.Written{}, err
	}
	c.config.Reached(PointUpdated)
	return c.wrote(made), nil
}

func (c *Controller) delete(ctx context.Context, pv *configv1alpha1.PackageVariant) (packagewatch.Written, error) {
	if err := c.config.Writer.Delete(ctx, target(pv), pv.UID, reasonNoTarget); err != nil && !apierrors.IsNotFound(err) {
		return packagewatch.Written{}, err
	}
	c.config.Reached(PointDeleted)
	return packagewatch.Written{Deleted: pv.UID, At: c.config.Clock.Now()}, nil
}

// tell writes the status if it says something new. If only numbers did, they are not written more than once a second; then it returns when
// to look again.
func (c *Controller) tell(
	ctx context.Context, key types.NamespacedName, set *configv1alpha2.PackageVariantSet, s *state, status *configv1alpha2.PackageVariantSetStatus,
) (time.Duration, error) {
	now := c.config.Clock.Now()
	variant.SetTimes(set.Status.Conditions, status.Conditions, now)
	c.mu.Lock()
	s.status = status
	c.mu.Unlock()
	if apiequality.Semantic.DeepEqual(&set.Status, status) {
		return 0, nil
	}
	if since := now.Sub(s.told); since < leastIdle && apiequality.Semantic.DeepEqual(set.Status.Conditions, status.Conditions) {
		return leastIdle - since, nil
	}
	changed := set.DeepCopy()
	changed.APIVersion, changed.Kind = configv1alpha2.GroupVersion.String(), "PackageVariantSet"
	changed.Status = *status
	target := write.Target{Resource: configv1alpha2.PackageVariantSets, Namespace: key.Namespace, Name: key.Name, Subresource: "status"}
	if _, err := c.config.Writer.Update(ctx, target, changed, reasonStatus); err != nil {
		if apierrors.IsNotFound(err) {
			err = nil
		}
		return 0, err
	}
	s.told = now
	c.config.Reached(PointTold)
	return 0, nil
}

// spend removes the annotation that releases deletions, if it is the one that was seen.
func (c *Controller) spend(ctx context.Context, set *configv1alpha2.PackageVariantSet) error {
	path := "/metadata/annotations/" + strings.ReplaceAll(controlv1alpha1.AnnotationReleaseHeld, "/", "~1") // as a JSON pointer
	patch, err := json.Marshal([]map[string]string{
		{"op": "test", "path": path, "value": set.Annotations[controlv1alpha1.AnnotationReleaseHeld]},
		{"op": "remove", "path": path},
	})
	if err != nil {
		return err
	}
	target := write.Target{Resource: configv1alpha2.PackageVariantSets, Namespace: set.Namespace, Name: set.Name}
	if _, err = c.config.Writer.Patch(ctx, target, types.JSONPatchType, patch, reasonReleased); err != nil {
		if apierrors.IsInvalid(err) || apierrors.IsNotFound(err) {
			return nil // it was changed meanwhile, of which the watch tells
		}
		return err
	}
	c.config.Reached(PointReleased)
	return nil
}

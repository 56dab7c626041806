package variantsets

import (
	"cmp"
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
	"github.com/starlinghq/starling/pkg/controller/worker"
	"github.com/starlinghq/starling/pkg/core/expression"
	"github.com/starlinghq/starling/pkg/core/packages/binding"
	"github.com/starlinghq/starling/pkg/core/packages/variant"
	"github.com/starlinghq/starling/pkg/logging"
	"github.com/starlinghq/starling/pkg/packages/informers"
	"github.com/starlinghq/starling/pkg/writer"
)

// inFlight is how many PackageVariants of one set are written at once.
const inFlight = 4

// sync plans a set, and carries the plan out.
func (c *Controller) sync(ctx context.Context, key types.NamespacedName) (worker.Result, error) {
	// An event that came while the set was planned was enqueued with the pause after the planning
	// before.
	if wait := c.wait(key, urgent); wait > 0 {
		return worker.Result{After: wait, KeepBackOff: true}, nil
	}
	after, err := c.reconcile(ctx, key)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		klog.FromContext(ctx).V(4).Info("Not written: the namespace is being deleted", logging.Reason, err.Error())
		return worker.Result{}, nil
	}
	return worker.Result{After: after}, err
}

// reconcile returns when to requeue the set; 0 is with the next change.
func (c *Controller) reconcile(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	set := c.Watch.VariantSets.Get(key.Namespace, key.Name)
	if set == nil || set.DeletionTimestamp != nil {
		// The garbage collector deletes its PackageVariants, unless the set is deleted with
		// --cascade=orphan.
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
	plan, err := c.plan(ctx, key, set, s)
	if err != nil {
		return 0, err
	}
	if len(plan.Delete) > 0 {
		if err := c.confirm(ctx, s); err != nil {
			return 0, err
		}
		if plan, err = c.plan(ctx, key, set, s); err != nil { // kinds that are being deleted are no longer read
			return 0, err
		}
	}
	s.begun = plan.Allowed
	refused, err := c.carryOut(ctx, s, plan)
	if err != nil {
		return 0, err
	}
	if !maps.Equal(refused, s.refused) {
		s.refused = refused
		if plan, err = c.plan(ctx, key, set, s); err != nil {
			return 0, err
		}
	}
	after, err := c.writeStatus(ctx, key, set, s, &plan.Status)
	if err != nil {
		return 0, err
	}
	if plan.AllowanceUsed {
		if err := c.spend(ctx, set); err != nil {
			return 0, err
		}
	}
	if plan.Retry || len(refused) > 0 {
		return 0, fmt.Errorf("%w: some PackageVariants are not written yet", worker.ErrStale)
	}
	return after, nil
}

// behind returns how long to wait until the cache shows the PackageVariants that were written for a
// set; 0 if it does. It does not wait for the set itself: a write that is based on an old version
// is refused.
func (c *Controller) behind(set *configv1alpha2.PackageVariantSet, s *state) time.Duration {
	return s.wrote.Wait(c.clock.Now(), func(name string) metav1.Object {
		if pv := c.Watch.Variants.Get(set.Namespace, name); pv != nil {
			return pv
		}
		return nil
	})
}

func (c *Controller) wrote(made *metav1.PartialObjectMetadata, err error) (informers.PendingWrite, error) {
	if err != nil {
		return informers.PendingWrite{}, err
	}
	return informers.PendingWrite{Version: made.ResourceVersion, At: c.clock.Now()}, nil
}

// unreadPatience is how long a set waits until the objects that it selects from are read. To report
// that they are not, and a moment later that they are, would be two writes for each restart.
const unreadPatience = 10 * time.Second

// unread returns how long to wait for the objects that a set selects from; 0 if they were read, or
// if the wait was long enough.
func (c *Controller) unread(s *state) time.Duration {
	for kind := range s.interest.kinds {
		if errors.Is(c.kinds.Readable(kind), ErrUnread) {
			now := c.clock.Now()
			if s.unread.IsZero() {
				s.unread = now
			}
			return max(0, unreadPatience-now.Sub(s.unread))
		}
	}
	s.unread = time.Time{}
	return 0
}

// stateOf returns the state of a set, with the expressions of its generation.
func (c *Controller) stateOf(key types.NamespacedName, set *configv1alpha2.PackageVariantSet) *state {
	c.mu.Lock()
	s := c.states[key]
	c.mu.Unlock()
	if s != nil && s.uid != set.UID {
		c.forget(key)
		s = nil
	}
	if s == nil {
		s = &state{uid: set.UID, wrote: informers.PendingWrites{}, generation: -1}
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
	defer c.mu.Unlock()
	c.states[key], c.byUID[set.UID] = s, key
	s.interest = interest
	c.useKinds()
	return s
}

// forget drops the state of a set.
func (c *Controller) forget(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.states[key]; s != nil {
		c.indexWaiting(key, s, nil)
		delete(c.states, key)
		delete(c.byUID, s.uid)
		c.useKinds()
	}
}

func (c *Controller) indexWaiting(key types.NamespacedName, s *state, blocked []variant.Package) {
	for _, pkg := range s.blocked {
		at := binding.Package{Namespace: key.Namespace, Repository: pkg.Repository, Name: pkg.Name}
		delete(c.waiting[at], key)
		if len(c.waiting[at]) == 0 {
			delete(c.waiting, at)
		}
	}
	for _, pkg := range blocked {
		at := binding.Package{Namespace: key.Namespace, Repository: pkg.Repository, Name: pkg.Name}
		if c.waiting[at] == nil {
			c.waiting[at] = map[types.NamespacedName]struct{}{}
		}
		c.waiting[at][key] = struct{}{}
	}
	s.blocked = blocked
}

// useKinds replaces the kinds in use by those that any set selects. The caller holds the mutex, so
// that the last call has the current kinds.
func (c *Controller) useKinds() {
	kinds := map[schema.GroupKind]struct{}{}
	for _, s := range c.states {
		for kind := range s.interest.kinds {
			kinds[kind] = struct{}{}
		}
	}
	c.kinds.Use(kinds)
}

// plan returns the plan for a set, or an error if the context ended before.
func (c *Controller) plan(ctx context.Context, key types.NamespacedName, set *configv1alpha2.PackageVariantSet, s *state) (*variant.SetPlan, error) {
	begin := c.clock.Now()
	limited, cancel := context.WithTimeout(ctx, expression.TimeLimit)
	defer cancel()
	plan := variant.PlanSet(limited, c.gather(set, s))
	if err := ctx.Err(); err != nil {
		return nil, err // what was not evaluated is not reported as unknown because the controller ends
	}
	took := c.clock.Since(begin)
	plannings.WithLabelValues().Observe(took.Seconds())
	c.mu.Lock()
	defer c.mu.Unlock()
	s.planned, s.took = c.clock.Now(), took
	if !slices.Equal(s.blocked, plan.Blocked) {
		c.indexWaiting(key, s, plan.Blocked)
	}
	return plan, nil
}

// confirm checks whether the kinds that a set selects are being deleted: their objects are deleted
// first, one after the other.
func (c *Controller) confirm(ctx context.Context, s *state) error {
	for kind := range s.interest.kinds {
		if err := c.kinds.Confirm(ctx, kind); err != nil {
			return fmt.Errorf("check whether %s is being deleted: %w", kind, err)
		}
	}
	return nil
}

// carryOut carries out a plan, and returns what cannot be written. Nothing is deleted unless
// everything else was written. One PackageVariant that cannot be written does not hold up others.
func (c *Controller) carryOut(ctx context.Context, s *state, plan *variant.SetPlan) (refused map[variant.Package]string, err error) {
	var mu sync.Mutex
	each := func(list []*configv1alpha1.PackageVariant, do func(context.Context, *configv1alpha1.PackageVariant) (informers.PendingWrite, error)) error {
		var group errgroup.Group
		var stale error
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
				case passes(err):
					stale = cmp.Or(stale, err)
				default:
					if refused == nil {
						refused = map[variant.Package]string{}
					}
					refused[variant.Package{Repository: pv.Spec.Downstream.Repo, Name: pv.Spec.Downstream.Package}] = refusal(pv.Name, err)
				}
				return nil
			})
		}
		_ = group.Wait() // no function returns an error
		return cmp.Or(stale, ctx.Err())
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
	err = each(plan.Delete, c.delete)
	return refused, err
}

// passes reports whether an error is only about the cache, or ends with what ends anyway: then the
// next plan is another one.
func passes(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || errors.Is(err, context.Canceled) ||
		apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)
}

// refusal returns the text for a PackageVariant that cannot be written.
func refusal(name string, err error) string {
	message := err.Error()
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		message = status.Status().Message // without what wraps it
	}
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err) {
		return fmt.Sprintf("the API server refuses PackageVariant %q: %s", name, message)
	}
	return fmt.Sprintf("PackageVariant %q cannot be written: %s", name, message)
}

func target(pv *configv1alpha1.PackageVariant) writer.Target {
	return writer.Target{Resource: configv1alpha1.PackageVariants, Namespace: pv.Namespace, Name: pv.Name}
}

func (c *Controller) create(ctx context.Context, pv *configv1alpha1.PackageVariant) (informers.PendingWrite, error) {
	return c.wrote(c.writer.Create(ctx, target(pv), pv, "target"))
}

func (c *Controller) update(ctx context.Context, pv *configv1alpha1.PackageVariant) (informers.PendingWrite, error) {
	pv.APIVersion, pv.Kind = configv1alpha1.GroupVersion.String(), "PackageVariant"
	return c.wrote(c.writer.Update(ctx, target(pv), pv, "changed"))
}

func (c *Controller) delete(ctx context.Context, pv *configv1alpha1.PackageVariant) (informers.PendingWrite, error) {
	if err := c.writer.Delete(ctx, target(pv), pv.UID, "no-target"); err != nil && !apierrors.IsNotFound(err) {
		return informers.PendingWrite{}, err
	}
	return informers.PendingWrite{Deleted: pv.UID, At: c.clock.Now()}, nil
}

// writeStatus writes the status if it changed. If only numbers changed, it writes at most once a
// second, and returns when to requeue the set.
func (c *Controller) writeStatus(
	ctx context.Context, key types.NamespacedName, set *configv1alpha2.PackageVariantSet, s *state, status *configv1alpha2.PackageVariantSetStatus,
) (time.Duration, error) {
	now := c.clock.Now()
	variant.SetTimes(set.Status.Conditions, status.Conditions, now)
	c.mu.Lock()
	s.status = status
	c.mu.Unlock()
	if apiequality.Semantic.DeepEqual(&set.Status, status) {
		return 0, nil
	}
	if since := now.Sub(s.statusWritten); since < leastIdle && apiequality.Semantic.DeepEqual(set.Status.Conditions, status.Conditions) {
		return leastIdle - since, nil
	}
	changed := set.DeepCopy()
	changed.APIVersion, changed.Kind = configv1alpha2.GroupVersion.String(), "PackageVariantSet"
	changed.Status = *status
	target := writer.Target{Resource: configv1alpha2.PackageVariantSets, Namespace: key.Namespace, Name: key.Name, Subresource: "status"}
	if _, err := c.writer.Update(ctx, target, changed, "status"); err != nil {
		if apierrors.IsNotFound(err) {
			err = nil
		}
		return 0, err
	}
	s.statusWritten = now
	return 0, nil
}

// spend removes the annotation that allows deletions, if it still has the value that was read.
func (c *Controller) spend(ctx context.Context, set *configv1alpha2.PackageVariantSet) error {
	path := "/metadata/annotations/" + strings.ReplaceAll(controlv1alpha1.AnnotationAllowRemoval, "/", "~1") // as a JSON pointer
	patch, err := json.Marshal([]map[string]string{
		{"op": "test", "path": path, "value": set.Annotations[controlv1alpha1.AnnotationAllowRemoval]},
		{"op": "remove", "path": path},
	})
	if err != nil {
		return err
	}
	target := writer.Target{Resource: configv1alpha2.PackageVariantSets, Namespace: set.Namespace, Name: set.Name}
	if _, err = c.writer.Patch(ctx, target, types.JSONPatchType, patch, "released"); err != nil {
		if apierrors.IsInvalid(err) || apierrors.IsNotFound(err) {
			return nil // it was changed meanwhile; the watch shows that
		}
		return err
	}
	return nil
}

package variants

import (
	"context"
	"fmt"
	"slices"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/controller/worker"
	"github.com/starlinghq/starling/pkg/core/packages/variant"
	"github.com/starlinghq/starling/pkg/packages/informers"
	"github.com/starlinghq/starling/pkg/writer"
)

// sync takes the next step for a PackageVariant.
func (c *Controller) sync(ctx context.Context, key types.NamespacedName) (worker.Result, error) {
	pv := c.Watch.Variants.Get(key.Namespace, key.Name)
	if pv == nil {
		c.forget(key)
		return worker.Result{}, nil
	}
	s := c.stateOf(pv)
	if wait := c.behind(pv, s); wait > 0 {
		return worker.Result{After: wait}, nil // or with the event that shows it
	}
	in, known, err := c.gather(ctx, pv)
	if err != nil {
		return worker.Result{}, err
	}
	if !known {
		return worker.Result{After: unreadAgain}, nil
	}
	plan := variant.PlanVariant(in)
	c.remember(key, plan)
	status, err := c.carryOut(ctx, s, in, plan)
	switch {
	case apierrors.IsConflict(err): // the informers are behind
		return worker.Result{}, err
	case err != nil && passes(err) && c.queue.NumRequeues(key) < patienceWithErrors:
		return worker.Result{}, err
	case err != nil:
		failed := plan.Failed(err)
		status = &failed
	case status == nil:
		return worker.Result{}, nil // something was written; its event requeues the PackageVariant
	}
	c.addRenders(s, status)
	underWay := c.addDelivery(pv, status)
	if wait := c.holdBack(s, underWay); wait > 0 && err == nil {
		return worker.Result{After: wait}, nil
	}
	if statusErr := c.writeStatus(ctx, s, pv, status); statusErr != nil {
		return worker.Result{}, statusErr
	}
	return worker.Result{}, err
}

// behind returns how long to wait until the informers show what was written for a PackageVariant; 0
// if they do.
func (c *Controller) behind(pv *configv1alpha1.PackageVariant, s *state) time.Duration {
	return s.wrote.Wait(c.clock.Now(), func(name string) metav1.Object {
		if name == "" {
			return pv
		}
		if r := c.Watch.Revisions.Get(pv.Namespace, name); r != nil {
			return r
		}
		return nil
	})
}

func (c *Controller) wrote(s *state, name, version string) {
	s.wrote[name] = informers.PendingWrite{Version: version, At: c.clock.Now()}
	if rounds := s.rounds[name]; rounds != nil {
		rounds.Wrote(version, false)
	}
}

// deliveryPatience is for how long a delivery under way is not reported: mostly it ends within that
// time, even if a thousand packages are approved together, and then one write reports the result.
const deliveryPatience = 5 * time.Second

// holdBack returns for how long the status must not be written.
func (c *Controller) holdBack(s *state, underWay bool) time.Duration {
	switch now := c.clock.Now(); {
	case !underWay:
		s.underWay = time.Time{}
		return 0
	case s.underWay.IsZero():
		s.underWay = now
		return deliveryPatience
	default:
		return deliveryPatience - now.Sub(s.underWay)
	}
}

// unreadAgain is when to check again whether a kind was read whose objects may be injected.
// Normally an event comes sooner.
const unreadAgain = time.Second

// patienceWithErrors is how often an error that may pass is retried before it is reported.
const patienceWithErrors = 6

// passes reports whether an error is likely to pass without action by a user.
func passes(err error) bool {
	if apierrors.ReasonForError(err) == "" { // not from an API server
		return !isUserError(err)
	}
	// "Not found" and "already exists" mean that the informers are behind.
	return apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err)
}

// gather returns the input of a plan. It is not known while objects that may be injected are being
// read.
func (c *Controller) gather(ctx context.Context, pv *configv1alpha1.PackageVariant) (in *variant.Input, known bool, err error) {
	w := c.Watch
	self, err := c.self.Name(ctx)
	if err != nil {
		return nil, false, err
	}
	in = &variant.Input{
		Variant: pv, Self: self, OwnerExists: w.VariantExists,
		Origin: func(lock variant.Lock) *storev1alpha1.PackageRevision { return w.Origin(pv.Namespace, lock) },
	}
	if up := pv.Spec.Upstream; up != nil {
		in.Upstreams = w.RevisionsOf(pv.Namespace, variant.Package{Repository: up.Repo, Name: up.Package})
	}
	if down := pv.Spec.Downstream; down != nil {
		in.Downstreams = w.RevisionsOf(pv.Namespace, variant.Package{Repository: down.Repo, Name: down.Package})
		repository := w.Repositories.Get(pv.Namespace, down.Repo)
		in.HasRepository = repository != nil && repository.DeletionTimestamp == nil
	}
	for _, r := range w.RevisionsOwnedBy(pv.UID) {
		if r.Namespace == pv.Namespace && !slices.ContainsFunc(in.Downstreams, func(o *storev1alpha1.PackageRevision) bool { return o.Name == r.Name }) {
			in.Downstreams = append(in.Downstreams, r)
		}
	}
	versions := make(map[configv1alpha1.InjectedObject]string, len(pv.Status.Injected))
	for _, o := range pv.Status.Injected {
		version, known, err := c.objects.Version(ctx, pv.Namespace, o)
		if err != nil {
			return nil, false, fmt.Errorf("read %s %s, which may be injected: %w", o.Kind, o.Name, err)
		}
		if !known {
			return nil, false, nil
		}
		versions[o] = version
	}
	in.Version = func(o configv1alpha1.InjectedObject) string { return versions[o] }
	return in, true, nil
}

// remember records whether a PackageVariant waits for a revision that it cannot name.
func (c *Controller) remember(key types.NamespacedName, plan *variant.Plan) {
	lost := slices.ContainsFunc(plan.Status.Conditions, func(c metav1.Condition) bool {
		return c.Type == configv1alpha1.ConditionReady && c.Reason == configv1alpha1.ReasonUpstreamLost
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	if lost {
		c.lost[key] = struct{}{}
	} else {
		delete(c.lost, key)
	}
}

// writeStatus writes the status if it changed.
func (c *Controller) writeStatus(ctx context.Context, s *state, pv *configv1alpha1.PackageVariant, status *configv1alpha1.PackageVariantStatus) error {
	variant.SetTimes(pv.Status.Conditions, status.Conditions, c.clock.Now())
	if apiequality.Semantic.DeepEqual(&pv.Status, status) {
		return nil
	}
	changed := pv.DeepCopy()
	changed.APIVersion, changed.Kind = configv1alpha1.GroupVersion.String(), "PackageVariant"
	changed.Status = *status
	target := writer.Target{Resource: configv1alpha1.PackageVariants, Namespace: pv.Namespace, Name: pv.Name, Subresource: "status"}
	made, err := c.writer.Update(ctx, target, changed, "status")
	if err != nil {
		return err
	}
	c.wrote(s, "", made.ResourceVersion)
	c.recordStatus(pv, status)
	return nil
}

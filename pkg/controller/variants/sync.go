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
	"github.com/starlinghq/starling/pkg/core/variant"
	"github.com/starlinghq/starling/pkg/packagewatch"
	"github.com/starlinghq/starling/pkg/write"
)

// sync does the next thing that is to be done for a PackageVariant, and returns when to look again; 0 is when something changes.
func (c *Controller) sync(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	pv := c.config.Watch.Variant(key.Namespace, key.Name)
	if pv == nil {
		c.forget(key)
		return 0, nil
	}
	s := c.stateOf(pv)
	if wait := c.behind(pv, s); wait > 0 {
		return wait, nil // what shows it brings us here again, sooner
	}
	in, known, err := c.gather(ctx, pv)
	if err != nil {
		return 0, err
	}
	if !known {
		return unreadAgain, nil
	}
	plan := variant.PlanVariant(in)
	c.remember(key, plan)
	status, err := c.carryOut(ctx, s, in, plan)
	switch {
	case err != nil && quiet(err):
		return 0, err
	case err != nil && passes(err) && c.queue.NumRequeues(key) < patienceWithErrors:
		return 0, err
	case err != nil:
		failed := plan.Failed(err)
		status = &failed
	case status == nil:
		return 0, nil // something was written, which brings us here again
	}
	c.addRenders(s, status)
	underWay := c.addDelivery(pv, status)
	if wait := c.holdBack(s, underWay); wait > 0 && err == nil {
		return wait, nil
	}
	if statusErr := c.writeStatus(ctx, s, pv, status); statusErr != nil {
		return 0, statusErr
	}
	return 0, err
}

// behind tells for how long to wait for the informers to show what was written for a PackageVariant; 0 if they do.
func (c *Controller) behind(pv *configv1alpha1.PackageVariant, s *state) time.Duration {
	return s.wrote.Behind(c.config.Clock.Now(), func(name string) metav1.Object {
		if name == "" {
			return pv
		}
		if r := c.config.Watch.Revision(pv.Namespace, name); r != nil {
			return r
		}
		return nil
	})
}

func (c *Controller) wrote(s *state, name, version string) {
	s.wrote[name] = packagewatch.Written{Version: version, At: c.config.Clock.Now()}
}

// deliveryPatience is for how long nothing is said of what is about to be carried to its cluster: mostly it arrives at once, also when a thousand
// are approved together, and that is said in one write.
const deliveryPatience = 5 * time.Second

// holdBack returns for how long the status is not to be written.
func (c *Controller) holdBack(s *state, underWay bool) time.Duration {
	switch now := c.config.Clock.Now(); {
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

// unreadAgain is when to look again whether a kind was read whose objects may be injected. Normally we are told.
const unreadAgain = time.Second

// patienceWithErrors is how often what passes by itself is tried again before it is told.
const patienceWithErrors = 6

// quiet tells whether an error says only that the informers are behind.
func quiet(err error) bool { return apierrors.IsConflict(err) }

// passes tells whether an error is likely to pass without anybody doing anything.
func passes(err error) bool {
	if status := apierrors.ReasonForError(err); status == "" { // none of an API server's
		_, told := asTold(err)
		return !told
	}
	// What is not there any more, or already, is what the informers have not shown yet.
	return apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err) ||
		apierrors.IsServiceUnavailable(err)
}

// gather returns what a plan is made of. It is not known while objects that may be injected are still being read.
func (c *Controller) gather(ctx context.Context, pv *configv1alpha1.PackageVariant) (in *variant.Input, known bool, err error) {
	w := c.config.Watch
	in = &variant.Input{
		Variant: pv, OwnerExists: w.VariantExists,
		Origin: func(lock variant.Lock) *storev1alpha1.PackageRevision { return w.Origin(pv.Namespace, lock) },
	}
	if up := pv.Spec.Upstream; up != nil {
		in.Upstreams = w.RevisionsOf(pv.Namespace, variant.Package{Repository: up.Repo, Name: up.Package})
	}
	if down := pv.Spec.Downstream; down != nil {
		in.Downstreams = w.RevisionsOf(pv.Namespace, variant.Package{Repository: down.Repo, Name: down.Package})
		repository := w.Repository(pv.Namespace, down.Repo)
		in.HasRepository = repository != nil && repository.DeletionTimestamp == nil
	}
	for _, r := range w.RevisionsOwnedBy(pv.UID) {
		if r.Namespace == pv.Namespace && !slices.ContainsFunc(in.Downstreams, func(o *storev1alpha1.PackageRevision) bool { return o.Name == r.Name }) {
			in.Downstreams = append(in.Downstreams, r)
		}
	}
	versions := make(map[configv1alpha1.InjectedObject]string, len(pv.Status.Injected))
	for _, o := range pv.Status.Injected {
		version, known, err := c.config.Objects.Version(ctx, pv.Namespace, o)
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

// remember notes whether a PackageVariant waits for a revision that may be any.
func (c *Controller) remember(key types.NamespacedName, plan *variant.Plan) {
	lost := slices.ContainsFunc(plan.Status.Conditions, isLost)
	c.mu.Lock()
	defer c.mu.Unlock()
	if lost {
		c.lost[key] = struct{}{}
	} else {
		delete(c.lost, key)
	}
}

// writeStatus writes the status if it says something new.
func (c *Controller) writeStatus(ctx context.Context, s *state, pv *configv1alpha1.PackageVariant, status *configv1alpha1.PackageVariantStatus) error {
	variant.SetTimes(pv.Status.Conditions, status.Conditions, c.config.Clock.Now())
	if apiequality.Semantic.DeepEqual(&pv.Status, status) {
		return nil
	}
	changed := pv.DeepCopy()
	changed.APIVersion, changed.Kind = configv1alpha1.GroupVersion.String(), "PackageVariant"
	changed.Status = *status
	target := write.Target{Resource: configv1alpha1.PackageVariants, Namespace: pv.Namespace, Name: pv.Name, Subresource: "status"}
	made, err := c.config.Writer.Update(ctx, target, changed, "status")
	if err != nil {
		return err
	}
	c.wrote(s, "", made.ResourceVersion)
	c.config.Reached(PointStatus)
	c.tellStatus(pv, status)
	return nil
}

package variants

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/binding"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/version"
	"github.com/starlinghq/starling/pkg/core/packages/variant"
	"github.com/starlinghq/starling/pkg/core/text"
)

// userError is an error that only a user can heal, so that it is reported without a retry.
type userError struct{ err error }

// Error implements error.
func (e *userError) Error() string { return e.err.Error() }

// Unwrap returns what is wrong.
func (e *userError) Unwrap() error { return e.err }

func userErrorf(format string, args ...any) error { return &userError{fmt.Errorf(format, args...)} }

func isUserError(err error) bool {
	_, is := errors.AsType[*userError](err)
	return is
}

// addRenders adds the results of rendering of revisions whose files were written, and forgets what
// is remembered of other revisions.
func (c *Controller) addRenders(s *state, status *configv1alpha1.PackageVariantStatus) {
	known := s.renders
	s.renders = map[string]*porchv1alpha1.RenderStatus{}
	maps.DeleteFunc(s.rounds, func(draft string, _ *variant.Rounds) bool {
		return !slices.ContainsFunc(status.DownstreamTargets, func(t configv1alpha1.DownstreamTarget) bool { return t.Name == draft })
	})
	for i := range status.DownstreamTargets {
		target := &status.DownstreamTargets[i]
		if render := known[target.Name]; render != nil {
			target.RenderStatus, s.renders[target.Name] = render, render
		}
	}
}

// addDelivery adds the conditions of the delivery of the package, if the package is this
// PackageVariant's, and reports whether a delivery is under way.
func (c *Controller) addDelivery(pv *configv1alpha1.PackageVariant, status *configv1alpha1.PackageVariantStatus) (underWay bool) {
	down := pv.Spec.Downstream
	if c.Bindings == nil || down == nil || status.State == "" {
		return false
	}
	latest := version.Latest(c.Watch.RevisionsOf(pv.Namespace, variant.Package{Repository: down.Repo, Name: down.Package}))
	packageBinding := c.Bindings.Of(binding.Package{Namespace: pv.Namespace, Repository: down.Repo, Name: down.Package})
	conditions := binding.Conditions(packageBinding, latest, pv.Generation)
	status.Conditions = append(status.Conditions, conditions...)
	if packageBinding == nil {
		repository := c.Watch.Repositories.Get(pv.Namespace, down.Repo)
		return latest != nil && repository != nil && repository.OfCluster() && !repository.Detached() // one will be created
	}
	delivered := meta.FindStatusCondition(conditions, configv1alpha1.PackageVariantConditionDelivered)
	return delivered != nil && delivered.Reason == controlv1alpha1.ReasonDelivering
}

// bounded returns the result of rendering, short enough for a status.
func bounded(r *porchv1alpha1.RenderStatus) *porchv1alpha1.RenderStatus {
	const longest, most = 1024, 8 << 10
	out := r.DeepCopy()
	out.Result.TypeMeta, out.Result.ObjectMeta = metav1.TypeMeta{}, metav1.ObjectMeta{}
	out.Err = text.Clip(out.Err, longest)
	for _, item := range out.Result.Items {
		item.Stderr = text.Clip(item.Stderr, longest)
	}
	if encoded, err := json.Marshal(out); err != nil || len(encoded) > most {
		out.Result.Items = nil // PackageRevisionResources have all of them
	}
	return out
}

// recordStatus records an event if a change of conditions needs a user, or if all is well again.
// Normal progress is visible in other objects: a thousand drafts are not a thousand events as well.
func (c *Controller) recordStatus(pv *configv1alpha1.PackageVariant, after *configv1alpha1.PackageVariantStatus) {
	was := meta.FindStatusCondition(pv.Status.Conditions, configv1alpha1.ConditionReady)
	is := meta.FindStatusCondition(after.Conditions, configv1alpha1.ConditionReady)
	switch {
	case is == nil || pv.DeletionTimestamp != nil:
	case is.Status != metav1.ConditionTrue && (was == nil || was.Reason != is.Reason || was.Message != is.Message):
		reason, message := is.Reason, is.Message
		if stalled := meta.FindStatusCondition(after.Conditions, configv1alpha1.ConditionStalled); stalled != nil && stalled.Status == metav1.ConditionTrue {
			reason, message = stalled.Reason, stalled.Message
		}
		c.event(pv, corev1.EventTypeWarning, reason, message)
	case is.Status == metav1.ConditionTrue && was != nil && was.Status != metav1.ConditionTrue:
		c.event(pv, corev1.EventTypeNormal, configv1alpha1.ConditionReady, is.Message)
	}
}

// recordAction records an event for an action on a revision, except for creating and updating
// drafts.
func (c *Controller) recordAction(pv *configv1alpha1.PackageVariant, a *variant.Action) {
	reason := map[variant.Verb]string{
		variant.Adopt: "Adopted", variant.Release: "Released", variant.Leave: "Released", variant.Delete: "Deleted", variant.ProposeDeletion: "DeletionProposed",
		variant.Restore: "Restored", variant.Approve: "Approved",
	}[a.Verb]
	if reason != "" {
		c.event(pv, corev1.EventTypeNormal, reason, a.String())
	}
}

func (c *Controller) event(pv *configv1alpha1.PackageVariant, kind, reason, note string) {
	const most = 1000
	c.Events.Eventf(pv, nil, kind, reason, "Sync", "%s", text.Clip(note, most))
}

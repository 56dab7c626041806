package variants

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/deploy"
	"github.com/starlinghq/starling/pkg/core/variant"
)

// toldError is one that a user has to do something about, so that it is told at once.
type toldError struct{ err error }

// Error implements error.
func (e *toldError) Error() string { return e.err.Error() }

// Unwrap returns what is wrong.
func (e *toldError) Unwrap() error { return e.err }

func tell(format string, args ...any) error { return &toldError{fmt.Errorf(format, args...)} }

func asTold(err error) (*toldError, bool) { return errors.AsType[*toldError](err) }

func isLost(c metav1.Condition) bool {
	return c.Type == configv1alpha1.ConditionReady && c.Reason == configv1alpha1.ReasonUpstreamLost
}

// addRenders says what rendering came to of revisions whose files were written, and forgets the others.
func (c *Controller) addRenders(s *state, status *configv1alpha1.PackageVariantStatus) {
	known := s.renders
	s.renders = map[string]*porchv1alpha1.RenderStatus{}
	for i := range status.DownstreamTargets {
		target := &status.DownstreamTargets[i]
		if render := known[target.Name]; render != nil {
			target.RenderStatus, s.renders[target.Name] = render, render
		}
	}
}

// addDelivery says how the package does in the cluster that it is carried to, if it is this PackageVariant's, and returns whether it is on
// its way there.
func (c *Controller) addDelivery(pv *configv1alpha1.PackageVariant, status *configv1alpha1.PackageVariantStatus) (underWay bool) {
	down := pv.Spec.Downstream
	if c.config.Bindings == nil || down == nil || status.State == "" {
		return false
	}
	latest := deploy.Latest(c.config.Watch.RevisionsOf(pv.Namespace, variant.Package{Repository: down.Repo, Name: down.Package}))
	carrier := c.config.Bindings.Of(deploy.Package{Namespace: pv.Namespace, Repository: down.Repo, Name: down.Package})
	conditions := deploy.Conditions(carrier, latest, pv.Generation)
	status.Conditions = append(status.Conditions, conditions...)
	if carrier == nil {
		repository := c.config.Watch.Repository(pv.Namespace, down.Repo)
		return latest != nil && repository != nil && repository.OfCluster() && !repository.Detached() // there will be one
	}
	delivered := meta.FindStatusCondition(conditions, configv1alpha1.PackageVariantConditionDelivered)
	return delivered != nil && delivered.Reason == controlv1alpha1.ReasonDelivering
}

// bounded makes what rendering came to short enough for a status.
func bounded(r *porchv1alpha1.RenderStatus) *porchv1alpha1.RenderStatus {
	const longest, most = 1024, 8 << 10
	out := r.DeepCopy()
	out.Result.TypeMeta, out.Result.ObjectMeta = metav1.TypeMeta{}, metav1.ObjectMeta{}
	out.Err = limited(out.Err, longest)
	for _, item := range out.Result.Items {
		item.Stderr = limited(item.Stderr, longest)
	}
	if text, err := json.Marshal(out); err != nil || len(text) > most {
		out.Result.Items = nil // who wants to know it all reads PackageRevisionResources
	}
	return out
}

func limited(text string, most int) string {
	if len(text) <= most {
		return text
	}
	const mark = "…"
	return strings.ToValidUTF8(text[:most-len(mark)], "") + mark
}

// tellStatus has events say what a change of conditions means: what needs somebody, and what is well again. What goes as it should has
// objects of its own: a thousand drafts are not a thousand events as well.
func (c *Controller) tellStatus(pv *configv1alpha1.PackageVariant, after *configv1alpha1.PackageVariantStatus) {
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

// tellAction has an event say what was done to a revision, but for drafts that are made and brought up to date.
func (c *Controller) tellAction(pv *configv1alpha1.PackageVariant, a *variant.Action) {
	reason := map[variant.Verb]string{
		variant.Adopt: "Adopted", variant.Release: "Released", variant.Delete: "Deleted", variant.ProposeDeletion: "DeletionProposed",
		variant.Restore: "Restored", variant.Approve: "Approved",
	}[a.Verb]
	if reason != "" {
		c.event(pv, corev1.EventTypeNormal, reason, a.String())
	}
}

func (c *Controller) event(pv *configv1alpha1.PackageVariant, kind, reason, note string) {
	const most = 1000
	c.config.Events.Eventf(pv, nil, kind, reason, "Sync", "%s", limited(note, most))
}

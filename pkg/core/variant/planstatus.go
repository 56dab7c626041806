package variant

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
)

func (p *variantPlanning) condition(kind string, status metav1.ConditionStatus, reason, message string) {
	p.plan.Status.Conditions = append(p.plan.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: limited(message, maxMessage), ObservedGeneration: p.pv.Generation,
	})
}

// stalled says that a user has to do something before anything can be done.
func (p *variantPlanning) stalled(reason, message, ready string) {
	p.condition(configv1alpha1.ConditionReady, metav1.ConditionFalse, configv1alpha1.ReasonError, ready)
	p.condition(configv1alpha1.ConditionStalled, metav1.ConditionTrue, reason, message)
}

// notReady says why not all is as it should be; the first reason stays.
func (p *variantPlanning) notReady(reason, message string) {
	if p.reason == "" {
		p.reason, p.message = reason, message
	}
}

func (p *variantPlanning) lost(r *storev1alpha1.PackageRevision) {
	lock, _ := upstreamLock(r)
	p.notReady(configv1alpha1.ReasonUpstreamLost, fmt.Sprintf("%s was made from %s@%s of %s, which is not there any more, so %s cannot be merged into it: "+
		"upgrade it by hand, or delete the package and have it cloned anew", r.Name, lock.Directory, lock.Ref, lock.Repository, p.up.Name))
}

func (p *variantPlanning) waits(r *storev1alpha1.PackageRevision, why string) {
	p.notReady(configv1alpha1.ReasonWaitingForApproval, fmt.Sprintf("%s, but package revision %s is proposed: approve it, or reject it", why, r.Name))
}

// Waiting is the status if a proposed revision was looked at whose content would change.
func (p *Plan) Waiting(w *Work) configv1alpha1.PackageVariantStatus {
	status := *p.Status.DeepCopy()
	for i := range status.Conditions {
		if c := &status.Conditions[i]; c.Type == configv1alpha1.ConditionReady && c.Status == metav1.ConditionTrue {
			c.Status, c.Reason = metav1.ConditionFalse, configv1alpha1.ReasonWaitingForApproval
			c.Message = fmt.Sprintf("the PackageVariant or what is injected has changed, but package revision %s is proposed: approve it, or reject it", w.Revision)
		}
	}
	return status
}

// Failed is the status if an action or some work failed.
func (p *Plan) Failed(err error) configv1alpha1.PackageVariantStatus {
	status := *p.Status.DeepCopy()
	for i := range status.Conditions {
		if c := &status.Conditions[i]; c.Type == configv1alpha1.ConditionReady {
			c.Status, c.Reason, c.Message = metav1.ConditionFalse, configv1alpha1.ReasonError, limited(err.Error(), maxMessage)
		}
	}
	return status
}

// carryOver keeps of the status what is not known now.
func (p *variantPlanning) carryOver() {
	before := p.pv.Status.DeepCopy()
	s := &p.plan.Status
	s.ObservedGeneration = p.pv.Generation
	s.DownstreamTargets, s.Upstream, s.State, s.Settled, s.Injected = before.DownstreamTargets, before.Upstream, before.State, before.Settled, before.Injected
}

// status says how the PackageVariant is.
func (p *variantPlanning) status() {
	s := &p.plan.Status
	p.carryOver()
	if p.up != nil {
		s.Upstream = &configv1alpha1.UpstreamStatus{Name: p.up.Name, Revision: p.up.Spec.Revision, Digest: p.up.Content.Digest}
		ready, reason, message := metav1.ConditionTrue, configv1alpha1.ReasonNoErrors, "successfully ensured downstream package variant"
		if p.reason != "" {
			ready, reason, message = metav1.ConditionFalse, p.reason, p.message
		}
		p.condition(configv1alpha1.ConditionReady, ready, reason, message)
		p.condition(configv1alpha1.ConditionStalled, metav1.ConditionFalse, configv1alpha1.ReasonValid, "all validation checks passed")
	}
	p.targets()
	if s.WaitsFor == "" {
		s.WaitsFor = p.waitsFor()
	}
}

// maxTargets bounds downstreamTargets.
const maxTargets = 64

// targets fills downstreamTargets and the state.
func (p *variantPlanning) targets() {
	s := &p.plan.Status
	known := map[string]*porchv1alpha1.RenderStatus{}
	for _, t := range s.DownstreamTargets {
		known[t.Name] = t.RenderStatus
	}
	list := p.own
	if len(list) == 0 && p.base != nil && p.mine {
		list = []*storev1alpha1.PackageRevision{p.base}
	}
	s.DownstreamTargets, s.State = nil, ""
	for _, r := range list[:min(maxTargets, len(list))] {
		s.DownstreamTargets = append(s.DownstreamTargets, configv1alpha1.DownstreamTarget{Name: r.Name, RenderStatus: known[r.Name]})
	}
	slices.SortFunc(s.DownstreamTargets, func(a, b configv1alpha1.DownstreamTarget) int { return cmp.Compare(a.Name, b.Name) })
	switch {
	case slices.ContainsFunc(p.own, func(r *storev1alpha1.PackageRevision) bool {
		return lifecycleOf(r) == porchv1alpha1.LifecycleDraft
	}):
		s.State = configv1alpha1.VariantDraft
	case len(p.own) > 0:
		s.State = configv1alpha1.VariantProposed
	case p.base != nil && p.mine:
		s.State = configv1alpha1.VariantState(lifecycleOf(p.base))
	}
}

// waitsFor says who has to do what.
func (p *variantPlanning) waitsFor() string {
	switch len(p.own) {
	case 0:
		return ""
	case 1:
		if lifecycleOf(p.own[0]) == porchv1alpha1.LifecycleProposed {
			return fmt.Sprintf("%s to be approved or rejected", p.own[0].Name)
		}
		return fmt.Sprintf("%s to be proposed and approved", p.own[0].Name)
	}
	return fmt.Sprintf("%s%s to be proposed and approved, or deleted", p.own[0].Name, andMore(len(p.own)-1))
}

// SetTimes sets in conditions since when they have their statuses, in place: those that they had before keep their times.
func SetTimes(before, after []metav1.Condition, now time.Time) {
	for i := range after {
		c := &after[i]
		c.LastTransitionTime = metav1.Time{Time: now.UTC().Truncate(time.Second)}
		if was := meta.FindStatusCondition(before, c.Type); was != nil && was.Status == c.Status {
			c.LastTransitionTime = was.LastTransitionTime
		}
	}
}

package variant

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/lifecycle"
	"github.com/starlinghq/starling/pkg/core/text"
)

func (p *variantPlanner) condition(kind string, status metav1.ConditionStatus, reason, message string) {
	p.plan.Status.Conditions = append(p.plan.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: text.Clip(message, maxMessage), ObservedGeneration: p.pv.Generation,
	})
}

// stalled reports that a user must change something first.
func (p *variantPlanner) stalled(reason, message, ready string) {
	p.condition(configv1alpha1.ConditionReady, metav1.ConditionFalse, configv1alpha1.ReasonError, ready)
	p.condition(configv1alpha1.ConditionStalled, metav1.ConditionTrue, reason, message)
}

// notReady records why Ready is False. The first reason wins.
func (p *variantPlanner) notReady(reason, message string) {
	if p.reason == "" {
		p.reason, p.message = reason, message
	}
}

func (p *variantPlanner) upstreamLost(r *storev1alpha1.PackageRevision) {
	lock, _ := upstreamLock(r)
	p.notReady(configv1alpha1.ReasonUpstreamLost, fmt.Sprintf("%s was created from %s@%s of %s, which no longer exists, so %s cannot be merged into it: "+
		"delete the package so that it is cloned again", r.Name, lock.Directory, lock.Ref, lock.Repository, p.up.Name))
}

func (p *variantPlanner) waitForApproval(r *storev1alpha1.PackageRevision, why string) {
	p.notReady(configv1alpha1.ReasonWaitingForApproval, fmt.Sprintf("%s, but package revision %s is proposed: approve it, or reject it", why, r.Name))
}

// Waiting returns the status if the work found that the content of a proposed revision would
// change.
func (p *Plan) Waiting(w *Work) configv1alpha1.PackageVariantStatus {
	if !meta.IsStatusConditionTrue(p.Status.Conditions, configv1alpha1.ConditionReady) {
		return *p.Status.DeepCopy()
	}
	return p.notReady(configv1alpha1.ReasonWaitingForApproval,
		fmt.Sprintf("the PackageVariant or an injected object has changed, but package revision %s is proposed: approve it, or reject it", w.Revision))
}

// Failed returns the status if an action or some work failed.
func (p *Plan) Failed(err error) configv1alpha1.PackageVariantStatus {
	return p.notReady(configv1alpha1.ReasonError, err.Error())
}

func (p *Plan) notReady(reason, message string) configv1alpha1.PackageVariantStatus {
	status := *p.Status.DeepCopy()
	if c := meta.FindStatusCondition(status.Conditions, configv1alpha1.ConditionReady); c != nil {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, reason, text.Clip(message, maxMessage)
	}
	return status
}

// carryOver copies from the current status what is not computed.
func (p *variantPlanner) carryOver() {
	before := p.pv.Status.DeepCopy()
	s := &p.plan.Status
	s.ObservedGeneration = p.pv.Generation
	s.DownstreamTargets, s.Upstream, s.State, s.Settled, s.Injected = before.DownstreamTargets, before.Upstream, before.State, before.Settled, before.Injected
}

// status fills the status.
func (p *variantPlanner) status() {
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
	if s.WaitsFor == "" && p.up != nil && p.up.External.Moved != "" {
		s.WaitsFor = fmt.Sprintf("the tag of %s, which points to other content now (%.12s), to be accepted: see Repository %s", p.up.Name, p.up.External.Moved, p.up.Spec.RepositoryName)
	}
}

// maxTargets bounds status.downstreamTargets.
const maxTargets = 64

// targets fills status.downstreamTargets and status.state.
func (p *variantPlanner) targets() {
	s := &p.plan.Status
	known := map[string]*porchv1alpha1.RenderStatus{}
	for _, t := range s.DownstreamTargets {
		known[t.Name] = t.RenderStatus
	}
	list := p.own
	if len(list) == 0 && p.base != nil && p.ownsAny {
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
	case p.base != nil && p.ownsAny:
		s.State = configv1alpha1.VariantState(lifecycleOf(p.base))
	}
}

// maxWaitsFor bounds status.waitsFor.
const maxWaitsFor = 1024

// waitsFor returns what must happen before the PackageVariant can continue.
func (p *variantPlanner) waitsFor() string {
	switch len(p.own) {
	case 0:
		if p.base != nil && p.owns(p.base) && p.base.Spec.Lifecycle == porchv1alpha1.LifecycleDeletionProposed { // what the PackageVariant proposes, it releases
			return fmt.Sprintf("somebody to withdraw the proposal to delete %s, or to delete this PackageVariant: it creates the package again", p.base.Name)
		}
		return ""
	case 1:
		if why := p.needsReview(); why != "" && p.policyOfAnyDraft() != "" {
			return text.Clip(fmt.Sprintf("%s to be approved by a reviewer, not by annotation %s: %s",
				p.own[0].Name, configv1alpha1.AnnotationApprovalPolicy, why), maxWaitsFor)
		}
		if lifecycleOf(p.own[0]) == porchv1alpha1.LifecycleProposed {
			return fmt.Sprintf("%s to be approved or rejected", p.own[0].Name)
		}
		unmet := slices.DeleteFunc(lifecycle.Unmet(&p.own[0].Spec, &p.own[0].Status), func(gate string) bool {
			return strings.HasPrefix(gate, configv1alpha1.ConditionPVOperationsComplete+" ") // the controller is about to meet it
		})
		if len(unmet) > 0 {
			return text.Clip(fmt.Sprintf("readiness gates of %s to be met before it can be proposed: %s", p.own[0].Name, strings.Join(unmet, ", ")), maxWaitsFor)
		}
		return fmt.Sprintf("%s to be proposed and approved", p.own[0].Name)
	}
	names := make([]string, 0, len(p.own))
	for _, r := range p.own {
		names = append(names, r.Name)
	}
	return text.List(names, 1) + " to be proposed and approved, or deleted"
}

// SetTimes sets the lastTransitionTime of conditions, in place. A condition whose status did not
// change keeps its time.
func SetTimes(before, after []metav1.Condition, now time.Time) {
	for i := range after {
		c := &after[i]
		c.LastTransitionTime = metav1.Time{Time: now.UTC().Truncate(time.Second)}
		if was := meta.FindStatusCondition(before, c.Type); was != nil && was.Status == c.Status {
			c.LastTransitionTime = was.LastTransitionTime
		}
	}
}

package variant

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/upgrade"
)

// controllingSet returns the reference to the PackageVariantSet that controls a PackageVariant, nil
// if none does.
func controllingSet(pv *configv1alpha1.PackageVariant) *metav1.OwnerReference {
	if controller := metav1.GetControllerOfNoCopy(pv); controller != nil && controller.Kind == "PackageVariantSet" {
		return controller
	}
	return nil
}

// approvalPolicy returns the policy of automatic approval, and the field that holds it. The policy
// that counts is that of the owner of the spec. If that is a set, spec.annotations alone counts:
// the user who annotated the PackageVariant has not seen what the set will write.
func approvalPolicy(pv *configv1alpha1.PackageVariant) (policy, where string) {
	if policy, ok := pv.Annotations[configv1alpha1.AnnotationApprovalPolicy]; ok && controllingSet(pv) == nil {
		return policy, "metadata.annotations"
	}
	return pv.Spec.Annotations[configv1alpha1.AnnotationApprovalPolicy], "spec.annotations"
}

// ownPolicy returns the field with an approval policy that a set did not write; "" if there is
// none. No set adopts such a PackageVariant, or changes its spec: what the author of the set wrote
// would be published by the right of another user. An annotation on a PackageVariant of the set has
// no effect, but would have as soon as the set is deleted with --cascade=orphan.
//
// The ValidatingAdmissionPolicy starling-approval-policy refuses such writes of the controller.
func (p *setPlanner) ownPolicy(pv *configv1alpha1.PackageVariant) string {
	if pv.Annotations[configv1alpha1.AnnotationApprovalPolicy] != "" {
		return "metadata.annotations"
	}
	if pv.Spec.Annotations[configv1alpha1.AnnotationApprovalPolicy] != "" && !p.owns(pv) {
		return "spec.annotations"
	}
	return ""
}

// policy returns the approval policy, or "" if it does not apply to the present draft.
func (p *variantPlanner) policy() string {
	if p.needsReview() != "" {
		return ""
	}
	return p.policyOfAnyDraft()
}

// policyOfAnyDraft is policy if the content of the draft does not matter.
func (p *variantPlanner) policyOfAnyDraft() string {
	policy, _ := approvalPolicy(p.pv)
	if policy == configv1alpha1.ApprovalInitial && p.base != nil {
		return ""
	}
	return policy
}

// startOver plans to create the only draft again, if the policy would apply to it but for what has
// written it: an earlier spec, or another PackageVariant. Nothing of a person is in it. It reports
// whether it does.
func (p *variantPlanner) startOver() bool {
	if len(p.own) != 1 || p.policyOfAnyDraft() == "" {
		return false
	}
	r := p.own[0]
	again := lifecycleOf(r) == porchv1alpha1.LifecycleDraft && !p.isMarked(r) && p.otherAuthor(r) == ""
	if again {
		p.act(Delete, r)
	}
	return again
}

// isMarked reports whether a draft was written only while this PackageVariant had an approval
// policy.
func (p *variantPlanner) isMarked(r *storev1alpha1.PackageRevision) bool {
	return r.Annotations[configv1alpha1.AnnotationPolicyOf] == string(p.pv.UID)
}

// unmark plans that a draft is not approved automatically any more, before anything is written into
// it for a spec without an approval policy. Users without the right to approve may change such a
// spec, and what it has put into the draft stays when the policy is back.
func (p *variantPlanner) unmark(r *storev1alpha1.PackageRevision) {
	if _, marked := r.Annotations[configv1alpha1.AnnotationPolicyOf]; marked && (!p.isMarked(r) || p.policyOfAnyDraft() == "") {
		p.act(Unmark, r)
	}
}

// needsReview returns why a person must review the only draft, "" if no reason is known. What other
// users wrote is not approved automatically, nor is a merge that overwrites what a person
// published.
func (p *variantPlanner) needsReview() string {
	if len(p.own) != 1 {
		return ""
	}
	r := p.own[0]
	if author := p.otherAuthor(r); author != "" {
		return author + " changed its content. Review and approve it, or delete it so that it is created again"
	}
	if !p.isMarked(r) {
		return "it was created or changed while this policy did not apply. Review and approve it, or delete it so that it is created again"
	}
	if fields := mergeConflicts(r); fields != "" {
		return "the upstream changed what was changed in this package. Check these fields, then propose and approve it: " + fields
	}
	return ""
}

// otherAuthor returns who else than the controller wrote content of a draft, "" if nobody did.
func (p *variantPlanner) otherAuthor(r *storev1alpha1.PackageRevision) string {
	authors := r.Status.Authors
	if len(authors) == 0 {
		return "an unknown user"
	}
	if i := slices.IndexFunc(authors, func(author string) bool { return author != p.in.Self }); i >= 0 {
		return fmt.Sprintf("user %q", clip(authors[i]))
	}
	return ""
}

// mergeConflicts returns the fields that a merge into a draft found changed on both sides, "" if
// there are none.
func mergeConflicts(r *storev1alpha1.PackageRevision) string {
	for _, c := range r.Status.Conditions {
		if c.Type == upgrade.ConditionMergeConflicts && c.Status == porchv1alpha1.ConditionTrue {
			return c.Message
		}
	}
	return ""
}

package variant

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/text"
)

// Verb is the kind of an Action.
type Verb string

// Verbs. The first two change the PackageVariant, the others a PackageRevision.
const (
	// AddFinalizer and RemoveFinalizer add and remove PackageVariantFinalizer.
	AddFinalizer    Verb = "add finalizer"
	RemoveFinalizer Verb = "remove finalizer"
	// Create creates a draft. If it exists already, that is no error: the draft was created before
	// and not observed yet.
	Create Verb = "create"
	// Adopt makes the PackageVariant the owner of a revision.
	Adopt Verb = "adopt"
	// Release removes the PackageVariant from the owners of a revision.
	Release Verb = "release"
	// Leave releases a draft, so that a PackageVariant of the same name adopts it.
	Leave Verb = "leave"
	// Delete deletes a draft or a proposed revision.
	Delete Verb = "delete"
	// ProposeDeletion proposes the deletion of a published revision, and releases it.
	ProposeDeletion Verb = "propose deletion"
	// Restore withdraws a proposal of deletion.
	Restore Verb = "restore"
	// Unmark removes the mark that a draft was written only under an approval policy.
	Unmark Verb = "unmark"
	// Begin marks a draft as incomplete, so that nobody proposes it before its files are written.
	Begin Verb = "begin"
	// Propose proposes a draft.
	Propose Verb = "propose"
	// Approve publishes a proposed revision, through the subresource approval.
	Approve Verb = "approve"
)

// Action is one write.
type Action struct {
	Verb Verb
	// Revision is the name of the PackageRevision.
	Revision string
	// Object is the draft to create, for Create only.
	Object *porchv1alpha1.PackageRevision

	variant *configv1alpha1.PackageVariant
}

// String describes the action.
func (a *Action) String() string {
	if a.Revision == "" {
		return string(a.Verb)
	}
	return string(a.Verb) + " " + a.Revision
}

// Change applies the action to a PackageRevision, if it is an action that updates one.
func (a *Action) Change(pr *porchv1alpha1.PackageRevision) {
	switch a.Verb {
	case Adopt:
		pr.OwnerReferences = slices.DeleteFunc(pr.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Controller != nil && *o.Controller })
		pr.OwnerReferences = append(pr.OwnerReferences, ownerOf(a.variant))
		pr.Annotations = maps.Clone(pr.Annotations) // those of the spec are for new drafts, and users may change them
		delete(pr.Annotations, configv1alpha1.AnnotationReleasedBy)
		delete(pr.Annotations, configv1alpha1.AnnotationPolicyOf) // it may be of another PackageVariant
	case Unmark:
		delete(pr.Annotations, configv1alpha1.AnnotationPolicyOf)
	case Release:
		a.release(pr)
	case ProposeDeletion:
		pr.Spec.Lifecycle = porchv1alpha1.LifecycleDeletionProposed
		a.leave(pr)
	case Leave:
		a.leave(pr)
	case Restore, Approve:
		pr.Spec.Lifecycle = porchv1alpha1.LifecyclePublished
	case Propose:
		pr.Spec.Lifecycle = porchv1alpha1.LifecycleProposed
	case Begin:
		pending(pr)
	case AddFinalizer, RemoveFinalizer, Create, Delete:
	}
}

func (a *Action) release(pr *porchv1alpha1.PackageRevision) {
	pr.OwnerReferences = slices.DeleteFunc(pr.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == a.variant.UID })
}

// leave releases a revision, and records for whom it is.
func (a *Action) leave(pr *porchv1alpha1.PackageRevision) {
	a.release(pr)
	pr.Annotations = overlaid(pr.Annotations, map[string]string{configv1alpha1.AnnotationReleasedBy: a.variant.Name})
}

// pending adds the readiness gate of PackageVariants, and sets its condition to False.
func pending(pr *porchv1alpha1.PackageRevision) {
	incomplete(pr, configv1alpha1.ReasonOperationsPending, "operations of the package variant are pending")
}

// SetFailed records in a draft that work on it failed. It returns false if the draft already
// records the same failure.
func SetFailed(pr *porchv1alpha1.PackageRevision, why error) bool {
	const limit = 2048
	return incomplete(pr, configv1alpha1.ReasonOperationsFailed, text.Clip(why.Error(), limit))
}

// incomplete adds the readiness gate of PackageVariants, and sets its condition to False. It
// reports whether that changed anything.
func incomplete(pr *porchv1alpha1.PackageRevision, reason, message string) bool {
	gate := porchv1alpha1.ReadinessGate{ConditionType: configv1alpha1.ConditionPVOperationsComplete}
	changed := !slices.Contains(pr.Spec.ReadinessGates, gate)
	if changed {
		pr.Spec.ReadinessGates = append(pr.Spec.ReadinessGates, gate)
	}
	condition := porchv1alpha1.Condition{Type: gate.ConditionType, Status: porchv1alpha1.ConditionFalse, Reason: reason, Message: message}
	for i := range pr.Status.Conditions {
		if was := &pr.Status.Conditions[i]; was.Type == gate.ConditionType {
			changed = changed || *was != condition
			*was = condition
			return changed
		}
	}
	pr.Status.Conditions = append(pr.Status.Conditions, condition)
	return true
}

func ownerOf(pv *configv1alpha1.PackageVariant) metav1.OwnerReference {
	return *metav1.NewControllerRef(pv, configv1alpha1.GroupVersion.WithKind("PackageVariant"))
}

func overlaid(below, above map[string]string) map[string]string {
	if len(above) == 0 {
		return below
	}
	out := make(map[string]string, len(below)+len(above))
	maps.Copy(out, below)
	maps.Copy(out, above)
	return out
}

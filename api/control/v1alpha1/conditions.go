package v1alpha1

// Conditions of BindingPolicy. Owner of all of them: binding-controller.
const (
	// BindingPolicyConditionSynced says whether the policy's Binding is what the policy asks for.
	//
	// Reasons when True:
	//   - Synced
	//
	// Reasons when False:
	//   - InvalidSpec: the policy cannot be understood; the Binding stays as it was.
	//   - NameTaken: a Binding of this name exists that this policy does not own.
	//   - Held: see condition Held.
	//   - Deleting: the policy, or its Binding alone, is being deleted and waits until the objects have left the clusters.
	//   - Failed: the Binding could not be written; the message says why.
	//
	// Reasons when Unknown:
	//   - NotObserved: some kinds of objects, or the inventory of clusters, could not be read since the start of the
	//     controller; the message lists them. Their entries stay as they were, all others are up to date.
	BindingPolicyConditionSynced = "Synced"

	// BindingPolicyConditionHeld says that a change waits, since it would take everything from more clusters than the policy
	// allows; the message says which, and how to release it. It is True, with reason SafetyValve, or absent.
	BindingPolicyConditionHeld = "Held"

	// BindingPolicyConditionReady says whether what the policy asks for is in the clusters.
	//
	// Reasons when True:
	//   - Applied: every object was applied by every destination, at its current content.
	//
	// Reasons when False:
	//   - NotSynced: see condition Synced. Ready is Unknown if that is.
	//   - NotDelivered: some works are not yet, or could not be, written to the mailboxes.
	//   - NotApplied: some clusters have not yet applied, or could not apply, what was delivered.
	//   - Errors: see status.errors.
	//
	// Reasons when Unknown:
	//   - NotApplied: some clusters never report.
	BindingPolicyConditionReady = "Ready"

	// BindingPolicyConditionCollectors says whether the StatusCollectors that the policy names are there. A policy that names none does not
	// have it.
	//
	// Reasons when True:
	//   - ReconcileSuccess
	//
	// Reasons when False:
	//   - ReconcileError: some are missing, or have errors; the message names them.
	BindingPolicyConditionCollectors = "StatusCollectorsAvailable"

	// BindingPolicyConditionDelivered, BindingPolicyConditionApplied and BindingPolicyConditionHealthy are those of the policy's
	// Bindings, of several the worst, with their reasons.
	BindingPolicyConditionDelivered = BindingConditionDelivered
	BindingPolicyConditionApplied   = BindingConditionApplied
	BindingPolicyConditionHealthy   = BindingConditionHealthy
)

// Conditions of Binding. Owner of all of them: transport-controller.
const (
	// BindingConditionDelivered says whether the mailboxes hold what the Binding asks for.
	//
	// Reasons when True:
	//   - Delivered
	//
	// Reasons when False:
	//   - Delivering: writes are under way.
	//   - Failed: some writes failed, or some objects could not be read; status.errors says which. What was delivered
	//     before stays.
	//   - Conflict: some objects are delivered by other WDSes with other content; status.errors says which.
	//   - Held: an annotation keeps changes from some mailboxes; see condition Held.
	//   - Deleting: the Binding is being deleted; the message names the clusters whose mailboxes still hold works of it.
	BindingConditionDelivered = "Delivered"

	// BindingConditionHeld says which objects stay as they are in all mailboxes because the annotation starling.io/hold says so.
	// Without that annotation the condition is not there.
	//
	// Reasons when True:
	//   - Held: the message names the objects.
	//   - InvalidHold: the annotation cannot be understood, so everything is held; status.errors says what is wrong.
	//
	// Reasons when False:
	//   - NothingHeld: nothing that the Binding lists or has delivered is named in the annotation.
	BindingConditionHeld = "Held"

	// BindingConditionApplied says whether the clusters have applied what was delivered.
	//
	// Reasons when True:
	//   - Applied
	//
	// Reasons when False:
	//   - Applying: some clusters have not answered yet; the message names them.
	//   - Failed: some clusters answered with errors; status.errors holds their texts.
	//   - NotDelivered: see condition Delivered.
	//
	// Reasons when Unknown:
	//   - NotReported: some clusters never report, since nobody can reach them; the message names them.
	BindingConditionApplied = "Applied"

	// BindingConditionHealthy says whether the objects do in the clusters what they are for, as far as their statuses tell.
	//
	// Reasons when True:
	//   - Healthy
	//
	// Reasons when False:
	//   - Unhealthy: some objects say that something is wrong, or should report and do not; status.problems says which.
	//   - Progressing: some objects are on their way; the message names them.
	//   - NotApplied: see condition Applied. Healthy is Unknown if that is.
	//
	// Reasons when Unknown:
	//   - NotReported: from some clusters nobody reports; the message names them.
	BindingConditionHealthy = "Healthy"
)

// Conditions of ManagedCluster. Owner: binding-controller.
const (
	// ManagedClusterConditionNameTaken says that the cluster is no destination, since another ITS accepted a cluster of the same
	// name earlier. It is True, with reason NameTaken, or absent.
	ManagedClusterConditionNameTaken = "starling.io/NameTaken"
)

// Reasons of the conditions of BindingPolicy and Binding. Which condition uses which is said at the conditions.
const (
	ReasonSynced       = "Synced"
	ReasonInvalidSpec  = "InvalidSpec"
	ReasonNameTaken    = "NameTaken"
	ReasonSafetyValve  = "SafetyValve"
	ReasonDeleting     = "Deleting"
	ReasonNotObserved  = "NotObserved"
	ReasonNotSynced    = "NotSynced"
	ReasonNotDelivered = "NotDelivered"
	ReasonNotApplied   = "NotApplied"
	ReasonErrors       = "Errors"
	ReasonConflict     = "Conflict"
	ReasonHeld         = "Held"
	ReasonReleased     = "Released"
	ReasonInvalidHold  = "InvalidHold"
	ReasonNothingHeld  = "NothingHeld"
	ReasonDelivered    = "Delivered"
	ReasonDelivering   = "Delivering"
	ReasonFailed       = "Failed"
	ReasonHealthy      = "Healthy"
	ReasonUnhealthy    = "Unhealthy"
	ReasonProgressing  = "Progressing"
	ReasonApplied      = "Applied"
	ReasonApplying     = "Applying"
	ReasonNotReported  = "NotReported"

	ReasonReconcileSuccess = "ReconcileSuccess"
	ReasonReconcileError   = "ReconcileError"
)

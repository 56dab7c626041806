package v1alpha1

// Conditions of BindingPolicy. Owner of all of them: binding-controller.
const (
	// BindingPolicyConditionSynced reports whether the policy's Bindings list what the policy
	// selects.
	//
	// Reasons when True:
	//   - Synced: the Bindings are up to date. If the policy selects no objects or no clusters, or
	//     if clusters match that are not accepted or are drained, the message says so.
	//
	// Reasons when False:
	//   - InvalidSpec: the spec is invalid; status.errors names the fields. The Bindings stay
	//     unchanged. Correct the fields.
	//   - NameTaken: a Binding of this name exists that this policy does not own. Delete that
	//     Binding, or create the policy under another name.
	//   - RemovalBlocked: a change is blocked. Read the message of condition RemovalBlocked.
	//   - Deleting: the policy, or only its Binding, is being deleted and its objects are still in
	//     clusters. Wait. If a cluster in the message will never respond, release it with the
	//     annotation starling.io/release on the Binding.
	//   - Failed: a write of the Binding failed, and is retried. The message holds the API server's
	//     error; correct what it names, for example missing rights.
	//   - HandOver: objects that the policy no longer selects have stayed in its Bindings for more
	//     than 10 seconds, because other policies select them now and do not list them yet. The
	//     message names these policies; read their conditions.
	//
	// Reasons when Unknown:
	//   - NotObserved: some kinds of objects, or the clusters of an ITS, are not synced since the
	//     controller started, or the WDS does not serve a kind for now of which the Bindings list
	//     objects; the message lists them. Their entries stay unchanged, all others are up to date.
	//     Check that the API servers and the extension API servers in the message respond, and that
	//     the CustomResourceDefinitions in the message serve a version.
	BindingPolicyConditionSynced = "Synced"

	// BindingPolicyConditionRemovalBlocked reports a change that is not carried out because it
	// would remove every object from more clusters than the policy allows. It is True or absent.
	//
	// Reasons when True:
	//   - RemovalLimitExceeded: the message names the objects and clusters. Revert the change, or
	//     allow it with the command in the message.
	BindingPolicyConditionRemovalBlocked = "RemovalBlocked"

	// BindingPolicyConditionReady reports whether the clusters have applied what the policy
	// selects.
	//
	// Reasons when True:
	//   - Applied: every destination has applied every object with its current content.
	//
	// Reasons when False:
	//   - NotSynced: the Bindings are not up to date; read condition Synced. Ready is Unknown if
	//     Synced is Unknown.
	//   - NoDestinations: the policy selects no clusters. The message names the clusters that match
	//     and are not accepted, or are drained, and the command that changes that.
	//   - NoObjects: the policy selects clusters and no objects. Check spec.downsync, or create the
	//     objects.
	//   - NotDelivered: some mailboxes do not hold the current content; read condition Delivered.
	//   - NotApplied: some clusters have not applied what was delivered; read condition Applied.
	//   - Errors: everything is applied, but status.errors is not empty. Correct what it lists.
	//
	// Reasons when Unknown:
	//   - NotApplied: some clusters do not report what they applied; read condition Applied.
	BindingPolicyConditionReady = "Ready"

	// BindingPolicyConditionCollectors reports whether all StatusCollectors that the policy names
	// exist and are valid. A policy that names none does not have this condition.
	//
	// Reasons when True:
	//   - ReconcileSuccess: all of them exist and are valid.
	//
	// Reasons when False:
	//   - ReconcileError: the message names StatusCollectors that do not exist or have errors.
	//     Create them, or correct what their status.errors lists.
	BindingPolicyConditionCollectors = "StatusCollectorsAvailable"

	// BindingPolicyConditionDelivered, BindingPolicyConditionApplied and
	// BindingPolicyConditionHealthy are the conditions of the policy's Binding, with its reasons.
	// If the policy has several Bindings, they are the worst of each type. Their observedGeneration
	// is the last one of the policy for which the transport-controller has observed the Bindings.
	BindingPolicyConditionDelivered = BindingConditionDelivered
	BindingPolicyConditionApplied   = BindingConditionApplied
	BindingPolicyConditionHealthy   = BindingConditionHealthy
)

// Conditions of Binding. Owner of all of them: transport-controller.
const (
	// BindingConditionDelivered reports whether the mailboxes hold the desired content.
	//
	// Reasons when True:
	//   - Delivered: every mailbox holds the current content.
	//
	// Reasons when False:
	//   - Delivering: writes are in progress, or wait for an earlier step in the clusters that the
	//     message names. Wait.
	//   - Failed: some writes failed, or some objects could not be read or transformed;
	//     status.errors names them. What was delivered before stays. Correct what status.errors
	//     lists; failed writes are retried.
	//   - Conflict: other owners deliver some objects to the same clusters with different content;
	//     status.errors names them. Make the contents equal, or remove the objects from one of the
	//     owners.
	//   - Held: the annotation starling.io/hold keeps some mailboxes from being updated; read
	//     condition Held. Remove the annotation to deliver.
	//   - Deleting: the Binding is being deleted; the message names the clusters whose mailboxes
	//     still hold works. Wait, or release the clusters that will never respond with
	//     starling.io/release.
	BindingConditionDelivered = "Delivered"

	// BindingConditionHeld reports which objects stay unchanged in all mailboxes because of the
	// annotation starling.io/hold. A Binding without that annotation does not have this condition.
	//
	// Reasons when True:
	//   - Held: the message names the objects. To release them, remove them from the annotation.
	//   - InvalidHold: the annotation is invalid, so every object is held; status.errors says what
	//     is wrong with it. Correct or remove the annotation.
	//
	// Reasons when False:
	//   - NothingHeld: the Binding has neither listed nor delivered any object that the annotation
	//     names. Check the spelling, or remove the annotation.
	BindingConditionHeld = "Held"

	// BindingConditionApplied reports whether the clusters have applied what was delivered.
	//
	// Reasons when True:
	//   - Applied: every cluster has applied every object with its current content.
	//
	// Reasons when False:
	//   - Applying: some clusters have not reported on the current content yet; the message names
	//     them. Wait, or check OCM's work agent in those clusters.
	//   - Failed: some clusters could not apply objects; status.errors holds the errors that they
	//     reported. Correct the objects, or the rights of OCM's work agent there.
	//   - TooLarge: some ManifestWorks have so many objects that etcd refuses the report on them;
	//     status.errors names them. Restart the transport-controller with a smaller
	//     --max-num-wrapped.
	//   - NotDelivered: the mailboxes do not hold the current content; read condition Delivered.
	//
	// Reasons when Unknown:
	//   - NotReported: the message names clusters that cannot report what they applied, for example
	//     because they read works from a directory. Applied stays Unknown while the Binding has
	//     such clusters.
	BindingConditionApplied = "Applied"

	// BindingConditionHealthy reports whether the objects work in the clusters, as far as their
	// statuses show.
	//
	// Reasons when True:
	//   - Healthy: no object has a problem.
	//
	// Reasons when False:
	//   - Unhealthy: some objects report a problem, or should report and do not; status.problems
	//     names the first ten. Examine those objects in their clusters.
	//   - Progressing: some objects have not reached their desired state yet; the message names the
	//     clusters. Wait.
	//   - NotApplied: some clusters have not applied what was delivered; read condition Applied.
	//     Healthy is Unknown if Applied is Unknown.
	//
	// Reasons when Unknown:
	//   - NotReported: no status-agent reports from the clusters in the message. Install the status
	//     add-on there. A cluster may also have more WorkStatuses in its mailbox than are read of
	//     one cluster; the message says so. Delete those that are not from the status-agent.
	BindingConditionHealthy = "Healthy"
)

// Conditions of ManagedCluster. Owner: binding-controller.
const (
	// ManagedClusterConditionNameTaken reports that the cluster is no destination, because another
	// ITS accepted a cluster of the same name earlier. It is True or absent.
	//
	// Reasons when True:
	//   - NameTaken: the message names the other ITS. Register one of the two clusters under
	//     another name.
	ManagedClusterConditionNameTaken = "starling.io/NameTaken"
)

// Reasons of the conditions of BindingPolicy, Binding and ManagedCluster. Each is documented at the
// conditions that use it. Released is the reason of an event only: a blocked change was allowed or
// reverted.
const (
	ReasonSynced               = "Synced"
	ReasonInvalidSpec          = "InvalidSpec"
	ReasonNameTaken            = "NameTaken"
	ReasonRemovalLimitExceeded = "RemovalLimitExceeded"
	ReasonDeleting             = "Deleting"
	ReasonNotObserved          = "NotObserved"
	ReasonNotSynced            = "NotSynced"
	ReasonNoDestinations       = "NoDestinations"
	ReasonNoObjects            = "NoObjects"
	ReasonNotDelivered         = "NotDelivered"
	ReasonNotApplied           = "NotApplied"
	ReasonErrors               = "Errors"
	ReasonConflict             = "Conflict"
	ReasonHeld                 = "Held"
	ReasonHandOver             = "HandOver"
	ReasonRemovalBlocked       = "RemovalBlocked"
	ReasonReleased             = "Released"
	ReasonInvalidHold          = "InvalidHold"
	ReasonNothingHeld          = "NothingHeld"
	ReasonDelivered            = "Delivered"
	ReasonDelivering           = "Delivering"
	ReasonFailed               = "Failed"
	ReasonHealthy              = "Healthy"
	ReasonUnhealthy            = "Unhealthy"
	ReasonProgressing          = "Progressing"
	ReasonApplied              = "Applied"
	ReasonApplying             = "Applying"
	ReasonNotReported          = "NotReported"
	ReasonTooLarge             = "TooLarge"

	ReasonReconcileSuccess = "ReconcileSuccess"
	ReasonReconcileError   = "ReconcileError"
)

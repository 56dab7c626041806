package v1alpha1

// Names that are part of the contract with users of Porch and Nephio.
const (
	// PackageVariantFinalizer blocks the deletion of a PackageVariant until the revisions that it
	// owns are deleted, proposed for deletion, or orphaned. Owner: the packages controllers.
	PackageVariantFinalizer = "config.porch.kpt.dev/packagevariants"

	// LabelPackageVariantSet is on the PackageVariants of a PackageVariantSet. Its value is the UID
	// of the set.
	LabelPackageVariantSet = "config.porch.kpt.dev/packagevariantset"

	// AnnotationConfigInjection on an object in a package makes it an injection point: "required"
	// or "optional".
	AnnotationConfigInjection = "kpt.dev/config-injection"
	// AnnotationInjectedResource on an injection point is the name of the object that was injected.
	AnnotationInjectedResource = "kpt.dev/injected-resource-name"
	// AnnotationInjectedResourceOfPorch is the key that Porch writes for the same value. It is
	// read, never written, and removed when another object is injected.
	AnnotationInjectedResourceOfPorch = "kpt.dev/injected-resource"

	// ConditionPVOperationsComplete of a PackageRevision reports whether its PackageVariant has
	// made all its changes to it. It is a readiness gate. Owner: the packages controllers.
	//
	// Reasons when True:
	//   - OperationsComplete
	//
	// Reasons when False:
	//   - OperationsPending: the changes are not complete.
	//   - OperationsFailed: a change failed. The message says why.
	ConditionPVOperationsComplete = "PVOperationsComplete"
	// ConditionInjectionPrefix is the prefix of the types of conditions of a PackageRevision that
	// are about its injection points. The kind and the name of the injection point follow.
	// Conditions of required points are readiness gates. Owner: the packages controllers.
	//
	// Reasons when True:
	//   - ConfigInjected
	//
	// Reasons when False:
	//   - NoResourceSelected
	ConditionInjectionPrefix = "config.injection."

	// AnnotationApprovalPolicy on a PackageVariant, or in its spec.annotations, selects the drafts
	// that are proposed and approved automatically once their readiness gates are met:
	// ApprovalInitial or ApprovalAlways. Without it, users propose and approve.
	AnnotationApprovalPolicy = "approval.nephio.org/policy"
	// ApprovalInitial approves a draft only if no revision of its package is published yet.
	ApprovalInitial = "initial"
	// ApprovalAlways approves every draft.
	ApprovalAlways = "always"
)

// LabelTagPrefix is the prefix of labels of published PackageRevisions that are tags: the label
// tag.starling.io/stable is the tag "stable". Its value has no meaning. Owner: the user who
// publishes the package.
const LabelTagPrefix = "tag.starling.io/"

// AnnotationPolicyOf is on drafts of PackageRevisions whose content was written only while their
// PackageVariant had an approval policy. Its value is the UID of the PackageVariant. No other draft
// is approved automatically. Only a user who may update packagevariants/status may set it. Owner:
// the packages controllers.
const AnnotationPolicyOf = "starling.io/policy-of"

// AnnotationReleasedBy is on PackageRevisions that a PackageVariant has proposed for deletion, or
// left since a person has written into them. Its value is the name of the PackageVariant. A
// PackageVariant of that name adopts them again and withdraws the proposal. Owner: the packages
// controllers.
const AnnotationReleasedBy = "starling.io/released-by"

// Reasons of the conditions above.
const (
	ReasonOperationsComplete = "OperationsComplete"
	ReasonOperationsPending  = "OperationsPending"
	ReasonOperationsFailed   = "OperationsFailed"
	ReasonConfigInjected     = "ConfigInjected"
	ReasonNoResourceSelected = "NoResourceSelected"
)

// Conditions of PackageVariant and PackageVariantSet. Owner of all of them: the packages
// controllers.
const (
	// ConditionStalled reports whether the controller cannot proceed until a user changes
	// something.
	//
	// Reasons when True:
	//   - ValidationError: spec is invalid. The message lists every error.
	//   - UpstreamNotFound: no revision matches spec.upstream.
	//   - UpstreamNotPublished (PackageVariant): the revision that matches spec.upstream is not
	//     published.
	//   - NoMatchingTargets (PackageVariantSet): the kind of an objectSelector is not served.
	//   - UnexpectedError (PackageVariantSet): some targets failed. They are in status.problems.
	//
	// Reasons when False:
	//   - Valid
	ConditionStalled = "Stalled"

	// ConditionReady reports whether the current state matches spec.
	//
	// Reasons when True:
	//   - NoErrors (PackageVariant)
	//   - Reconciled (PackageVariantSet)
	//
	// Reasons when False:
	//   - Error (PackageVariant): the message says what failed.
	//   - DownstreamExists (PackageVariant): the downstream package has another owner. Set
	//     adoptionPolicy to adoptExisting, or choose another package.
	//   - WaitingForApproval (PackageVariant): the draft is out of date, but already proposed.
	//     Approve or reject it.
	//   - UpstreamLost (PackageVariant): the revision from which the downstream package was created
	//     no longer exists, so the upstream cannot be merged.
	//   - RemovalBlocked (PackageVariantSet): see condition RemovalBlocked.
	//   - VariantsNotReady (PackageVariantSet): a PackageVariant is not ready. All of them are in
	//     status.problems.
	//   - the reasons of Stalled (PackageVariantSet).
	//
	// Reasons when Unknown:
	//   - Reconciling (PackageVariantSet): not all PackageVariants have reported on their spec.
	ConditionReady = "Ready"

	// PackageVariantSetConditionRemovalBlocked reports that deletions are blocked, because they
	// would delete more PackageVariants than the set allows. The message names the PackageVariants
	// and the command that allows the deletions. The condition is True, with reason
	// RemovalLimitExceeded, or absent.
	PackageVariantSetConditionRemovalBlocked = "RemovalBlocked"

	// PackageVariantConditionDelivered, PackageVariantConditionApplied and
	// PackageVariantConditionHealthy are the conditions of the Binding that delivers the latest
	// published revision to its cluster. They are absent if nothing is delivered.
	PackageVariantConditionDelivered = "Delivered"
	PackageVariantConditionApplied   = "Applied"
	PackageVariantConditionHealthy   = "Healthy"
)

// Reasons of the conditions above.
const (
	ReasonValid                = "Valid"
	ReasonValidationError      = "ValidationError"
	ReasonUpstreamNotFound     = "UpstreamNotFound"
	ReasonUpstreamNotPublished = "UpstreamNotPublished"
	ReasonUpstreamLost         = "UpstreamLost"
	ReasonNoMatchingTargets    = "NoMatchingTargets"
	ReasonUnexpectedError      = "UnexpectedError"
	// ReasonEvaluationInterrupted says that the templates of a set were not evaluated within the
	// time for one set, so that its targets are not known. They are retried.
	ReasonEvaluationInterrupted = "EvaluationInterrupted"
	ReasonNoErrors              = "NoErrors"
	ReasonReconciled            = "Reconciled"
	ReasonVariantsNotReady      = "VariantsNotReady"
	ReasonDownstreamExists      = "DownstreamExists"
	ReasonWaitingForApproval    = "WaitingForApproval"
	ReasonRemovalBlocked        = "RemovalBlocked"
	ReasonRemovalLimitExceeded  = "RemovalLimitExceeded"
)

package v1alpha1

// Names that are part of the contract with users of Porch and Nephio.
const (
	// PackageVariantFinalizer keeps a PackageVariant until what it owns is dealt with. Owner: the packages controllers.
	PackageVariantFinalizer = "config.porch.kpt.dev/packagevariants"

	// LabelPackageVariantSet is on the PackageVariants of a PackageVariantSet: its UID.
	LabelPackageVariantSet = "config.porch.kpt.dev/packagevariantset"

	// AnnotationConfigInjection on an object in a package makes it an injection point: "required" or "optional".
	AnnotationConfigInjection = "kpt.dev/config-injection"
	// AnnotationInjectedResource on an injection point is the name of the object whose content it has.
	AnnotationInjectedResource = "kpt.dev/injected-resource"
	// AnnotationInjectedResourceName is another name of it, which is read and not written.
	AnnotationInjectedResourceName = "kpt.dev/injected-resource-name"

	// ConditionPVOperationsComplete of a PackageRevision says whether its PackageVariant has done all that it had to do; it is a gate.
	// Owner: the packages controllers.
	//
	// Reasons when True:
	//   - OperationsComplete
	//
	// Reasons when False:
	//   - OperationsPending: some work is under way.
	//   - OperationsFailed: it failed; the message says why.
	ConditionPVOperationsComplete = "PVOperationsComplete"
	// ConditionInjectionPrefix begins the types of the conditions of a PackageRevision that are about its injection points; then come
	// the kind and the name of the point. Those of required points are gates. Owner: the packages controllers.
	//
	// Reasons when True:
	//   - ConfigInjected
	//
	// Reasons when False:
	//   - NoResourceSelected
	ConditionInjectionPrefix = "config.injection."

	// AnnotationApprovalPolicy on a PackageVariant, or in its spec.annotations, says which of its drafts are proposed and approved without
	// anybody being asked, once their gates are met: ApprovalInitial or ApprovalAlways. Without it, a human does it.
	AnnotationApprovalPolicy = "approval.nephio.org/policy"
	// ApprovalInitial approves drafts of packages of which nothing is published yet.
	ApprovalInitial = "initial"
	// ApprovalAlways approves all.
	ApprovalAlways = "always"
)

// LabelTagPrefix begins labels of published PackageRevisions that are tags: tag.starling.io/stable is the tag "stable", whatever its
// value. Owner: whoever publishes the package.
const LabelTagPrefix = "tag.starling.io/"

// AnnotationReleasedBy is on PackageRevisions that a PackageVariant has proposed for deletion: its name. A PackageVariant of that name takes
// them back, and the proposal. Owner: the packages controllers.
const AnnotationReleasedBy = "starling.io/released-by"

// Reasons of the conditions above.
const (
	ReasonOperationsComplete = "OperationsComplete"
	ReasonOperationsPending  = "OperationsPending"
	ReasonOperationsFailed   = "OperationsFailed"
	ReasonConfigInjected     = "ConfigInjected"
	ReasonNoResourceSelected = "NoResourceSelected"
)

// Conditions of PackageVariant and PackageVariantSet. Owner of all of them: the packages controllers.
const (
	// ConditionStalled says whether nothing can be done before a user does something.
	//
	// Reasons when True:
	//   - ValidationError: spec is wrong; the message says all that is.
	//   - UpstreamNotFound: spec.upstream denotes nothing that is there.
	//   - UpstreamNotPublished (PackageVariant): it denotes a revision that is not published.
	//   - NoMatchingTargets (PackageVariantSet): the kind of an objectSelector is not served.
	//   - UnexpectedError (PackageVariantSet): some targets failed; status.problems says which.
	//
	// Reasons when False:
	//   - Valid
	ConditionStalled = "Stalled"

	// ConditionReady says whether all is as spec asks for.
	//
	// Reasons when True:
	//   - NoErrors (PackageVariant)
	//   - Reconciled (PackageVariantSet)
	//
	// Reasons when False:
	//   - Error (PackageVariant): the message says what failed.
	//   - DownstreamExists (PackageVariant): the downstream package belongs to others; set adoptionPolicy to adoptExisting, or name another.
	//   - WaitingForApproval (PackageVariant): something has changed, but the draft is proposed: approve it, or reject it.
	//   - UpstreamLost (PackageVariant): what the downstream package was made from is not there any more, so nothing can be merged.
	//   - Held (PackageVariantSet): see condition Held.
	//   - those of Stalled (PackageVariantSet).
	ConditionReady = "Ready"

	// PackageVariantSetConditionHeld says that deletions wait, since they would take more PackageVariants than the set allows; the
	// message says which, and how to release them. It is True, with reason SafetyValve, or absent.
	PackageVariantSetConditionHeld = "Held"

	// PackageVariantConditionDelivered, PackageVariantConditionApplied and PackageVariantConditionHealthy are those of the Binding that
	// carries the latest published revision to its cluster; absent where nothing is carried.
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
	ReasonNoErrors             = "NoErrors"
	ReasonReconciled           = "Reconciled"
	ReasonDownstreamExists     = "DownstreamExists"
	ReasonWaitingForApproval   = "WaitingForApproval"
	ReasonHeld                 = "Held"
	ReasonSafetyValve          = "SafetyValve"
)

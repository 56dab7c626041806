package v1

// Conditions of Provider, Configuration and Function. Owner: the transactions controller.
const (
	// PackageConditionInstalled reports whether a revision of the package is active.
	//
	// Reasons when True:
	//   - ActivePackageRevision
	//
	// Reasons when False:
	//   - UnpackingPackage: a Transaction installs the package. The message has its state.
	//   - InactivePackageRevision: the newest revision is not active, because the activation policy
	//     is Manual, or because the last Transaction failed before any revision was installed. The
	//     message says which.
	PackageConditionInstalled = "Installed"

	// PackageConditionHealthy reports whether the current revision is healthy.
	//
	// Reasons when True:
	//   - HealthyPackageRevision
	//
	// Reasons when False:
	//   - UnhealthyPackageRevision
	//
	// Reasons when Unknown:
	//   - UnknownPackageRevisionHealth: there is no revision yet.
	PackageConditionHealthy = "Healthy"

	// PackageConditionSynced reports whether the last change of spec has been carried out.
	//
	// Reasons when True:
	//   - ReconcileSuccess
	//
	// Reasons when False. The package that was installed before stays:
	//   - ReconcileError: the last Transaction failed. The message has its name and its error.
	//   - ReconcilePaused: the package has the annotation crossplane.io/paused.
	PackageConditionSynced = "Synced"
)

// Conditions of revisions. Owner: the transactions controller.
const (
	// RevisionConditionHealthy reports whether the objects of the revision are installed.
	//
	// Reasons when True:
	//   - HealthyPackageRevision
	//
	// Reasons when False:
	//   - UnhealthyPackageRevision: the message names an object and the error.
	//   - AwaitingActivation: the revision is inactive.
	RevisionConditionHealthy = "RevisionHealthy"
)

// Reasons of the conditions above.
const (
	ReasonActivePackageRevision   = "ActivePackageRevision"
	ReasonUnpackingPackage        = "UnpackingPackage"
	ReasonInactivePackageRevision = "InactivePackageRevision"

	ReasonHealthyPackageRevision       = "HealthyPackageRevision"
	ReasonUnhealthyPackageRevision     = "UnhealthyPackageRevision"
	ReasonUnknownPackageRevisionHealth = "UnknownPackageRevisionHealth"
	ReasonAwaitingActivation           = "AwaitingActivation"

	ReasonReconcileSuccess = "ReconcileSuccess"
	ReasonReconcileError   = "ReconcileError"
	ReasonReconcilePaused  = "ReconcilePaused"
)

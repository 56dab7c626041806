package v1alpha1

// Conditions of Transaction. Owner of all of them: the transactions controller. A try sets
// Validated, Installed and Ready together.
const (
	// TransactionConditionValidated reports whether everything that can be checked before a change
	// has been checked.
	//
	// Reasons when True:
	//   - AllValidationsPassed
	//
	// Reasons when False. Nothing was changed:
	//   - MissingDependency: a package, a dependency or a version of it does not exist.
	//   - VersionConflict: no choice of versions suits all packages. The message has the chain of
	//     requirements.
	//   - CircularDependency: packages require each other. The message has the path.
	//   - CRDConflict: two packages have the same CustomResourceDefinition, or something else
	//     controls it.
	//   - SchemaIncompatible: a CustomResourceDefinition would break objects that exist, or the API
	//     server would refuse it.
	//   - InvalidPackage: a package cannot be read. The message says which and why.
	//   - ResourcesInUse: the deletion of a package would delete objects of its
	//     CustomResourceDefinitions. The message says how many of which, and how to allow it.
	//
	// Reasons when Unknown:
	//   - ValidationPending: the validation has not ended, or a registry did not answer.
	TransactionConditionValidated = "Validated"

	// TransactionConditionInstalled reports whether the change is done.
	//
	// Reasons when True:
	//   - InstallationComplete
	//
	// Reasons when Unknown:
	//   - InstallationPending: the validation has not passed.
	//   - InstallationInProgress
	//   - ValidateOnly: the transaction ends after its validation.
	//
	// Reasons when False. The change is not complete; the next try continues it:
	//   - CRDInstallationFailed: a CustomResourceDefinition was not accepted or not established.
	//   - ObjectInstallationFailed: another object was not accepted.
	//   - PackageInstallationFailed: a package or a revision was not accepted.
	TransactionConditionInstalled = "Installed"

	// TransactionConditionReady reports whether the transaction has ended with success.
	//
	// Reasons when True:
	//   - TransactionComplete
	//
	// Reasons when Unknown:
	//   - TransactionInProgress
	//   - TransactionBlocked: another transaction holds the Lock. The message names it.
	//
	// Reasons when False. If status.completionTime is absent, it will be tried again:
	//   - ValidationFailed
	//   - InstallationFailed
	//   - Superseded: the package has changed since. A later transaction installs it.
	TransactionConditionReady = "Ready"

	// TransactionConditionSynced reports whether the last try ended without an error.
	//
	// Reasons when True:
	//   - ReconcileSuccess
	//
	// Reasons when False:
	//   - ReconcileError: the message is the error.
	//   - ReconcilePaused: the transaction has the annotation crossplane.io/paused.
	TransactionConditionSynced = "Synced"
)

// Reasons of TransactionConditionValidated.
const (
	ReasonAllValidationsPassed = "AllValidationsPassed"
	ReasonMissingDependency    = "MissingDependency"
	ReasonVersionConflict      = "VersionConflict"
	ReasonCircularDependency   = "CircularDependency"
	ReasonCRDConflict          = "CRDConflict"
	ReasonSchemaIncompatible   = "SchemaIncompatible"
	ReasonInvalidPackage       = "InvalidPackage"
	ReasonResourcesInUse       = "ResourcesInUse"
	ReasonValidationPending    = "ValidationPending"
)

// Reasons of TransactionConditionInstalled.
const (
	ReasonInstallationComplete      = "InstallationComplete"
	ReasonInstallationPending       = "InstallationPending"
	ReasonInstallationInProgress    = "InstallationInProgress"
	ReasonValidateOnly              = "ValidateOnly"
	ReasonCRDInstallationFailed     = "CRDInstallationFailed"
	ReasonObjectInstallationFailed  = "ObjectInstallationFailed"
	ReasonPackageInstallationFailed = "PackageInstallationFailed"
)

// Reasons of TransactionConditionReady.
const (
	ReasonTransactionComplete   = "TransactionComplete"
	ReasonTransactionInProgress = "TransactionInProgress"
	ReasonTransactionBlocked    = "TransactionBlocked"
	ReasonValidationFailed      = "ValidationFailed"
	ReasonInstallationFailed    = "InstallationFailed"
	ReasonSuperseded            = "Superseded"
)

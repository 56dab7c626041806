package v1

// Labels and annotations of packages, and of what belongs to them.
const (
	// LabelPackage on a revision, and on a Transaction, is the name of the package.
	LabelPackage = "pkg.crossplane.io/package"
	// LabelPackageType on a Transaction is the kind of the package.
	LabelPackageType = "pkg.crossplane.io/package-type"
	// LabelTransaction on everything that a Transaction wrote is the name of the last one that did.
	// A package that has it when it is created is a dependency: transactions set its version.
	// Owner: the transactions controller.
	LabelTransaction = "pkg.crossplane.io/transaction"
	// LabelGeneration on a package is its generation that a Transaction was created for. Owner: the
	// transactions controller.
	LabelGeneration = "pkg.crossplane.io/transaction-generation"
	// LabelProviderFamily on a package is the family of the provider, as package.yaml says.
	LabelProviderFamily = "pkg.crossplane.io/provider-family"

	// AnnotationPaused, with the value "true", keeps controllers from reconciling an object.
	AnnotationPaused = "crossplane.io/paused"

	// PackageFinalizer keeps a package until a Transaction has removed it. Owner: the transactions
	// controller.
	PackageFinalizer = "transaction.pkg.crossplane.io/delete"
	// RevisionFinalizer keeps an active revision until its package has another one or is removed:
	// what the revision controls would lose its controller. Owner: the transactions controller.
	RevisionFinalizer = "revision.pkg.crossplane.io"
)

// Annotations of packages that a Transaction reads. The transactions controller copies them to each
// Transaction that it creates for the package.
const (
	// AnnotationValidateOnly, with the value "true", makes Transactions end after validation. They
	// report what would change, and change nothing.
	AnnotationValidateOnly = "pkg.crossplane.io/validate-only"
	// AnnotationAllowBreakingCRDs lists names of CustomResourceDefinitions, separated by commas,
	// whose changes may break objects that exist.
	AnnotationAllowBreakingCRDs = "pkg.crossplane.io/allow-breaking-crds"
	// AnnotationAllowDowngrade, with the value "true", allows Transactions to install earlier
	// versions of dependencies than those that are installed.
	AnnotationAllowDowngrade = "pkg.crossplane.io/allow-downgrade"
	// AnnotationAllowDeletion, with the value "true", allows the deletion of a package although
	// objects of its CustomResourceDefinitions exist. They are deleted too.
	AnnotationAllowDeletion = "pkg.crossplane.io/allow-deletion-of-resources"
	// AnnotationDestinationPolicy, with the value DestinationPolicyContinue, lets a Transaction
	// continue although it would break something on some clusters. These keep what they have.
	// Otherwise nothing changes anywhere.
	AnnotationDestinationPolicy = "pkg.crossplane.io/destination-policy"
)

// DestinationPolicyContinue is a value of AnnotationDestinationPolicy.
const DestinationPolicyContinue = "Continue"

// Other names.
const (
	// AnnotationKubernetesVersion in package.yaml is the range of versions of Kubernetes that the
	// package suits. It is compared with the versions of the clusters that the package is bound to.
	AnnotationKubernetesVersion = "pkg.crossplane.io/kubernetes-version"
	// AnnotationDependsOn on the Kptfile of a package of the package-server lists the packages of
	// pkg.crossplane.io that must be installed, in the form of spec.dependsOn of a package.yaml.
	AnnotationDependsOn = "pkg.crossplane.io/depends-on"
	// AnnotationAnswersGate, with the value "true", is on the Transaction whose result is the
	// condition PackageTransactionValidated of a PackageRevision that can still be approved. The
	// history does not collect it. Owner: the controller of package gates.
	AnnotationAnswersGate = "pkg.crossplane.io/answers-gate"
	// HoldsBinding is the Binding, of no policy and with nothing in it, that has
	// AnnotationHeldObjects. It is a Binding because the transport sees it in one order with all
	// others: a Binding that is created or changed later is held.
	HoldsBinding = "transactions.pkg.crossplane.io"
	// AnnotationHeldObjects on HoldsBinding lists objects of the WDS that stay as they are in
	// mailboxes, whichever Binding delivers them: while a Transaction installs them, and on
	// clusters where it would break something. It is united with the hold of the user. Owner: the
	// transactions controller.
	AnnotationHeldObjects = "pkg.crossplane.io/held-objects"
)

// UnnamedWebhookService stands for the service of a conversion webhook that a package leaves to the
// package manager which runs its program, as packages of Upbound do. Starling runs none: in a WDS,
// objects of such a kind are read as they are stored, and clusters get the kind without conversion.
const UnnamedWebhookService = "unnamed-conversion-webhook"

package v1alpha1

// Conditions of Repository. Owner of all of them: the packages controllers.
const (
	// RepositoryConditionReady says whether what the repository holds can be seen here.
	//
	// Reasons when True:
	//   - Ready
	//
	// Reasons when False; what was imported stays:
	//   - Reconciling: it has not been read yet.
	//   - InvalidSpec: a field of spec cannot be understood, or is not allowed here; the message names it.
	//   - SecretNotFound: the Secret that spec names is missing, or lacks what is needed.
	//   - Unauthorized: the server does not accept what the Secret holds, or asks for a Secret; or its certificate or key is not one to trust.
	//   - NotFound: the server has no such repository, branch or directory.
	//   - Unreachable: the server does not answer, or not in time.
	//   - TooLarge: the repository exceeds a limit; the message names it.
	//   - Error: all else; the message says what.
	RepositoryConditionReady = "Ready"

	// RepositoryConditionConsistent says whether what was imported before is still what the server has. Revisions that are published never
	// change, whatever the server says.
	//
	// Reasons when True:
	//   - Consistent
	//
	// Reasons when False; the message names the tags or the branch, and what to do:
	//   - HistoryRewritten: the branch no longer contains the commit that was imported from it. The placeholder revisions stay as they
	//     are until the annotation starling.io/accept-history of the Repository holds the commit of the branch.
	//   - TagsMoved: tags now lead to other content. The revisions keep theirs; one that is deleted comes again with what its tag leads to.
	//   - TagsMissing: tags that were imported are gone. The revisions stay until they are deleted.
	//   - Several: more than one of these.
	RepositoryConditionConsistent = "Consistent"

	// RepositoryConditionExported says whether the server has what is published here. It is absent where nothing is exported.
	//
	// Reasons when True:
	//   - Exported
	//
	// Reasons when False:
	//   - Exporting: some revisions wait for their turn.
	//   - Conflict: the server has tags of revisions that were published here, with other content; the message names them. Others go on.
	//   - Failed: writing failed and is tried again; the message says why.
	RepositoryConditionExported = "Exported"

	// RepositoryConditionDetached says whether the ManagedCluster that the packages of a deployment Repository go to has left. It is absent
	// where there never was one.
	//
	// Reasons when True; packages, and PackageVariants for them, stay as they are:
	//   - ClusterGone: there is no accepted ManagedCluster of that name.
	//
	// Reasons when False:
	//   - Attached: what is published here goes to the cluster, if the condition Deployed does not say otherwise.
	RepositoryConditionDetached = "Detached"

	// RepositoryConditionDeployed says that there is a ManagedCluster of the Repository's name, and that nothing goes there from here. It is
	// absent where it does, where there is no such cluster, and in namespaces in which clusters have no Repositories.
	//
	// Reasons when False:
	//   - NoDeployment: spec.deployment is not true.
	RepositoryConditionDeployed = "Deployed"
)

// Reasons of the conditions above.
const (
	ReasonReady            = "Ready"
	ReasonReconciling      = "Reconciling"
	ReasonInvalidSpec      = "InvalidSpec"
	ReasonSecretNotFound   = "SecretNotFound"
	ReasonUnauthorized     = "Unauthorized"
	ReasonNotFound         = "NotFound"
	ReasonUnreachable      = "Unreachable"
	ReasonTooLarge         = "TooLarge"
	ReasonError            = "Error"
	ReasonConsistent       = "Consistent"
	ReasonHistoryRewritten = "HistoryRewritten"
	ReasonTagsMoved        = "TagsMoved"
	ReasonTagsMissing      = "TagsMissing"
	ReasonSeveral          = "Several"
	ReasonExported         = "Exported"
	ReasonExporting        = "Exporting"
	ReasonConflict         = "Conflict"
	ReasonFailed           = "Failed"
	ReasonClusterGone      = "ClusterGone"
	ReasonAttached         = "Attached"
	ReasonNoDeployment     = "NoDeployment"
)

// ClusterAnnotation is on the Repositories that the packages controllers make for clusters: the name of the ManagedCluster. Their labels
// are kept equal to those of the cluster. A Repository of a cluster's name without it is somebody else's: it is used, and never changed.
const ClusterAnnotation = "starling.io/cluster"

// AcceptHistoryAnnotation is on a Repository whose branch was rewritten: its value is the commit of the branch that is accepted.
const AcceptHistoryAnnotation = "starling.io/accept-history"

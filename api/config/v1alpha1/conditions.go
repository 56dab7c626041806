package v1alpha1

// Conditions of Repository. Owner of all of them: the packages controllers.
const (
	// RepositoryConditionReady reports whether the packages of the repository can be read.
	//
	// Reasons when True:
	//   - Ready
	//
	// Reasons when False. Packages that were imported before stay:
	//   - Reconciling: the repository has not been read yet.
	//   - InvalidSpec: a field of spec is invalid, or not allowed here. The message names it.
	//   - SecretNotFound: the Secret that spec names does not exist, lacks a key, or has a type
	//     that is not for repositories.
	//   - Unauthorized: the server requires credentials, or rejects those in the Secret; or its
	//     certificate or host key is not trusted.
	//   - NotFound: the server has no such repository, branch or directory.
	//   - Unreachable: the server does not answer, or not in time.
	//   - TooLarge: the repository exceeds a limit. The message names it.
	//   - Error: any other error. The message describes it.
	RepositoryConditionReady = "Ready"

	// RepositoryConditionConsistent reports whether the server still has the content that was
	// imported from it. A published revision never changes, even if the server's content does.
	//
	// Reasons when True:
	//   - Consistent
	//
	// Reasons when False. The message names the tags or the branch, and what to do:
	//   - HistoryRewritten: the branch no longer contains the commit that was imported from it. The
	//     placeholder revisions stay unchanged until the annotation starling.io/accept-history of
	//     the Repository is set to the current commit of the branch.
	//   - TagsMoved: tags now point to different content. The revisions keep their content. A
	//     revision that is deleted is imported again with the content that its tag points to.
	//   - TagsMissing: tags that were imported no longer exist. Their revisions stay until they are
	//     deleted.
	//   - Several: more than one of these.
	RepositoryConditionConsistent = "Consistent"

	// RepositoryConditionExported reports whether the server has all revisions that are published
	// here. It is absent if nothing is exported.
	//
	// Reasons when True:
	//   - Exported
	//
	// Reasons when False:
	//   - Exporting: some revisions are queued.
	//   - Conflict: the server has tags of the same names with different content. The message names
	//     them. Other revisions are exported.
	//   - Failed: a write failed and will be retried. The message says why.
	RepositoryConditionExported = "Exported"

	// RepositoryConditionDetached reports whether the ManagedCluster of a deployment Repository no
	// longer exists. It is absent if there never was one.
	//
	// Reasons when True. Packages, and PackageVariants that target them, stay unchanged:
	//   - ClusterGone: there is no accepted ManagedCluster of that name.
	//
	// Reasons when False:
	//   - Attached: published packages are delivered to the cluster, unless the condition Deployed
	//     is False.
	RepositoryConditionDetached = "Detached"

	// RepositoryConditionDeployed is False if a ManagedCluster has the name of the Repository, but
	// no package is delivered to it. Otherwise it is absent: if packages are delivered, if there is
	// no such cluster, and in namespaces that hold no Repositories for clusters.
	//
	// Reasons when False:
	//   - NoDeployment: spec.deployment is not true.
	//   - ClusterDrained: the cluster is drained. What was delivered to it leaves.
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
	ReasonBranchMissing    = "BranchMissing"
	ReasonSeveral          = "Several"
	ReasonExported         = "Exported"
	ReasonExporting        = "Exporting"
	ReasonConflict         = "Conflict"
	ReasonBranchChanged    = "BranchChanged"
	ReasonFailed           = "Failed"
	ReasonClusterGone      = "ClusterGone"
	ReasonAttached         = "Attached"
	ReasonNoDeployment     = "NoDeployment"
	ReasonClusterDrained   = "ClusterDrained"
)

// ClusterAnnotation marks the Repositories that the packages controllers create for clusters. Its
// value is the name of the ManagedCluster. The controllers copy the labels of the cluster to the
// Repository. A Repository that has the name of a cluster but not this annotation belongs to a
// user: the controllers use it, and never change it.
const ClusterAnnotation = "starling.io/cluster"

// RepositorySecretType is the type of Secrets of Repositories whose keys no type of Kubernetes
// describes, such as token and ca.crt.
const RepositorySecretType = "starling.io/repository" //nolint:gosec // a type

// AcceptBranchAnnotation on a Repository lets exports replace the content that packages have on its
// branch. Its value is the commit of the branch whose content is given up.
const AcceptBranchAnnotation = "starling.io/accept-branch"

// ExportAgainAnnotation on a Repository asks to export again what was published here and the
// repository no longer has. Each new value is one request.
const ExportAgainAnnotation = "starling.io/export-again"

// AcceptTagsAnnotation on a Repository accepts that tags were moved: what was imported from them is
// replaced. Its value has what is accepted, as TAG@ID, separated by commas.
const AcceptTagsAnnotation = "starling.io/accept-tags"

// AcceptHistoryAnnotation on a Repository accepts that its branch was rewritten. Its value is the
// commit of the branch that is accepted.
const AcceptHistoryAnnotation = "starling.io/accept-history"

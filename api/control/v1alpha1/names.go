package v1alpha1

// Names that are part of the contract with users and with tools written for KubeStellar.
const (
	// BindingPolicyFinalizer keeps a BindingPolicy until its Bindings are gone. Owner: binding-controller.
	BindingPolicyFinalizer = "bindingpolicy.kubestellar.io/kscontroller"
	// BindingFinalizer keeps a Binding until every mailbox is free of its works. Owner: transport-controller; the Bindings of packages are
	// created with it.
	BindingFinalizer = "transport.kubestellar.io/object-cleanup"

	// LabelBindingName is put on each work: the name of its Binding, cut to 63 characters (then with a hash at its end). The
	// whole name is in AnnotationBinding; nothing of ours decides by this label.
	LabelBindingName = "transport.kubestellar.io/originOwnerReferenceBindingKey"
	// LabelWDSName is put on each work: the name that the WDS was given. It identifies nothing: LabelWDSUID does.
	LabelWDSName = "transport.kubestellar.io/originWdsName"

	// LabelSingletonStatus is put on an object of a WDS while its status is the copy of the status in one cluster. It is
	// not delivered. Owner: binding-controller.
	LabelSingletonStatus = "managed-by.kubestellar.io/singletonstatus"
	// LabelMultiWECStatus is put on an object of a WDS while its status is made of those in several clusters. It is not
	// delivered. Owner: binding-controller.
	LabelMultiWECStatus = "managed-by.kubestellar.io/multiwecstatus"

	// LabelExecutingCount is put on an object of a WDS while its status is asked for: the number of clusters that it is asked of.
	// It is not delivered. Owner: binding-controller.
	LabelExecutingCount = "kubestellar.io/executing-count"

	// ReportNamespace of a WDS holds the CombinedStatuses of cluster-scoped objects. Owner: binding-controller.
	ReportNamespace = "kubestellar-report"

	// LabelSubjectGroup and those below, on a CombinedStatus, say which object and which policy it is about. Where a name is no
	// valid value of a label, the label holds an abridgment of it, and the annotation of the same key holds the name.
	LabelSubjectGroup     = "status.kubestellar.io/api-group"
	LabelSubjectResource  = "status.kubestellar.io/resource"
	LabelSubjectNamespace = "status.kubestellar.io/namespace"
	LabelSubjectName      = "status.kubestellar.io/name"
	LabelBindingPolicy    = "status.kubestellar.io/binding-policy"

	// AnnotationExpandTemplates on an object, with the value "true", makes templates of the strings in it, which are expanded
	// with the properties of each cluster that the object goes to.
	AnnotationExpandTemplates = "control.kubestellar.io/expand-templates"

	// PropertiesNamespace holds, in an ITS, a ConfigMap for each cluster that has further properties, under the cluster's name.
	PropertiesNamespace = "customization-properties"

	// AnnotationPreserve on a Service, with the value "nodeport", keeps its node ports in the clusters.
	AnnotationPreserve = "control.kubestellar.io/preserve"
)

// Names that Starling adds.
const (
	// LabelWDSUID is put on works and WorkStatuses: the UID of the kube-system namespace of the WDS that they come from.
	LabelWDSUID = "starling.io/wds-uid"
	// LabelBindingUID is put on works: the UID of their Binding.
	LabelBindingUID = "starling.io/binding-uid"
	// LabelOverflowOf is put on the Bindings of a policy that selects more than one Binding holds, but for the first: the
	// policy's UID. Owner: binding-controller.
	LabelOverflowOf = "starling.io/overflow-of"
	// LabelPackageNamespace and LabelPackageRepository are put on the Bindings of packages: where the package lies, with its path in
	// AnnotationPackage. Owner: binding-controller.
	LabelPackageNamespace  = "starling.io/package-namespace"
	LabelPackageRepository = "starling.io/package-repository"
	// AnnotationPackage is put beside them: the path of the package in its Repository.
	AnnotationPackage = "starling.io/package"
	// LabelWave is put on works: "0" for Namespaces and CustomResourceDefinitions, "1" for the rest.
	LabelWave = "starling.io/wave"
	// LabelNudge is put on works that were nudged: how often. A changed label makes OCM's agent look at a work at once, where
	// it would try again only after its back-off.
	LabelNudge = "starling.io/nudge"

	// AnnotationHold on a Binding lists objects that stay in all mailboxes exactly as they are: "*" for all, or entries
	// <resource>.<group>/<namespace>/<name>, separated by commas. Owner: whoever holds.
	AnnotationHold = "starling.io/hold"
	// AnnotationRelease on a Binding that is being deleted says whose works it need not wait for: "force" for all clusters, or
	// "clusters=" and their names, separated by commas. Owner: the user.
	AnnotationRelease = "starling.io/release"

	// AnnotationApply on an object of a WDS says how clusters apply it: "update", "server-side", "server-side-force" or
	// "create-only". On a BindingPolicy, which hands it on to its Bindings, and on a Binding it is about all objects there that
	// do not say it themselves. It is not delivered, nor are the two below.
	AnnotationApply = "starling.io/apply"
	// AnnotationIgnoreFields, there too, lists fields that clusters are given when they create the object, and that are left
	// alone afterwards: JSON paths such as .spec.replicas, separated by commas or white space.
	AnnotationIgnoreFields = "starling.io/ignore-fields"
	// AnnotationOnRemoval, there too, says what becomes of the object in a cluster that it is no longer delivered to: "delete",
	// or "orphan".
	AnnotationOnRemoval = "starling.io/on-removal"

	// AnnotationSourceGeneration is put on what is delivered of an object whose status is asked for: the generation of the object in
	// the WDS and, after a slash, its UID. On a WorkStatus it says which content the copy in the cluster had. Owner: transport-controller, status-agent.
	AnnotationSourceGeneration = "starling.io/source-generation"
	// AnnotationGeneration is put on a WorkStatus beside it: the generation of the copy in the cluster. Owner: status-agent.
	AnnotationGeneration = "starling.io/generation"

	// ConditionIncomplete is the condition, in a status that is made of those of several clusters, that names the clusters which
	// have not reported; while all have, it is not there. Its reason is ReasonNotReported, and so is that of conditions which would
	// be well if all clusters had reported them.
	ConditionIncomplete = "starling.io/Incomplete"

	// AnnotationSafetyValve on a BindingPolicy, with the value "off", lets changes through that would take everything from most of
	// its clusters. See BindingPolicyConditionHeld.
	AnnotationSafetyValve = "starling.io/safety-valve"
	// AnnotationMaxRemoval on a BindingPolicy says how many of its clusters a change may empty: a number, or a percentage; the
	// default is 50%.
	AnnotationMaxRemoval = "starling.io/max-removal"
	// AnnotationReleaseHeld on a BindingPolicy lets the one change through whose token it holds. It is removed when that is done.
	AnnotationReleaseHeld = "starling.io/release-held"

	// AnnotationBinding is put on works: the whole name of their Binding.
	AnnotationBinding = "starling.io/binding"
	// AnnotationContentHash is put on works: the hash of their spec as it was written. A spec that hashes otherwise was
	// edited by somebody else.
	AnnotationContentHash = "starling.io/content-hash"
	// AnnotationKinds is put on works: the resource of each kind inside, as "Deployment.apps=deployments,…", sorted. It
	// lets a restarted transport know the identity of manifests whose API the WDS does not serve at the moment.
	AnnotationKinds = "starling.io/kinds"

	// AnnotationWithdrawn marks what stands in works for an object that is on its way out while its cluster has not said yet
	// whether it has it: nothing is applied, and no content is left of it.
	AnnotationWithdrawn = "starling.io/withdrawn"
	// AnnotationReportsFrom is put on works when an object is withdrawn, or comes back while its cluster still lists it: the
	// generation from which on a report proves that the cluster keeps account of an object.
	AnnotationReportsFrom = "starling.io/reports-from"

	// AnnotationTruncated is put on WorkStatuses whose status was shortened because it is too large: how large it is, how much
	// is reported, and where something is missing. Owner: status-agent.
	AnnotationTruncated = "starling.io/truncated"
)

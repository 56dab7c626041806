package v1alpha1

// Names that are part of the contract with users and with tools written for KubeStellar.
const (
	// BindingPolicyFinalizer keeps a BindingPolicy until its Bindings are gone. Owner:
	// binding-controller.
	BindingPolicyFinalizer = "bindingpolicy.kubestellar.io/kscontroller"
	// BindingFinalizer keeps a Binding until no mailbox contains a work of it. Owner:
	// transport-controller; the Bindings of packages are created with it.
	BindingFinalizer = "transport.kubestellar.io/object-cleanup"

	// LabelBindingName on a work is the name of its Binding. A name of more than 63 characters is
	// truncated and ends with a hash; AnnotationBinding holds the whole name. Starling decides
	// nothing by this label.
	LabelBindingName = "transport.kubestellar.io/originOwnerReferenceBindingKey"
	// LabelWDSName on a work is the configured name of the WDS. It does not identify the WDS:
	// LabelWDSUID does.
	LabelWDSName = "transport.kubestellar.io/originWdsName"

	// LabelSingletonStatus marks an object of a WDS whose status is a copy of the status in one
	// cluster. It is not delivered. Owner: binding-controller.
	LabelSingletonStatus = "managed-by.kubestellar.io/singletonstatus"
	// LabelMultiWECStatus marks an object of a WDS whose status is aggregated from several
	// clusters. It is not delivered. Owner: binding-controller.
	LabelMultiWECStatus = "managed-by.kubestellar.io/multiwecstatus"

	// LabelExecutingCount on an object of a WDS for which a policy requests status return is the
	// number of clusters whose status is requested. It is not delivered. Owner: binding-controller.
	LabelExecutingCount = "kubestellar.io/executing-count"

	// ReportNamespace of a WDS contains the CombinedStatuses of cluster-scoped objects. Owner:
	// binding-controller.
	ReportNamespace = "kubestellar-report"

	// LabelSubjectGroup and the labels below name, on a CombinedStatus, the object and the policy
	// that it is about. A name that is not a valid label value is shortened in the label; the
	// annotation of the same key holds the whole name.
	LabelSubjectGroup     = "status.kubestellar.io/api-group"
	LabelSubjectResource  = "status.kubestellar.io/resource"
	LabelSubjectNamespace = "status.kubestellar.io/namespace"
	LabelSubjectName      = "status.kubestellar.io/name"
	LabelBindingPolicy    = "status.kubestellar.io/binding-policy"

	// AnnotationExpandTemplates on an object, with the value "true", marks the strings in the
	// object as templates. They are expanded with the properties of each destination.
	AnnotationExpandTemplates = "control.kubestellar.io/expand-templates"

	// PropertiesNamespace of an ITS contains a ConfigMap for each cluster that has further
	// properties. The ConfigMap has the name of the cluster.
	PropertiesNamespace = "customization-properties"

	// AnnotationPreserve on a Service, with the value "nodeport", keeps its node ports in the
	// clusters.
	AnnotationPreserve = "control.kubestellar.io/preserve"
)

// Names that Starling adds.
const (
	// LabelWDSUID on works and WorkStatuses is the UID of the kube-system namespace of their WDS.
	// On a WorkStatus of an object that several WDSes deliver it is SeveralWDSes.
	LabelWDSUID = "starling.io/wds-uid"
	// SeveralWDSes is a value of LabelWDSUID.
	SeveralWDSes = "several"
	// AnnotationWDSUIDs on a WorkStatus of an object that several WDSes deliver lists what
	// LabelWDSUID would be for each: sorted, separated by commas. Owner: status-agent.
	AnnotationWDSUIDs = "starling.io/wds-uids"
	// LabelBindingUID on a work is the UID of its Binding.
	LabelBindingUID = "starling.io/binding-uid"
	// LabelOverflowOf on an overflow Binding is the UID of its policy. The first Binding of a
	// policy does not have it. Owner: binding-controller.
	LabelOverflowOf = "starling.io/overflow-of"
	// LabelPackageNamespace and LabelPackageRepository on the Binding of a package are the
	// namespace and the name of the Repository of the package. Owner: binding-controller.
	LabelPackageNamespace  = "starling.io/package-namespace"
	LabelPackageRepository = "starling.io/package-repository"
	// AnnotationPackage on the Binding of a package is the path of the package in its Repository.
	// Owner: binding-controller.
	AnnotationPackage = "starling.io/package"
	// LabelWave on works is "0" for Namespaces and CustomResourceDefinitions, and "1" for all other
	// objects.
	LabelWave = "starling.io/wave"
	// LabelNudge on works is the number of nudges. OCM's agent applies a work at once when a label
	// changes; without that it retries only after its back-off.
	LabelNudge = "starling.io/nudge"

	// LabelDrained on a ManagedCluster, with the value "true", makes the cluster a destination of
	// no policy and of no package, as if no selector matched it: what was delivered to it leaves,
	// and nothing new comes, until the label is removed. Owner: the user, with
	// `kubectl starling cluster drain`.
	LabelDrained = "starling.io/drained"

	// AnnotationHold on a Binding lists objects that stay unchanged in all mailboxes: "*" for all,
	// or entries <resource>.<group>/<namespace>/<name>, separated by commas. Owner: the user or
	// program that holds the objects.
	AnnotationHold = "starling.io/hold"
	// AnnotationRelease on a Binding that is being deleted lists clusters whose works the deletion
	// does not wait for: "force" for all clusters, or "clusters=" and their names, separated by
	// commas. A BindingPolicy that is being deleted hands its own on to its Bindings. Owner: the
	// user.
	AnnotationRelease = "starling.io/release"

	// AnnotationApply on an object of a WDS selects how clusters apply it: "update", "server-side",
	// "server-side-force" or "create-only". On a Binding it is the default for all objects of the
	// Binding that do not have the annotation. On a BindingPolicy it is the default for the objects
	// of its Bindings. It is not delivered. The same holds for AnnotationIgnoreFields and
	// AnnotationOnRemoval.
	AnnotationApply = "starling.io/apply"
	// AnnotationIgnoreFields lists fields that clusters set when they create the object, and leave
	// alone afterwards: paths such as .spec.replicas, separated by commas or white space.
	AnnotationIgnoreFields = "starling.io/ignore-fields"
	// AnnotationOnRemoval selects what happens to the object in a cluster when it is no longer
	// delivered there: "delete" or "orphan".
	AnnotationOnRemoval = "starling.io/on-removal"
	// AnnotationNotConverted on a custom resource, whose kind has a conversion webhook, says in
	// which version a WDS has stored it that was not converted into the version in which it was
	// read: fields may be missing. It is not delivered then. Owner: the API server of the WDS, and
	// the user, who may remove it.
	AnnotationNotConverted = "starling.io/not-converted-from"

	// AnnotationSourceGeneration on a delivered object is the generation of the object in the
	// WDS and, after a slash, its UID. The generation is 0 if the kind has no status, or no
	// generation; then a kind with a status has a hash of the content after another slash. The
	// annotation is empty if several WDSes deliver the object alike, and objects of packages
	// lack it. On a WorkStatus it identifies the object of which the cluster has a copy, and
	// its content. Owner: transport-controller, status-agent.
	AnnotationSourceGeneration = "starling.io/source-generation"
	// AnnotationGeneration on a WorkStatus is the generation of the copy in the cluster. Owner:
	// status-agent.
	AnnotationGeneration = "starling.io/generation"

	// AnnotationGone on a WorkStatus, with the value "true", says that the cluster has no copy of
	// the object, although its agent has applied a work with the object. Owner: status-agent.
	AnnotationGone = "starling.io/gone"

	// ConditionIncomplete is a condition in an aggregated status. It names the clusters that have
	// not reported, and is absent if all have. Its reason is ReasonNotReported. Conditions that
	// would be good if all clusters had reported them have the same reason.
	ConditionIncomplete = "starling.io/Incomplete"

	// AnnotationRemovalBlock on a BindingPolicy, with the value "off", allows changes that would
	// remove every object from most of its clusters. See BindingPolicyConditionRemovalBlocked.
	AnnotationRemovalBlock = "starling.io/removal-block"
	// AnnotationMaxRemoval on a BindingPolicy limits from how many of its clusters a change may
	// remove every object: a number, or a percentage. The default is 50%.
	AnnotationMaxRemoval = "starling.io/max-removal"
	// AnnotationAllowRemoval on a BindingPolicy allows the one change whose token it holds.
	// Starling removes the annotation when the change is done.
	AnnotationAllowRemoval = "starling.io/allow-removal"

	// AnnotationBinding on a work is the whole name of its Binding.
	AnnotationBinding = "starling.io/binding"
	// AnnotationContentHash on a work is the hash of its spec as Starling wrote it. A spec with
	// another hash was edited by something else.
	AnnotationContentHash = "starling.io/content-hash"
	// AnnotationKinds on a work is the resource of each kind in it, as
	// "Deployment.apps=deployments,…", sorted. After a restart, the transport identifies with it
	// manifests whose API the WDS does not serve at that time.
	AnnotationKinds = "starling.io/kinds"
	// AnnotationClaims on a work lists the objects in it that another WDS, or another source of the
	// WDS, delivers: the last parts of the names of their WorkStatuses, separated by commas. The
	// work applies nothing of them, and gets no status of them. Owner: transport-controller.
	AnnotationClaims = "starling.io/claims"

	// AnnotationWithdrawn marks the entry of a work for an object that is being removed, while the
	// cluster has not reported whether it has the object: the entry has no content and applies
	// nothing.
	AnnotationWithdrawn = "starling.io/withdrawn"
	// AnnotationLeft on a work has of each object that left it last, and of those before that its
	// cluster still lists, a hash of its name and, after a colon, the UID of the object in the WDS.
	AnnotationLeft = "starling.io/left"
	// AnnotationReportsFrom is set on a work when an object is withdrawn, or is delivered again
	// while its cluster still lists it. It is the first generation of the work from which on a
	// report proves that the cluster tracks the object.
	AnnotationReportsFrom = "starling.io/reports-from"

	// AnnotationRestored is the ID of a restoration from a backup. On the Namespace kube-system of
	// a space it is the last restoration of the space. On a work it is the one that the work came
	// with: its cluster may have older, newer or other content of it, and does nothing with
	// it, because its condition Complete is True. The transport delivers with other works, and
	// deletes it then. Owner: `starling space restore`.
	AnnotationRestored = "starling.io/restored"

	// AnnotationTruncated on a WorkStatus whose status was too large is the size of the status, the
	// size that is reported, and the paths of the truncated fields. Owner: status-agent.
	AnnotationTruncated = "starling.io/truncated"
)

package wdsserver

// actingPlugins are the admission plugins that do for the objects of a cluster what each cluster
// does itself with what it receives. All others stay: those for Namespaces, certificates and
// ValidatingAdmissionPolicies, among them Starling's own.
var actingPlugins = []string{
	"DefaultIngressClass",
	"DefaultStorageClass",
	"DefaultTolerationSeconds",
	"LimitRanger",
	"NodeDeclaredFeatureValidator",
	"PersistentVolumeClaimResize",
	"PodSecurity",
	"PodTopologyLabels",
	"Priority",
	"ResourceQuota",
	"RuntimeClass",
	"ServiceAccount",
	"TaintNodesByCondition",
}

// callingPlugins call servers that users register.
var callingPlugins = []string{
	"MutatingAdmissionWebhook",
	"ValidatingAdmissionWebhook",
}

// Controllers are those of kube-controller-manager that a WDS needs: it counts no quota, and issues
// no tokens of ServiceAccounts.
var Controllers = []string{
	"namespace-controller",
	"garbage-collector-controller",
	"serviceaccount-controller",
	"root-ca-certificate-publisher-controller",
	"clusterrole-aggregation-controller",
	"certificatesigningrequest-signing-controller",
	"certificatesigningrequest-cleaner-controller",
	"validatingadmissionpolicy-status-controller",
	// They add finalizers to claims and volumes, and only they remove them.
	"persistentvolumeclaim-protection-controller",
	"persistentvolume-protection-controller",
}

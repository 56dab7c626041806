// Package statusagent holds the names that the two sides of the status add-on share: the manager on
// the ITS and the agent of each WEC.
package statusagent

const (
	// AddonName is the name of the add-on: of its ClusterManagementAddOn, of its
	// ManagedClusterAddOn in each mailbox, and of the Lease that the agent renews.
	AddonName = "addon-status"
	// InstallNamespace is the namespace of the agent in a WEC. The hub credentials that OCM obtains
	// for it are in the Secret addon-status-hub-kubeconfig there.
	InstallNamespace = "open-cluster-management-agent-addon"
	// ServiceAccount is the agent's identity in its WEC.
	ServiceAccount = "status-agent-sa"
	// HubRole is the ClusterRole on the ITS with the rights of an agent in its own mailbox, and the
	// name of the RoleBinding there.
	HubRole = "open-cluster-management:addon-status:agent"
	// DeployWork is the name that OCM's framework gives the work with the agent's manifests.
	DeployWork = "addon-" + AddonName + "-deploy-0"
	// KindsWork is the name of the work with the agent's rights to read the kinds that were
	// delivered to its cluster.
	KindsWork = "addon-" + AddonName + "-kinds"
	// ConditionPermitted is the condition of the ManagedClusterAddOn on a cluster that the hub
	// denies: False, and True when it accepts the cluster again.
	ConditionPermitted = "Permitted"
)

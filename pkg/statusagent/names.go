// Package statusagent holds the names that the two sides of the status add-on share: the manager on the ITS and the agent of
// each WEC.
package statusagent

const (
	// AddonName is the name of the add-on: of its ClusterManagementAddOn, of its ManagedClusterAddOn in each mailbox, and of
	// the Lease that the agent renews.
	AddonName = "addon-status"
	// InstallNamespace is where the agent lives in a WEC. The hub credentials that OCM obtains for it are in the Secret
	// addon-status-hub-kubeconfig there.
	InstallNamespace = "open-cluster-management-agent-addon"
	// ServiceAccount is the agent's identity in its WEC.
	ServiceAccount = "status-agent-sa"
	// HubRole is the ClusterRole on the ITS with the rights of an agent in its own mailbox, and the name of the RoleBinding
	// there.
	HubRole = "open-cluster-management:addon-status:agent"
)

package manager

import (
	"context"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"open-cluster-management.io/addon-framework/pkg/agent"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"github.com/starlinghq/starling/pkg/statusagent"
)

// addon is what the framework asks for.
type addon struct {
	options agent.AgentAddonOptions
	image   string
	exclude []string
}

func (m *Manager) addon(ctx context.Context) *addon {
	namespace := func(*addonv1alpha1.ManagedClusterAddOn) (string, error) { return statusagent.InstallNamespace, nil }
	return &addon{
		image:   m.config.AgentImage,
		exclude: m.config.ExcludeKinds,
		options: agent.AgentAddonOptions{
			AddonName: statusagent.AddonName,
			// Requests for certificates are approved by approver, not by the framework.
			Registration: &agent.RegistrationOption{
				CSRConfigurations:     registration,
				PermissionConfig:      m.permit(ctx),
				AgentInstallNamespace: namespace,
			},
			// The agent renews a Lease in its WEC while it does its work; OCM's registration agent there tells the hub. A
			// prober of the manifests would call an agent available that does not run.
			HealthProber: &agent.HealthProber{Type: agent.HealthProberTypeLease},
		},
	}
}

// GetAgentAddonOptions implements agent.AgentAddon.
func (a *addon) GetAgentAddonOptions() agent.AgentAddonOptions { return a.options }

// Manifests implements agent.AgentAddon.
func (a *addon) Manifests(cluster *clusterv1.ManagedCluster, _ *addonv1alpha1.ManagedClusterAddOn) ([]runtime.Object, error) {
	return manifests(cluster.Name, a.image, a.exclude)
}

// registration says which certificate the agent of a cluster gets: one with its own user and its own group. The framework's
// default adds groups that all agents share; no right of ours is bound to those.
func registration(cluster *clusterv1.ManagedCluster, _ *addonv1alpha1.ManagedClusterAddOn) ([]addonv1alpha1.RegistrationConfig, error) {
	return []addonv1alpha1.RegistrationConfig{{
		SignerName: certificatesv1.KubeAPIServerClientSignerName,
		Subject:    addonv1alpha1.Subject{User: agentUser(cluster.Name), Groups: []string{agentGroup(cluster.Name)}},
	}}, nil
}

func agentUser(cluster string) string {
	return agent.DefaultUser(cluster, statusagent.AddonName, "status-agent")
}

// agentGroup is the group of the add-on's agent of that one cluster.
func agentGroup(cluster string) string {
	return "system:open-cluster-management:cluster:" + cluster + ":addon:" + statusagent.AddonName
}

package manager

import (
	"context"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"open-cluster-management.io/addon-framework/pkg/agent"
	"open-cluster-management.io/addon-framework/pkg/utils"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"github.com/starlinghq/starling/pkg/statusagent"
)

// addon implements what the framework requires.
type addon struct {
	options agent.AgentAddonOptions
	image   string
	exclude []string
	denied  func(cluster string) bool
	// management returns the ClusterManagementAddOn.
	management func() (*addonv1alpha1.ClusterManagementAddOn, error)
	// config reads an AddOnDeploymentConfig from the hub.
	config func(namespace, name string) (*addonv1alpha1.AddOnDeploymentConfig, error)
}

func (m *Manager) addon(ctx context.Context) *addon {
	namespace := func(*addonv1alpha1.ManagedClusterAddOn) (string, error) { return statusagent.InstallNamespace, nil }
	return &addon{
		image:   m.config.AgentImage,
		exclude: m.config.ExcludeKinds,
		denied:  m.inventory.denied,
		management: func() (*addonv1alpha1.ClusterManagementAddOn, error) {
			return m.inventory.managementAddons.Lister().Get(statusagent.AddonName)
		},
		config: func(namespace, name string) (*addonv1alpha1.AddOnDeploymentConfig, error) {
			return m.inventory.configs.AddOnDeploymentConfigs(namespace).Get(ctx, name, metav1.GetOptions{})
		},
		options: agent.AgentAddonOptions{
			AddonName: statusagent.AddonName,
			// Requests for certificates are approved by approver, not by the framework.
			Registration: &agent.RegistrationOption{
				CSRConfigurations:     registration,
				PermissionConfig:      m.permit(ctx),
				AgentInstallNamespace: namespace,
			},
			// The agent renews a Lease in its WEC while it works, and OCM's registration agent
			// there reports that to the hub. A probe of the manifests would report an agent as
			// available that does not run.
			HealthProber: &agent.HealthProber{Type: agent.HealthProberTypeLease},
			// The framework calls Manifests again when a config changes.
			SupportedConfigGVRs: []schema.GroupVersionResource{utils.AddOnDeploymentConfigGVR},
		},
	}
}

// GetAgentAddonOptions implements agent.AgentAddon.
func (a *addon) GetAgentAddonOptions() agent.AgentAddonOptions { return a.options }

// Manifests implements agent.AgentAddon. Without manifests, the framework has no work in the
// mailbox. On an error it leaves the work as it is, and the condition ManifestApplied has the
// error.
func (a *addon) Manifests(cluster *clusterv1.ManagedCluster, addon *addonv1alpha1.ManagedClusterAddOn) ([]runtime.Object, error) {
	if a.denied(cluster.Name) {
		return nil, nil
	}
	settings, err := a.settings(cluster, addon)
	if err != nil {
		return nil, err
	}
	return manifests(cluster.Name, settings, a.exclude)
}

// registration returns the certificate that the agent of a cluster gets: one with its own user and
// its own group. The framework's default adds groups that all agents share; we bind no rights to
// those.
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

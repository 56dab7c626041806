package manager

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"open-cluster-management.io/addon-framework/pkg/utils"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/writer"
)

// Name of the manager, in logs and metrics, and the field manager of its writes.
const Name = "status-agent-manager"

// InstallStrategy is how the add-on is installed in clusters.
type InstallStrategy string

const (
	// InstallAll installs the add-on in every cluster that the hub has accepted.
	InstallAll InstallStrategy = "all"
	// InstallManual installs it where a user creates a ManagedClusterAddOn in the mailbox of a
	// cluster.
	InstallManual InstallStrategy = "manual"
)

// Resources must be served by the ITS before the manager can start.
var Resources = []schema.GroupVersionResource{
	{Group: clusterv1.GroupName, Version: "v1", Resource: "managedclusters"},
	manifestWorks,
	clusterManagementAddOns, managedClusterAddOns, utils.AddOnDeploymentConfigGVR, controlv1alpha1.WorkStatuses,
}

var (
	clusterManagementAddOns = schema.GroupVersionResource{Group: addonv1alpha1.GroupName, Version: "v1alpha1", Resource: "clustermanagementaddons"}
	manifestWorks           = schema.GroupVersionResource{Group: workv1.GroupName, Version: "v1", Resource: "manifestworks"}
	managedClusterAddOns    = schema.GroupVersionResource{Group: addonv1alpha1.GroupName, Version: "v1alpha1", Resource: "managedclusteraddons"}
)

// Config is what a Manager is made of.
type Config struct {
	// ITS is the hub. Required.
	ITS *rest.Config
	// Install is how the add-on is installed. Required.
	Install InstallStrategy
	// AgentImage is the image of the agent. If it is empty, no Deployment is created, and the agent
	// must be run in another way.
	AgentImage string
	// ExcludeKinds are the kinds that the agents do not report, as their flag has them; none for
	// the agents' default.
	ExcludeKinds []string
}

// Manager manages the add-on on one ITS.
type Manager struct {
	config    Config
	inventory *inventory
	installer *installer
	approver  *approver
	cleaner   *cleaner
	granter   *granter
	hub       kubernetes.Interface
	writer    *writer.Writer
}

// New returns a Manager that does nothing until Run.
func New(config Config) (*Manager, error) {
	if config.ITS == nil {
		return nil, errors.New("manager: ITS is required")
	}
	if config.Install != InstallAll && config.Install != InstallManual {
		return nil, fmt.Errorf("install strategy %q is unknown: use %s or %s", config.Install, InstallAll, InstallManual)
	}
	if _, err := corestatus.ParseExcluded(config.ExcludeKinds); err != nil {
		return nil, err
	}
	m := &Manager{config: config}
	var err error
	if m.hub, err = kubernetes.NewForConfig(config.ITS); err != nil {
		return nil, fmt.Errorf("build client: %w", err)
	}
	if m.writer, err = writer.New(config.ITS, "its", Name); err != nil {
		return nil, err
	}
	if m.inventory, err = newInventory(config.ITS, m.hub); err != nil {
		return nil, err
	}
	objects, err := metadata.NewForConfig(config.ITS)
	if err != nil {
		return nil, fmt.Errorf("build client for metadata: %w", err)
	}
	if m.installer, err = newInstaller(m.inventory, objects, m.writer, config.Install); err != nil {
		return nil, err
	}
	if m.approver, err = newApprover(m.inventory, m.writer); err != nil {
		return nil, err
	}
	if m.granter, err = newGranter(config.ITS, m.inventory, m.writer, config.ExcludeKinds); err != nil {
		return nil, err
	}
	m.cleaner, err = newCleaner(m.installer, m.inventory, m.hub, objects, m.writer)
	return m, err
}

// Run works until the context ends.
func (m *Manager) Run(ctx context.Context) error {
	if err := m.startFramework(ctx); err != nil {
		return err
	}
	var running sync.WaitGroup
	running.Go(func() { m.inventory.run(ctx) })
	running.Go(func() { m.granter.works.RunWithContext(ctx) })
	running.Go(func() { m.granter.queue.Run(ctx, 1) })
	running.Go(func() { m.installer.queue.Run(ctx, 1) })
	running.Go(func() { m.approver.queue.Run(ctx, 1) })
	running.Go(func() { m.cleaner.queue.Run(ctx, 1) })
	running.Wait()
	return nil
}

// Ready returns an error that names what is not synced, nil if all is.
func (m *Manager) Ready() error { return m.installer.queue.Ready() }

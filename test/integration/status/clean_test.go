package status

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/starlinghq/starling/pkg/statusagent/manager"
	"github.com/starlinghq/starling/test/testenv"
)

// reported puts reports into a mailbox: of Starling's objects, and a stranger's.
func reported(t *testing.T, its *space, cluster string) {
	t.Helper()
	for name, labels := range map[string]map[string]any{"ours-1": ourLabels(), "ours-2": ourLabels(), "stranger": {"app": "x"}} {
		its.create(t, workStatuses, map[string]any{
			"apiVersion": "control.kubestellar.io/v1alpha1", "kind": "WorkStatus",
			"metadata": map[string]any{"name": name, "namespace": cluster, "labels": labels},
			"spec":     map[string]any{"sourceRef": map[string]any{"group": "", "resource": "pods", "namespace": "n", "name": name}},
		})
	}
}

// clean waits until the mailbox is as if the add-on had never been there, but for what is a stranger's.
func clean(t *testing.T, its *space, cluster string) {
	t.Helper()
	// The garbage collector of an API server takes up to half a minute to know a new kind.
	testenv.Eventually(t, 3*patience, func() (bool, string) {
		for _, name := range []string{"ours-1", "ours-2"} {
			if its.get(t, workStatuses, cluster, name) != nil {
				return false, "the report " + name + " is still there"
			}
		}
		if its.get(t, roleBindings, cluster, addonRole) != nil {
			return false, "the agent has its rights still"
		}
		return its.get(t, manifestWorks, cluster, "addon-addon-status-deploy-0") == nil, "the agent's manifests are still there"
	})
	if its.get(t, workStatuses, cluster, "stranger") == nil {
		t.Error("a stranger's report is gone")
	}
}

// detach does what OCM does for a cluster that leaves.
func detach(t *testing.T, its *space, cluster string) {
	t.Helper()
	its.delete(t, clusters, "", cluster)
	its.delete(t, addons, cluster, addonName)
}

func TestManagerCleansUpAfterAClusterThatLeaves(t *testing.T) {
	_, its, _ := fleet(t)
	join(t, "detached")
	join(t, "stays")
	reported(t, its, "detached")
	reported(t, its, "stays")
	detach(t, its, "detached")
	clean(t, its, "detached")
	if its.get(t, addons, "detached", addonName) != nil {
		t.Error("the add-on is installed again")
	}
	if its.get(t, workStatuses, "stays", "ours-1") == nil || its.get(t, roleBindings, "stays", addonRole) == nil {
		t.Error("another mailbox was cleaned")
	}
}

func TestManagerCleansUpWhatItMissed(t *testing.T) {
	_, its, _ := fleet(t)
	join(t, "missed")
	reported(t, its, "missed")
	stopManager(t, its)
	detach(t, its, "missed")
	testenv.Never(t, held, func() string {
		if its.get(t, workStatuses, "missed", "ours-1") == nil {
			return "the manager was not stopped"
		}
		return ""
	})
	startManager(t, its)
	clean(t, its, "missed")
}

// TestManualInstallation: the add-on is where a user wants it, and what it left goes with it.
func TestManualInstallation(t *testing.T) {
	_, its, _ := fleet(t)
	join(t, "manual-before")
	reported(t, its, "manual-before")
	stopManager(t, its)
	m, err := manager.New(manager.Config{ITS: managerConfig(its), Install: manager.InstallManual})
	if err != nil {
		t.Fatal(err)
	}
	stop := run(t, m.Run)
	for _, name := range []string{"manual-1", "manual-2"} {
		its.create(t, clusters, map[string]any{
			"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
			"metadata": map[string]any{"name": name}, "spec": map[string]any{"hubAcceptsClient": true},
		})
		its.namespace(t, name)
	}
	install := func(cluster string) {
		its.apply(t, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ManagedClusterAddOn",
			"metadata": map[string]any{"name": addonName, "namespace": cluster}, "spec": map[string]any{},
		}})
	}
	install("manual-1")
	installed := func(cluster string) {
		testenv.Eventually(t, patience, func() (bool, string) {
			return its.get(t, roleBindings, cluster, addonRole) != nil && its.get(t, manifestWorks, cluster, "addon-addon-status-deploy-0") != nil,
				"not installed in " + cluster
		})
	}
	installed("manual-1")
	testenv.Never(t, held, func() string {
		switch {
		case its.get(t, addons, "manual-2", addonName) != nil:
			return "installed where nobody wanted it"
		case its.get(t, workStatuses, "manual-before", "ours-1") == nil:
			return "the change of the strategy removed reports of a cluster where the add-on is installed"
		}
		return ""
	})
	reported(t, its, "manual-1")
	its.delete(t, addons, "manual-1", addonName)
	clean(t, its, "manual-1")
	install("manual-1")
	installed("manual-1")
	stop()
}

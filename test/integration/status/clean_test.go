package status

import (
	"fmt"
	"sync"
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

// clean waits until the mailbox is as if the add-on had never been there, but for what is a
// stranger's.
func clean(t *testing.T, its *space, cluster string) {
	t.Helper()
	// The garbage collector of an API server takes up to half a minute to know a new kind.
	testenv.Eventually(t, 3*patience, func() (bool, string) {
		for _, name := range []string{"ours-1", "ours-2"} {
			if its.Get(t, workStatuses, cluster, name) != nil {
				return false, "the report " + name + " is still there"
			}
		}
		if its.Get(t, roleBindings, cluster, addonRole) != nil {
			return false, "the agent has its rights still"
		}
		return its.Get(t, manifestWorks, cluster, "addon-addon-status-deploy-0") == nil, "the agent's manifests are still there"
	})
	if its.Get(t, workStatuses, cluster, "stranger") == nil {
		t.Error("a stranger's report is gone")
	}
}

// detach does what OCM does for a cluster that leaves.
func detach(t *testing.T, its *space, cluster string) {
	t.Helper()
	its.Delete(t, clusters, "", cluster)
	its.Delete(t, addons, cluster, addonName)
}

func TestManagerCleansUpAfterAClusterThatLeaves(t *testing.T) {
	_, its, _ := fleet(t)
	join(t, "detached")
	join(t, "stays")
	reported(t, its, "detached")
	reported(t, its, "stays")
	detach(t, its, "detached")
	clean(t, its, "detached")
	if its.Get(t, addons, "detached", addonName) != nil {
		t.Error("the add-on is installed again")
	}
	if its.Get(t, workStatuses, "stays", "ours-1") == nil || its.Get(t, roleBindings, "stays", addonRole) == nil {
		t.Error("another mailbox was cleaned")
	}
}

// TestAddOnIsNotInstalledAgain: the manager sees that the add-on of a cluster that leaves was
// deleted before it sees that the cluster was.
func TestAddOnIsNotInstalledAgain(t *testing.T) {
	_, its, _ := fleet(t)
	join(t, "seen-late")
	reported(t, its, "seen-late")
	stopManager(t, its)
	var late sync.RWMutex
	m, err := manager.New(manager.Config{ITS: testenv.LateWatches(managerConfig(its), "/managedclusters", &late), Install: manager.InstallAll})
	if err != nil {
		t.Fatal(err)
	}
	stop := testenv.Run(t, m.Run)
	testenv.Eventually(t, patience, func() (bool, string) {
		err := m.Ready()
		return err == nil, fmt.Sprint(err)
	})
	late.Lock()
	detach(t, its, "seen-late")
	testenv.Never(t, testenv.Held, func() string {
		if its.Get(t, addons, "seen-late", addonName) != nil {
			return "the add-on is installed again"
		}
		return ""
	})
	late.Unlock()
	clean(t, its, "seen-late")
	stop()
}

func TestManagerCleansUpWhatItMissed(t *testing.T) {
	_, its, _ := fleet(t)
	join(t, "missed")
	reported(t, its, "missed")
	stopManager(t, its)
	detach(t, its, "missed")
	testenv.Never(t, testenv.Held, func() string {
		if its.Get(t, workStatuses, "missed", "ours-1") == nil {
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
	stop := testenv.Run(t, m.Run)
	joins := func(name string) {
		its.create(t, clusters, map[string]any{
			"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
			"metadata": map[string]any{"name": name}, "spec": map[string]any{"hubAcceptsClient": true},
		})
	}
	for _, name := range []string{"manual-1", "manual-2", "manual-early"} {
		its.namespace(t, name)
	}
	joins("manual-1")
	joins("manual-2")
	install := func(cluster string) {
		its.ApplyObject(t, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ManagedClusterAddOn",
			"metadata": map[string]any{"name": addonName, "namespace": cluster}, "spec": map[string]any{},
		}})
	}
	install("manual-1")
	installed := func(cluster string) {
		testenv.Eventually(t, patience, func() (bool, string) {
			return its.Get(t, roleBindings, cluster, addonRole) != nil && its.Get(t, manifestWorks, cluster, "addon-addon-status-deploy-0") != nil,
				"not installed in " + cluster
		})
	}
	installed("manual-1")
	testenv.Never(t, testenv.Held, func() string {
		switch {
		case its.Get(t, addons, "manual-2", addonName) != nil:
			return "installed where nobody wanted it"
		case its.Get(t, workStatuses, "manual-before", "ours-1") == nil:
			return "the change of the strategy removed reports of a cluster where the add-on is installed"
		}
		return ""
	})
	reported(t, its, "manual-1")
	its.Delete(t, addons, "manual-1", addonName)
	clean(t, its, "manual-1")
	install("manual-1")
	installed("manual-1")

	// It may be there before its cluster.
	install("manual-early")
	testenv.Eventually(t, patience, func() (bool, string) {
		return len(its.Get(t, addons, "manual-early", addonName).GetOwnerReferences()) > 0, "not owned"
	})
	testenv.Never(t, testenv.Held, func() string {
		if its.Get(t, roleBindings, "manual-early", addonRole) != nil {
			return "rights in a mailbox without a cluster"
		}
		return ""
	})
	joins("manual-early")
	installed("manual-early")
	stop()
}

// TestDenialRevokes: a cluster that the hub no longer accepts has neither rights, nor work, nor
// reports of ours, at once, and the add-on says so. When it is accepted again, all is back.
func TestDenialRevokes(t *testing.T) {
	_, its, _ := fleet(t)
	agent, _ := join(t, "denied")
	join(t, "kept")
	reported(t, its, "denied")
	reported(t, its, "kept")
	accept := func(accepted bool) {
		its.patch(t, clusters, "", "denied", map[string]any{"spec": map[string]any{"hubAcceptsClient": accepted}})
	}
	condition := func() string {
		addon := its.Get(t, addons, "denied", addonName)
		conditions, _, _ := unstructured.NestedSlice(addon.Object, "status", "conditions")
		for _, c := range conditions {
			if c := c.(map[string]any); c["type"] == "Permitted" {
				return c["status"].(string) + " " + c["reason"].(string)
			}
		}
		return ""
	}
	if got := condition(); got != "" {
		t.Errorf("condition of an accepted cluster: %s", got)
	}
	accept(false)
	clean(t, its, "denied")
	testenv.Eventually(t, patience, func() (bool, string) {
		got := condition()
		return got == "False ClusterDenied", "condition " + got
	})
	if got := rights(t, its, agent, "denied"); len(got) > 0 {
		t.Errorf("rights of the agent of a denied cluster: %v", got)
	}
	testenv.Never(t, testenv.Held, func() string {
		switch {
		case its.Get(t, roleBindings, "denied", addonRole) != nil:
			return "the rights are back"
		case its.Get(t, manifestWorks, "denied", "addon-addon-status-deploy-0") != nil:
			return "the work is back"
		}
		return ""
	})
	if its.Get(t, workStatuses, "kept", "ours-1") == nil || its.Get(t, roleBindings, "kept", addonRole) == nil {
		t.Error("another mailbox was cleaned")
	}
	accept(true)
	testenv.Eventually(t, patience, func() (bool, string) {
		return its.Get(t, roleBindings, "denied", addonRole) != nil && its.Get(t, manifestWorks, "denied", "addon-addon-status-deploy-0") != nil &&
			condition() == "True ClusterAccepted", "not installed again; condition " + condition()
	})
}

package localfleet

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/starlinghq/starling/pkg/install/manifest"
)

// kwokAccount is kwok's identity in a WEC.
var kwokAccount = manifest.Account{Namespace: "kube-system", Name: "kwok"}

// nodeObjects returns a fake Node, and kwok's ServiceAccount with its rights.
func nodeObjects() []*unstructured.Unstructured {
	node := manifest.New("v1", "Node", "", "node1")
	node.SetLabels(map[string]string{
		"kubernetes.io/hostname": "node1", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "type": "kwok",
	})
	node.SetAnnotations(map[string]string{"kwok.x-k8s.io/node": "fake"})
	return append(kwokAccount.Objects("starling:kwok", "starling:kwok",
		manifest.Rule("", "nodes", "get", "list", "watch"),
		manifest.Rule("", "nodes/status", "patch", "update"),
		manifest.Rule("", "pods", "get", "list", "watch", "patch", "update", "delete"),
		manifest.Rule("", "pods/status", "patch", "update"),
		manifest.Rule("", "events", "create", "patch", "update"),
		manifest.Rule("coordination.k8s.io", "leases", "get", "list", "watch", "create", "patch", "update"),
	), node)
}

// startNodes creates a fake node and starts a scheduler in a WEC, so that Deployments become
// Available there.
func (f *Fleet) startNodes(ctx context.Context, wec string) error {
	scheduler := f.component(wec, programScheduler, append(f.servingFlags(wec, programScheduler, "component"),
		"--kubeconfig="+f.layout.ComponentKubeconfig(wec, programScheduler),
		"--leader-elect=false",
		"--profiling=false",
		"--v=1",
	)...)
	if err := f.supervisor.ensure(ctx, scheduler); err != nil {
		return err
	}
	if err := f.applyAll(ctx, wec, nodeObjects()); err != nil {
		return err
	}
	// kwok has no configuration: by default nodes and pods are ready at once.
	kwok := f.component(wec, programKwok,
		"--kubeconfig="+f.layout.ComponentKubeconfig(wec, programKwok),
		"--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
		"--node-lease-duration-seconds=40",
		"--server-address="+f.state.address(componentName(wec, programKwok)),
	)
	if err := f.runAs(ctx, kwokAccount, kwok); err != nil {
		return err
	}
	return f.waitReady(ctx, scheduler.Name)
}

package space

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// programKwok plays the kubelet: it says that the pods of its nodes run.
const programKwok = "kwok"

// kwokAccount is kwok's identity in a WEC.
var kwokAccount = account{"kube-system", "kwok"}

// nodeObjects are a fake node and kwok's identity with the rights that it needs for it.
func nodeObjects() []*unstructured.Unstructured {
	const name = "starling:kwok"
	node := newObject("v1", "Node", "", "node1")
	node.SetLabels(map[string]string{
		"kubernetes.io/hostname": "node1", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "type": "kwok",
	})
	node.SetAnnotations(map[string]string{"kwok.x-k8s.io/node": "fake"})
	role := newObject("rbac.authorization.k8s.io/v1", "ClusterRole", "", name)
	role.Object["rules"] = []any{
		rule("", "nodes", "get", "list", "watch"),
		rule("", "nodes/status", "patch", "update"),
		rule("", "pods", "get", "list", "watch", "patch", "update", "delete"),
		rule("", "pods/status", "patch", "update"),
		rule("", "events", "create", "patch", "update"),
		rule("coordination.k8s.io", "leases", "get", "list", "watch", "create", "patch", "update"),
	}
	binding := newObject("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "", name)
	binding.Object["roleRef"] = map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
	binding.Object["subjects"] = []any{map[string]any{
		"kind": "ServiceAccount", "namespace": kwokAccount.namespace, "name": kwokAccount.name,
	}}
	return []*unstructured.Unstructured{newObject("v1", "ServiceAccount", kwokAccount.namespace, kwokAccount.name), role, binding, node}
}

// startNodes gives a WEC a fake node and a scheduler, so that what is deployed there becomes
// available.
func (f *Fleet) startNodes(ctx context.Context, client *supervisorClient, wec string) error {
	scheduler, err := f.scheduler(wec)
	if err != nil {
		return err
	}
	if err := client.ensure(ctx, &scheduler); err != nil {
		return err
	}
	if err := f.applyAll(ctx, wec, nodeObjects()); err != nil {
		return err
	}
	if err := f.writeTokenKubeconfig(ctx, wec, programKwok, kwokAccount); err != nil {
		return err
	}
	kwok, err := f.kwok(wec)
	if err != nil {
		return err
	}
	if err := f.run(ctx, client, &kwok); err != nil {
		return err
	}
	return f.waitReady(ctx, client, scheduler.Name)
}

// scheduler describes the kube-scheduler of a WEC.
func (f *Fleet) scheduler(wec string) (Component, error) {
	address, err := f.state.address(componentName(wec, programScheduler))
	if err != nil {
		return Component{}, err
	}
	p := f.pki(wec)
	c := f.self(wec, programScheduler,
		"--kubeconfig="+f.layout.ComponentKubeconfig(wec, programScheduler),
		"--leader-elect=false",
		"--bind-address="+loopback,
		"--secure-port="+portOf(address),
		"--tls-cert-file="+p.crt("component"),
		"--tls-private-key-file="+p.key("component"),
		"--profiling=false",
		"--v=1",
	)
	c.Address = address
	c.Env = f.baseEnv(50, "200MiB")
	c.Probe = Probe{URL: "https://" + address + "/readyz", CA: p.crt("ca")}
	return c, nil
}

// kwok describes kwok for a WEC. Without a configuration it takes the behaviour that is built in:
// nodes and pods are ready at once.
func (f *Fleet) kwok(wec string) (Component, error) {
	binary, err := f.program(programKwok)
	if err != nil {
		return Component{}, err
	}
	name := componentName(wec, programKwok)
	address, err := f.state.address(name)
	if err != nil {
		return Component{}, err
	}
	return Component{
		Name: name, Path: binary, Address: address,
		Args: []string{
			"--kubeconfig=" + f.layout.ComponentKubeconfig(wec, programKwok),
			"--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
			"--node-lease-duration-seconds=40",
			"--server-address=" + address,
		},
		Env:   f.baseEnv(50, "150MiB"),
		Probe: Probe{URL: fmt.Sprintf("http://%s/healthz", address)},
	}, nil
}

package space

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const (
	programRegistration = "ocm-registration"
	programAddonManager = "ocm-addon-manager"
	programWebhook      = "ocm-webhook"
	programKlusterlet   = "klusterlet"
)

// hubAccounts are the identities of OCM's hub processes, in namespaceOCMHub. The rights that OCM
// gives its two webhooks are the same, so one process with one of the two identities serves both.
var hubAccounts = map[string]string{
	programRegistration: "registration-controller-sa",
	programAddonManager: "addon-manager-controller-sa",
	programWebhook:      "registration-webhook-sa",
}

// bootstrapAccount is the identity with which a new WEC asks to join.
var bootstrapAccount = account{namespaceOCM, "agent-registration-bootstrap"}

// bootstrapObjects are the bootstrap identity with the rights that OCM documents for it: to create
// a ManagedCluster, to ask for a certificate, and to join a cluster set. It may not accept a
// cluster, nor approve a certificate. OCM also grants reading all ConfigMaps, for clients that look
// for the hub's address; ours know it.
func bootstrapObjects() []*unstructured.Unstructured {
	const name = "open-cluster-management:bootstrap"
	role := newObject("rbac.authorization.k8s.io/v1", "ClusterRole", "", name)
	role.Object["rules"] = []any{
		rule("certificates.k8s.io", "certificatesigningrequests", "create", "get", "list", "watch"),
		rule("cluster.open-cluster-management.io", "managedclusters", "create", "get", "list", "watch"),
		rule("cluster.open-cluster-management.io", "managedclustersets/join", "create"),
	}
	binding := newObject("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "", name+":agent-registration")
	binding.Object["roleRef"] = map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
	binding.Object["subjects"] = []any{map[string]any{
		"kind": "ServiceAccount", "namespace": bootstrapAccount.namespace, "name": bootstrapAccount.name,
	}}
	return []*unstructured.Unstructured{
		newObject("v1", "ServiceAccount", bootstrapAccount.namespace, bootstrapAccount.name), role, binding,
	}
}

func rule(group, resource string, verbs ...any) map[string]any {
	return map[string]any{"apiGroups": []any{group}, "resources": []any{resource}, "verbs": verbs}
}

// hub is the ITS that the WECs join.
func (s *State) hub() string { return s.ITS[0] }

// startHub installs OCM in the ITS and starts its processes. The webhooks are in force before
// anything can ask to join.
func (f *Fleet) startHub(ctx context.Context, client *supervisorClient) error {
	hub := f.state.hub()
	url, err := f.state.address(componentName(hub, programWebhook))
	if err != nil {
		return err
	}
	ca, err := os.ReadFile(f.pki(hub).crt("ca"))
	if err != nil {
		return err
	}
	objs, err := f.renderHub("https://"+url, ca)
	if err != nil {
		return err
	}
	if err := f.applyAll(ctx, hub, append(objs, bootstrapObjects()...)); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for program, name := range hubAccounts {
		group.Go(func() error {
			if err := f.writeTokenKubeconfig(ctx, hub, program, account{namespaceOCMHub, name}); err != nil {
				return err
			}
			c, err := f.hubComponent(program)
			if err != nil {
				return err
			}
			return f.run(ctx, client, &c)
		})
	}
	return group.Wait()
}

// hubComponent describes one of OCM's processes on the hub.
func (f *Fleet) hubComponent(program string) (Component, error) {
	hub := f.state.hub()
	if program == programWebhook {
		return f.webhookComponent(hub)
	}
	return f.ocmComponent(hub, program, namespaceOCMHub)
}

// ocmComponent describes a process of OCM. What it serves, and with which certificate, stands in a
// file; without one each start would make keys of its own and leave them in the temporary directory.
func (f *Fleet) ocmComponent(space, program, namespace string, args ...string) (Component, error) {
	address, err := f.state.address(componentName(space, program))
	if err != nil {
		return Component{}, err
	}
	p := f.pki(space)
	config, err := yaml.Marshal(map[string]any{
		"apiVersion": "operator.openshift.io/v1alpha1",
		"kind":       "GenericOperatorConfig",
		"servingInfo": map[string]any{
			"bindAddress": address, "certFile": p.crt("component"), "keyFile": p.key("component"),
		},
	})
	if err != nil {
		return Component{}, err
	}
	file := filepath.Join(f.layout.Space(space), program+".yaml")
	if err := writeFile(file, config); err != nil {
		return Component{}, fmt.Errorf("write the configuration of %s: %w", program, err)
	}
	c := f.self(space, program, append([]string{
		"--config=" + file,
		"--kubeconfig=" + f.layout.ComponentKubeconfig(space, program),
		"--namespace=" + namespace,
		"--listen=" + address,
		"--disable-leader-election",
		"--kube-api-qps=200", "--kube-api-burst=400",
	}, args...)...)
	c.Address = address
	c.Env = f.baseEnv(80, "200MiB")
	c.Probe = Probe{URL: "https://" + address + "/healthz", CA: p.crt("ca")}
	return c, nil
}

func (f *Fleet) webhookComponent(space string) (Component, error) {
	address, err := f.state.address(componentName(space, programWebhook))
	if err != nil {
		return Component{}, err
	}
	p := f.pki(space)
	c := f.self(space, programWebhook,
		"--kubeconfig="+f.layout.ComponentKubeconfig(space, programWebhook),
		"--listen="+address,
		"--cert="+p.crt("component"),
		"--key="+p.key("component"),
	)
	c.Address = address
	c.Env = f.baseEnv(80, "150MiB")
	c.Probe = Probe{TCP: address}
	return c, nil
}

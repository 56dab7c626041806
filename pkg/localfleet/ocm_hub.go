package localfleet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// hubAccounts are the identities of OCM's hub components. OCM grants its two webhooks the same
// rights, so one process with one of the two identities serves both.
var hubAccounts = map[string]account{
	programRegistration: {namespaceOCMHub, "registration-controller-sa"},
	programAddonManager: {namespaceOCMHub, "addon-manager-controller-sa"},
	programWebhook:      {namespaceOCMHub, "registration-webhook-sa"},
}

// bootstrapAccount is the identity with which a new WEC requests to join.
var bootstrapAccount = account{namespaceOCM, "agent-registration-bootstrap"}

// bootstrapObjects returns the bootstrap identity with the rights that OCM documents: to create a
// ManagedCluster, to request a certificate, and to join a cluster set. It must not accept a cluster
// or approve a certificate. OCM also grants reading all ConfigMaps, to clients that need to find
// the hub's address. These agents know the address.
func bootstrapObjects() []*unstructured.Unstructured {
	const role = "open-cluster-management:bootstrap"
	return accountObjects(bootstrapAccount, role, role+":agent-registration",
		rule("certificates.k8s.io", "certificatesigningrequests", "create", "get", "list", "watch"),
		rule("cluster.open-cluster-management.io", "managedclusters", "create", "get", "list", "watch"),
		rule("cluster.open-cluster-management.io", "managedclustersets/join", "create"),
	)
}

// accountObjects returns a ServiceAccount and the ClusterRole and ClusterRoleBinding with its
// rights.
func accountObjects(a account, roleName, bindingName string, rules ...any) []*unstructured.Unstructured {
	role := newObject("rbac.authorization.k8s.io/v1", "ClusterRole", "", roleName)
	role.Object["rules"] = rules
	binding := newObject("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "", bindingName)
	binding.Object["roleRef"] = map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": roleName}
	binding.Object["subjects"] = []any{map[string]any{"kind": "ServiceAccount", "namespace": a.namespace, "name": a.name}}
	return []*unstructured.Unstructured{newObject("v1", "ServiceAccount", a.namespace, a.name), role, binding}
}

func rule(group, resource string, verbs ...any) any {
	return map[string]any{"apiGroups": []any{group}, "resources": []any{resource}, "verbs": verbs}
}

// hub returns the ITS that the WECs join.
func (s *State) hub() string { return s.ITS[0] }

// startHub installs OCM in the ITS and starts its components. The webhooks are configured before a
// cluster can request to join.
func (f *Fleet) startHub(ctx context.Context) error {
	hub := f.state.hub()
	ca, err := os.ReadFile(f.pki(hub).crt("ca"))
	if err != nil {
		return err
	}
	objs, err := f.renderHub("https://"+f.state.address(componentName(hub, programWebhook)), ca)
	if err != nil {
		return err
	}
	if err := f.applyAll(ctx, hub, append(objs, bootstrapObjects()...)); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for program, identity := range hubAccounts {
		group.Go(func() error {
			if program == programWebhook {
				return f.runAs(ctx, identity, f.webhooks(hub))
			}
			c, err := f.ocmComponent(hub, program, namespaceOCMHub)
			if err != nil {
				return err
			}
			return f.runAs(ctx, identity, c)
		})
	}
	return group.Wait()
}

// ocmComponent returns a component of OCM, and writes its configuration file with its address and
// certificate. Without such a file, OCM creates a new key at each start and leaves it in the
// temporary directory.
func (f *Fleet) ocmComponent(space, program, namespace string, args ...string) (*Component, error) {
	address, p := f.state.address(componentName(space, program)), f.pki(space)
	config, err := yaml.Marshal(map[string]any{
		"apiVersion": "operator.openshift.io/v1alpha1",
		"kind":       "GenericOperatorConfig",
		"servingInfo": map[string]any{
			"bindAddress": address, "certFile": p.crt("component"), "keyFile": p.key("component"),
		},
	})
	if err != nil {
		return nil, err
	}
	file := filepath.Join(f.layout.Space(space), program+".yaml")
	if err := writeFile(file, config); err != nil {
		return nil, fmt.Errorf("write the configuration of %q: %w", program, err)
	}
	return f.component(space, program, append([]string{
		"--config=" + file,
		"--kubeconfig=" + f.layout.ComponentKubeconfig(space, program),
		"--namespace=" + namespace,
		"--listen=" + address,
		"--disable-leader-election",
		"--kube-api-qps=200", "--kube-api-burst=400",
	}, args...)...), nil
}

// webhooks returns the component that serves OCM's webhooks.
func (f *Fleet) webhooks(hub string) *Component {
	p := f.pki(hub)
	return f.component(hub, programWebhook,
		"--kubeconfig="+f.layout.ComponentKubeconfig(hub, programWebhook),
		"--listen="+f.state.address(componentName(hub, programWebhook)),
		"--cert="+p.crt("component"),
		"--key="+p.key("component"),
	)
}

package localfleet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/yaml"

	"github.com/starlinghq/starling/pkg/install/manifest"
	"github.com/starlinghq/starling/pkg/install/ocm"
)

// hubAccounts are the identities of OCM's hub components.
var hubAccounts = map[string]manifest.Account{
	programRegistration: ocm.RegistrationAccount,
	programAddonManager: ocm.AddonManagerAccount,
	programWebhook:      ocm.WebhookAccount,
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
	objs, err := ocm.Hub(f.cfg.OCM, "https://"+f.state.address(componentName(hub, programWebhook)), ca)
	if err != nil {
		return err
	}
	if err := f.applyAll(ctx, hub, append(objs, ocm.Bootstrap()...)); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for program, identity := range hubAccounts {
		group.Go(func() error {
			if program == programWebhook {
				return f.runAs(ctx, identity, f.webhooks(hub))
			}
			c, err := f.ocmComponent(hub, program, ocm.NamespaceHub)
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

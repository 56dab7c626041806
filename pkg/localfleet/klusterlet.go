package localfleet

import (
	"context"
	"fmt"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/starlinghq/starling/pkg/install/ocm"
)

// startKlusterlet installs OCM's manifests in a WEC and starts OCM's agent. The agent requests to
// join the hub with the bootstrap token. When it is accepted, it stores its own certificate in the
// WEC.
func (f *Fleet) startKlusterlet(ctx context.Context, wec string) error {
	hub := f.state.hub()
	objs, _, err := ocm.Klusterlet(f.cfg.OCM, f.state.WEC(wec).WorkRights)
	if err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return f.applyAll(groupCtx, wec, objs) })
	var token string
	group.Go(func() error {
		token, err = f.requestToken(groupCtx, hub, ocm.BootstrapAccount, bootstrapToken)
		return err
	})
	if err := group.Wait(); err != nil {
		return err
	}
	if err := f.writeKubeconfig(wec, hub, "bootstrap", &clientcmdapi.AuthInfo{Token: token}); err != nil {
		return err
	}
	hubDir := filepath.Join(f.layout.Space(wec), "hub-kubeconfig")
	c, err := f.ocmComponent(wec, programKlusterlet, ocm.NamespaceAgent, append(ocm.AgentFlags(wec),
		"--agent-id=starling",
		"--spoke-kubeconfig="+f.layout.ComponentKubeconfig(wec, programKlusterlet),
		"--bootstrap-kubeconfig="+f.layout.ComponentKubeconfig(wec, "bootstrap"),
		"--hub-kubeconfig-dir="+hubDir,
		"--workload-source-config="+filepath.Join(hubDir, "kubeconfig"),
		// OCM's default is longer: it suits thousands of clusters.
		"--cluster-healthcheck-period=15s",
	)...)
	if err != nil {
		return fmt.Errorf("configure OCM's agent of cluster %q: %w", wec, err)
	}
	return f.runAs(ctx, ocm.KlusterletAccount, c)
}

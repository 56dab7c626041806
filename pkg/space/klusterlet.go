package space

import (
	"context"
	"fmt"
	"path/filepath"

	"golang.org/x/sync/errgroup"
)

// klusterletAccount is the identity of OCM's agent in a WEC: as in OCM's singleton mode, one for
// both halves of the agent.
const klusterletAccount = "klusterlet-work-sa"

// startKlusterlet installs what OCM's agent needs in a WEC and starts the agent. It asks the hub
// to join with the bootstrap token; once accepted it keeps its own certificate in the WEC.
func (f *Fleet) startKlusterlet(ctx context.Context, client *supervisorClient, wec string) error {
	hub := f.state.hub()
	objs, err := f.renderKlusterlet()
	if err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return f.applyAll(groupCtx, wec, objs) })
	var token string
	group.Go(func() error {
		token, err = f.requestToken(groupCtx, hub, bootstrapAccount, bootstrapToken)
		return err
	})
	if err := group.Wait(); err != nil {
		return err
	}
	if err := f.writeForeignKubeconfig(wec, hub, "bootstrap", credentials{token: token}); err != nil {
		return err
	}
	if err := f.writeTokenKubeconfig(ctx, wec, programKlusterlet, account{namespaceOCMAgent, klusterletAccount}); err != nil {
		return err
	}
	c, err := f.klusterlet(wec)
	if err != nil {
		return err
	}
	return f.run(ctx, client, &c)
}

// klusterlet describes OCM's agent of a WEC.
func (f *Fleet) klusterlet(wec string) (Component, error) {
	hubDir := filepath.Join(f.layout.Space(wec), "hub-kubeconfig")
	c, err := f.ocmComponent(wec, programKlusterlet, namespaceOCMAgent,
		"--spoke-cluster-name="+wec,
		"--agent-id=starling",
		"--spoke-kubeconfig="+f.layout.ComponentKubeconfig(wec, programKlusterlet),
		"--bootstrap-kubeconfig="+f.layout.ComponentKubeconfig(wec, "bootstrap"),
		"--hub-kubeconfig-dir="+hubDir,
		"--workload-source-driver=kube",
		"--workload-source-config="+filepath.Join(hubDir, "kubeconfig"),
		"--hub-kube-api-qps=200", "--hub-kube-api-burst=400",
		// OCM's defaults are for thousands of clusters.
		"--cluster-healthcheck-period=15s",
		"--status-sync-interval=5s",
	)
	if err != nil {
		return Component{}, fmt.Errorf("describe the agent of %s: %w", wec, err)
	}
	return c, nil
}

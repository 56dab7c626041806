package localfleet

import (
	"context"
	"fmt"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// klusterletAccount is the identity of OCM's agent in a WEC. As in OCM's singleton mode, the
// registration agent and the work agent share it.
var klusterletAccount = account{namespaceOCMAgent, "klusterlet-work-sa"}

// startKlusterlet installs OCM's manifests in a WEC and starts OCM's agent. The agent requests to
// join the hub with the bootstrap token. When it is accepted, it stores its own certificate in the
// WEC.
func (f *Fleet) startKlusterlet(ctx context.Context, wec string) error {
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
	if err := f.writeKubeconfig(wec, hub, "bootstrap", &clientcmdapi.AuthInfo{Token: token}); err != nil {
		return err
	}
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
		// Towards the WEC, where the default is 50: when an object of a work changes, the agent
		// reads all of them. It also reads all objects in each status-sync-interval, and an edit
		// waits for these requests.
		"--kube-api-qps=1000", "--kube-api-burst=2000",
		"--status-sync-interval=30s",
		// OCM's default is longer: it suits thousands of clusters.
		"--cluster-healthcheck-period=15s",
	)
	if err != nil {
		return fmt.Errorf("configure OCM's agent of cluster %q: %w", wec, err)
	}
	return f.runAs(ctx, klusterletAccount, c)
}

package localfleet

import (
	"context"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"github.com/starlinghq/starling/pkg/install/chart"
	"github.com/starlinghq/starling/pkg/install/manifest"
	"github.com/starlinghq/starling/pkg/install/packages"
)

// startPackages starts the package-server of a WDS, and registers its APIService when it is ready.
func (f *Fleet) startPackages(ctx context.Context, wds string) error {
	server := f.component(wds, programPackages, append(f.servingFlags(wds, programPackages, programPackages),
		"--wds-kubeconfig="+f.layout.ComponentKubeconfig(wds, programPackages),
		"--wds-name="+wds,
		"--permit-port-sharing",
		"--leader-elect=false",
	)...)
	if err := f.runAs(ctx, manifest.Account{Namespace: chart.Namespace, Name: programPackages}, server); err != nil {
		return err
	}
	return f.registerPackages(ctx, wds)
}

// registerPackages creates the APIService of packages in a WDS, and blocks until it works. The
// package-server runs on this machine and not in the space.
func (f *Fleet) registerPackages(ctx context.Context, wds string) error {
	ca, err := os.ReadFile(f.pki(wds).crt("ca"))
	if err != nil {
		return err
	}
	server := packages.Server{Host: "localhost", Port: f.state.Ports[componentName(wds, programPackages)], CA: ca}
	if err := f.applyAll(ctx, wds, server.Objects()); err != nil {
		return err
	}
	return f.waitPackages(ctx, wds)
}

// waitPackages blocks until the API server forwards requests for packages.
func (f *Fleet) waitPackages(ctx context.Context, wds string) error {
	client, err := dynamic.NewForConfig(f.adminConfig(wds))
	if err != nil {
		return err
	}
	var last error
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, last = client.Resource(packages.Revisions).List(ctx, metav1.ListOptions{Limit: 1})
		return last == nil, nil
	})
	if err != nil && last != nil && ctx.Err() == nil {
		err = f.withLog(fmt.Errorf("list packages in space %q: %w", wds, last), componentName(wds, programPackages))
	}
	return err
}

// unregisterPackages deletes the APIService of packages in a WDS. While an APIService is
// unavailable, no Namespace can be deleted.
func (f *Fleet) unregisterPackages(ctx context.Context, wds string) error {
	client, err := dynamic.NewForConfig(f.adminConfig(wds))
	if err != nil {
		return err
	}
	return ignoreNotFound(client.Resource(packages.APIServices).Delete(ctx, packages.APIService, metav1.DeleteOptions{}))
}

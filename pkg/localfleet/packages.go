package localfleet

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
)

// packagesService is the host name that the API server verifies when it forwards requests for
// packages.
const packagesService = programPackages + "." + releaseNamespace + ".svc"

var apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

// packagesAPI is the APIService of porch.kpt.dev.
const packagesAPI = "v1alpha1.porch.kpt.dev"

// startPackages starts the package-server of a WDS, and registers its APIService when it is ready.
func (f *Fleet) startPackages(ctx context.Context, wds string) error {
	server := f.component(wds, programPackages, append(f.servingFlags(wds, programPackages, programPackages),
		"--wds-kubeconfig="+f.layout.ComponentKubeconfig(wds, programPackages),
		"--wds-name="+wds,
		"--permit-port-sharing",
		"--leader-elect=false",
	)...)
	if err := f.runAs(ctx, account{releaseNamespace, programPackages}, server); err != nil {
		return err
	}
	return f.registerPackages(ctx, wds)
}

// registerPackages creates the APIService of packages in a WDS, and blocks until it works. The
// package-server runs on this machine and not in the space, so its Service is an ExternalName.
func (f *Fleet) registerPackages(ctx context.Context, wds string) error {
	ca, err := os.ReadFile(f.pki(wds).crt("ca"))
	if err != nil {
		return err
	}
	service := newObject("v1", "Service", releaseNamespace, programPackages)
	service.Object["spec"] = map[string]any{"type": "ExternalName", "externalName": "localhost"}
	api := newObject("apiregistration.k8s.io/v1", "APIService", "", packagesAPI)
	api.Object["spec"] = map[string]any{
		"group": "porch.kpt.dev", "version": "v1alpha1",
		// Above the priorities of CRDs, which are 100: a CRD for another version of the group must
		// not change which version kubectl uses.
		"groupPriorityMinimum": int64(1000), "versionPriority": int64(200),
		"caBundle": base64.StdEncoding.EncodeToString(ca),
		"service":  map[string]any{"namespace": releaseNamespace, "name": programPackages, "port": int64(f.state.Ports[componentName(wds, programPackages)])},
	}
	if err := f.applyAll(ctx, wds, []*unstructured.Unstructured{service, api}); err != nil {
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
	revisions := schema.GroupVersionResource{Group: "porch.kpt.dev", Version: "v1alpha1", Resource: "packagerevisions"}
	var last error
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, last = client.Resource(revisions).List(ctx, metav1.ListOptions{Limit: 1})
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
	return ignoreNotFound(client.Resource(apiServices).Delete(ctx, packagesAPI, metav1.DeleteOptions{}))
}

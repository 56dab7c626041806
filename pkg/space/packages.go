package space

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

// programPackages serves packages in each WDS.
const programPackages = "package-server"

// packagesService is what the API server looks for when it forwards requests for packages.
const packagesService = programPackages + "." + releaseNamespace + ".svc"

var apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

// packagesAPI is the APIService of porch.kpt.dev.
const packagesAPI = "v1alpha1.porch.kpt.dev"

// startPackages starts the package-server of a WDS and, when it is ready, registers it.
func (f *Fleet) startPackages(ctx context.Context, client *supervisorClient, wds string) error {
	if err := f.writeTokenKubeconfig(ctx, wds, programPackages, account{releaseNamespace, programPackages}); err != nil {
		return err
	}
	c, err := f.packageServer(wds)
	if err != nil {
		return err
	}
	if err := f.run(ctx, client, &c); err != nil {
		return err
	}
	return f.registerPackages(ctx, wds)
}

// packageServer describes the package-server of a WDS.
func (f *Fleet) packageServer(wds string) (Component, error) {
	binary, err := f.program(programPackages)
	if err != nil {
		return Component{}, err
	}
	name := componentName(wds, programPackages)
	address, err := f.state.address(name)
	if err != nil {
		return Component{}, err
	}
	p := f.pki(wds)
	return Component{
		Name: name, Path: binary, Address: address,
		Args: []string{
			"--wds-kubeconfig=" + f.layout.ComponentKubeconfig(wds, programPackages),
			"--wds-name=" + wds,
			"--bind-address=" + loopback,
			"--secure-port=" + portOf(address),
			"--permit-port-sharing",
			"--tls-cert-file=" + p.crt(programPackages),
			"--tls-private-key-file=" + p.key(programPackages),
			"--leader-elect=false",
		},
		Env:   f.baseEnv(100, "300MiB"),
		Probe: Probe{URL: fmt.Sprintf("https://%s/readyz", address), CA: p.crt("ca")},
	}, nil
}

// registerPackages tells the API server of a WDS where packages are served. It runs on this machine and not in the space, so there is
// nothing behind the Service but a name.
func (f *Fleet) registerPackages(ctx context.Context, wds string) error {
	port, err := f.state.port(componentName(wds, programPackages))
	if err != nil {
		return err
	}
	ca, err := os.ReadFile(f.pki(wds).crt("ca"))
	if err != nil {
		return err
	}
	service := newObject("v1", "Service", releaseNamespace, programPackages)
	service.Object["spec"] = map[string]any{"type": "ExternalName", "externalName": "localhost"}
	api := newObject("apiregistration.k8s.io/v1", "APIService", "", packagesAPI)
	api.Object["spec"] = map[string]any{
		"group": "porch.kpt.dev", "version": "v1alpha1",
		// Above those of CRDs, which have 100: whoever adds one for another version does not change what kubectl reads.
		"groupPriorityMinimum": int64(1000), "versionPriority": int64(200),
		"caBundle": base64.StdEncoding.EncodeToString(ca),
		"service":  map[string]any{"namespace": releaseNamespace, "name": programPackages, "port": int64(port)},
	}
	if err := f.applyAll(ctx, wds, []*unstructured.Unstructured{service, api}); err != nil {
		return err
	}
	return f.waitPackages(ctx, wds)
}

// waitPackages waits until the API server forwards requests for packages.
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
		err = f.withLog(fmt.Errorf("ask %s for packages: %w", wds, last), componentName(wds, programPackages))
	}
	return err
}

// unregisterPackages tells the API server of a WDS that no packages are served: while it knows of an API that nobody serves, no
// namespace can be deleted.
func (f *Fleet) unregisterPackages(ctx context.Context, wds string) error {
	client, err := dynamic.NewForConfig(f.adminConfig(wds))
	if err != nil {
		return err
	}
	return ignoreNotFound(client.Resource(apiServices).Delete(ctx, packagesAPI, metav1.DeleteOptions{}))
}

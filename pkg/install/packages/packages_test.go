package packages_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/starlinghq/starling/pkg/install/manifest"
	"github.com/starlinghq/starling/pkg/install/packages"
)

func TestObjects(t *testing.T) {
	var text strings.Builder
	for _, obj := range (packages.Server{Host: "packages.hosting.svc", Port: 8443, CA: []byte("ca")}).Objects() {
		if err := json.NewEncoder(&text).Encode(obj); err != nil {
			t.Fatal(err)
		}
		text.WriteString("---\n")
	}
	got, err := manifest.Parse(strings.NewReader(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	want, err := manifest.Parse(strings.NewReader(`
apiVersion: v1
kind: Service
metadata: {namespace: starling-system, name: package-server}
spec: {type: ExternalName, externalName: packages.hosting.svc}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1alpha1.porch.kpt.dev}
spec:
  group: porch.kpt.dev
  version: v1alpha1
  groupPriorityMinimum: 1000
  versionPriority: 200
  caBundle: Y2E=
  service: {namespace: starling-system, name: package-server, port: 8443}
`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := packages.ServiceOf(got[1]); got != packages.Service {
		t.Errorf("ServiceOf() = %q, want %q", got, packages.Service)
	}
	if got := packages.ServiceOf(manifest.New("apiregistration.k8s.io/v1", "APIService", "", packages.APIService)); got != "" {
		t.Errorf("ServiceOf() of an API without a Service = %q", got)
	}
	if got, want := packages.ServerName, "package-server.starling-system.svc"; got != want {
		t.Errorf("ServerName = %q, want %q", got, want)
	}
}

// Package packages returns the objects that register a package-server in a WDS, so that the API
// server of the WDS forwards requests for packages to it. It is pure.
package packages

import (
	"encoding/base64"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/starlinghq/starling/pkg/install/manifest"
)

const (
	// APIService is the name of the APIService of packages.
	APIService = version + "." + group

	// ServerName is the host name that the API server verifies when it forwards requests: the
	// serving certificate of package-server needs it.
	ServerName = service + "." + namespace + ".svc"

	// Service is the Service of the APIService, as NAMESPACE/NAME.
	Service = namespace + "/" + service

	group     = "porch.kpt.dev"
	version   = "v1alpha1"
	namespace = "starling-system"
	service   = "package-server"
)

// APIServices and Revisions are the resources of APIServices and of PackageRevisions.
var (
	APIServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	Revisions   = schema.GroupVersionResource{Group: group, Version: version, Resource: "packagerevisions"}
)

// Server is a package-server as the API server of its WDS reaches it.
type Server struct {
	// Host is a DNS name. No pod runs in a WDS, so its Service is an ExternalName.
	Host string
	Port int
	// CA has the authorities of which one has signed the serving certificate.
	CA []byte
}

// Objects returns the Service and the APIService of the server.
func (s Server) Objects() []*unstructured.Unstructured {
	svc := manifest.New("v1", "Service", namespace, service)
	svc.Object["spec"] = map[string]any{"type": "ExternalName", "externalName": s.Host}
	api := manifest.New("apiregistration.k8s.io/v1", "APIService", "", APIService)
	api.Object["spec"] = map[string]any{
		"group": group, "version": version,
		// Above the priorities of CRDs, which are 100: a CRD for another version of the group must
		// not change which version kubectl uses.
		"groupPriorityMinimum": int64(1000), "versionPriority": int64(200),
		"caBundle": base64.StdEncoding.EncodeToString(s.CA),
		"service":  map[string]any{"namespace": namespace, "name": service, "port": int64(s.Port)},
	}
	return []*unstructured.Unstructured{svc, api}
}

// ServiceOf returns the Service of an APIService, as NAMESPACE/NAME, or "" if the API server itself
// serves the API.
func ServiceOf(api *unstructured.Unstructured) string {
	if _, found, _ := unstructured.NestedMap(api.Object, "spec", "service"); !found {
		return ""
	}
	namespace, _, _ := unstructured.NestedString(api.Object, "spec", "service", "namespace")
	name, _, _ := unstructured.NestedString(api.Object, "spec", "service", "name")
	return namespace + "/" + name
}

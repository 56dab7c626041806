package workload

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// AddServed adds the resources of the kinds in a list of an API server. A list of an invalid
// version is ignored: no API server serves that.
func AddServed(kinds map[schema.GroupKind]Resource, list *metav1.APIResourceList) {
	gv, err := schema.ParseGroupVersion(list.GroupVersion)
	if err != nil {
		return
	}
	for i := range list.APIResources {
		r := &list.APIResources[i]
		if strings.Contains(r.Name, "/") {
			continue // a subresource
		}
		kinds[schema.GroupKind{Group: gv.Group, Kind: r.Kind}] = Resource{Name: r.Name, Namespaced: r.Namespaced}
	}
}

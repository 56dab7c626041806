package status

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// DefaultExcludeKinds returns the kinds that agents do not report unless somebody wants them: they have no status, and some of
// them hold what is better not read. The slice is the caller's.
func DefaultExcludeKinds() []string {
	return []string{
		"ClusterRole.rbac.authorization.k8s.io", "ClusterRoleBinding.rbac.authorization.k8s.io",
		"ConfigMap", "Role.rbac.authorization.k8s.io", "RoleBinding.rbac.authorization.k8s.io", "Secret", "ServiceAccount",
	}
}

// hasStatus tells whether objects of that resource may have a .status. Of Kubernetes' own resources it is known; custom
// resources and those of other API servers are taken to have one.
func hasStatus(gr schema.GroupResource) bool {
	switch gr.Group {
	case "":
		switch gr.Resource {
		case "bindings", "configmaps", "endpoints", "events", "limitranges", "podtemplates", "secrets", "serviceaccounts":
			return false
		}
	case "apps":
		return gr.Resource != "controllerrevisions"
	case "admissionregistration.k8s.io":
		return gr.Resource == "validatingadmissionpolicies"
	case "coordination.k8s.io", "discovery.k8s.io", "events.k8s.io", "node.k8s.io", "rbac.authorization.k8s.io", "scheduling.k8s.io":
		return false
	case "networking.k8s.io":
		switch gr.Resource {
		case "ingressclasses", "ipaddresses", "networkpolicies":
			return false
		}
	case "resource.k8s.io":
		return gr.Resource == "resourceclaims"
	case "storage.k8s.io":
		return gr.Resource == "volumeattachments"
	}
	return true
}

// Excluded are kinds of objects that an agent does not report, and does not even watch. The zero value excludes nothing.
type Excluded struct {
	kinds     map[schema.GroupKind]struct{}
	resources map[schema.GroupResource]struct{}
}

// ParseExcluded reads kinds as "Kind" or "Kind.group".
//
// What is applied is known by its resource before it is watched, so the resource is derived from the kind by the rule that
// Kubernetes follows for its own (Ingress, ingresses). A kind with an irregular plural is watched then, yet not reported.
func ParseExcluded(kinds []string) (Excluded, error) {
	e := Excluded{kinds: map[schema.GroupKind]struct{}{}, resources: map[schema.GroupResource]struct{}{}}
	for _, kind := range kinds {
		gk := schema.ParseGroupKind(strings.TrimSpace(kind))
		if gk.Kind == "" || strings.ToUpper(gk.Kind[:1]) != gk.Kind[:1] {
			return Excluded{}, fmt.Errorf("kind %q: want Kind or Kind.group, as in ClusterRole.rbac.authorization.k8s.io", kind)
		}
		resource, _ := meta.UnsafeGuessKindToResource(gk.WithVersion("v1"))
		e.kinds[gk] = struct{}{}
		e.resources[resource.GroupResource()] = struct{}{}
	}
	return e, nil
}

// Resource tells whether objects of that resource are excluded, as far as the name of a resource tells it.
func (e Excluded) Resource(gr schema.GroupResource) bool {
	_, ok := e.resources[gr]
	return ok
}

// Reports tells whether a delivered object of that resource is expected to have a WorkStatus that tells how it does. If not, all
// that can be known of the object is that it is applied, and nothing is missing when it is not reported.
func (e Excluded) Reports(gr schema.GroupResource) bool { return hasStatus(gr) && !e.Resource(gr) }

// Kind tells whether objects of that kind are excluded.
func (e Excluded) Kind(gk schema.GroupKind) bool {
	_, ok := e.kinds[gk]
	return ok
}

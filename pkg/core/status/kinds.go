package status

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// DefaultExcludeKinds returns the kinds that agents do not report by default: they have no status,
// and some of them contain secrets. The caller owns the slice.
func DefaultExcludeKinds() []string {
	return []string{
		"ClusterRole.rbac.authorization.k8s.io", "ClusterRoleBinding.rbac.authorization.k8s.io",
		"ConfigMap", "Role.rbac.authorization.k8s.io", "RoleBinding.rbac.authorization.k8s.io", "Secret", "ServiceAccount",
	}
}

// HasStatus reports whether objects of that resource may have a .status. It knows Kubernetes' own
// resources, and returns true for all others.
func HasStatus(gr schema.GroupResource) bool {
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

// Excluded are kinds of objects that an agent neither reports nor watches. The zero value excludes
// nothing.
type Excluded struct {
	kinds     map[schema.GroupKind]struct{}
	resources map[schema.GroupResource]struct{}
}

// ParseExcluded parses kinds in the form "Kind" or "Kind.group".
//
// The agent knows only the resource of an applied object before it watches the object. So the
// resource is derived from the kind by the rule for Kubernetes' own kinds (Ingress, ingresses). A
// kind with an irregular plural is therefore watched, but not reported.
func ParseExcluded(kinds []string) (Excluded, error) {
	e := Excluded{kinds: map[schema.GroupKind]struct{}{}, resources: map[schema.GroupResource]struct{}{}}
	for _, kind := range kinds {
		gk := schema.ParseGroupKind(strings.TrimSpace(kind))
		if gk.Kind == "" || strings.ToUpper(gk.Kind[:1]) != gk.Kind[:1] {
			return Excluded{}, fmt.Errorf("kind %q must have the form Kind or Kind.group, such as ClusterRole.rbac.authorization.k8s.io", kind)
		}
		resource, _ := meta.UnsafeGuessKindToResource(gk.WithVersion("v1"))
		e.kinds[gk] = struct{}{}
		e.resources[resource.GroupResource()] = struct{}{}
	}
	return e, nil
}

// Resource reports whether objects of that resource are excluded. It misses kinds with irregular
// plurals.
func (e Excluded) Resource(gr schema.GroupResource) bool {
	_, ok := e.resources[gr]
	return ok
}

// Reports reports whether a WorkStatus with a status is expected for a delivered object of that
// resource. If not, a missing report is no problem.
func (e Excluded) Reports(gr schema.GroupResource) bool { return HasStatus(gr) && !e.Resource(gr) }

// Kind reports whether objects of that kind are excluded.
func (e Excluded) Kind(gk schema.GroupKind) bool {
	_, ok := e.kinds[gk]
	return ok
}

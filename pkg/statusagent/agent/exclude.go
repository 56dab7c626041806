package agent

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// DefaultExcludeKinds are the kinds that are not reported unless somebody wants them: they have no status, and some of them
// hold what is better not read.
var DefaultExcludeKinds = []string{
	"ClusterRole.rbac.authorization.k8s.io", "ClusterRoleBinding.rbac.authorization.k8s.io",
	"ConfigMap", "Role.rbac.authorization.k8s.io", "RoleBinding.rbac.authorization.k8s.io", "Secret", "ServiceAccount",
}

// Excluded are kinds of objects that are not reported, and not even watched. The zero value excludes nothing.
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

func (e Excluded) resource(gr schema.GroupResource) bool {
	_, ok := e.resources[gr]
	return ok
}

func (e Excluded) kind(gk schema.GroupKind) bool {
	_, ok := e.kinds[gk]
	return ok
}

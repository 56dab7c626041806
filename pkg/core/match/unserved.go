package match

import (
	"fmt"
	"slices"
	"strings"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

// API knows what a space serves. An empty resource stands for any, a nil group likewise.
type API interface {
	// Serves reports whether the space serves the resource; known is false if that could not be
	// found out.
	Serves(group *string, resource string) (serves, known bool)
	// Selects reports whether objects of the resource, which the space serves, can be workload.
	Selects(group *string, resource string) bool
}

// Unserved says which groups, resources and namespaces that the spec names select nothing, because
// the space does not serve them or because they are no workload. That is no reason not to carry out
// the rest: a CRD may come later.
func Unserved(spec *controlv1alpha1.BindingPolicySpec, api API) []string {
	var found []string
	note := func(path, format string, args ...any) { found = append(found, path+": "+fmt.Sprintf(format, args...)) }
	for i := range spec.Downsync {
		clause := &spec.Downsync[i]
		path := fmt.Sprintf("spec.downsync[%d]", i)
		for j, namespace := range clause.Namespaces {
			if slices.Contains(neverNamespaces, namespace) {
				note(fmt.Sprintf("%s.namespaces[%d]", path, j), "objects in namespace %q are no workload", namespace)
			}
		}
		for j, name := range clause.ObjectNames {
			if slices.Contains(clause.Resources, namespaces.Resource) && len(clause.Resources) == 1 && neverNamespace(name) {
				note(fmt.Sprintf("%s.objectNames[%d]", path, j), "Namespace %q is no workload: each cluster has its own", name)
			}
		}
		in := ""
		if clause.APIGroup != nil && *clause.APIGroup != "" {
			in = fmt.Sprintf(" in API group %q", *clause.APIGroup)
			serves, known := api.Serves(clause.APIGroup, "")
			if known && !serves {
				note(path+".apiGroup", "the WDS serves no API group %q", *clause.APIGroup)
				continue
			}
			if serves && !api.Selects(clause.APIGroup, "") {
				note(path+".apiGroup", "objects of API group %q are no workload", *clause.APIGroup)
				continue
			}
		} else if clause.APIGroup != nil {
			in = " in the core API group"
		}
		for j, resource := range clause.Resources {
			if resource == wildcard {
				continue
			}
			where := fmt.Sprintf("%s.resources[%d]", path, j)
			switch serves, known := api.Serves(clause.APIGroup, resource); {
			case !known:
			case !serves:
				note(where, "the WDS serves no resource %q%s%s", resource, in, hint(resource))
			case !api.Selects(clause.APIGroup, resource):
				note(where, "objects of resource %q%s are no workload", resource, in)
			}
		}
	}
	return found
}

// hint helps with names that no resource has.
func hint(resource string) string {
	switch {
	case strings.ContainsAny(resource, "./"):
		return ` (a resource is named by its plural alone, such as "deployments"; the group belongs in apiGroup)`
	case strings.ToLower(resource) != resource:
		return ` (resources are lowercase plurals, such as "deployments")`
	}
	return ""
}

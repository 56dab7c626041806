package ocm

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/starlinghq/starling/config/rbac/wec"
	"github.com/starlinghq/starling/pkg/install/manifest"
)

// WorkRights are the rights of OCM's agent in a cluster.
type WorkRights string

const (
	// WorkRightsAll are those that OCM grants, and those for all built-in kinds that users deliver.
	// The agent may create roles with any rights, so it may do everything.
	WorkRightsAll WorkRights = "all"
	// WorkRightsListed are those that the agent needs for itself and for the status agent. The
	// administrator of the cluster adds those for what may be delivered.
	WorkRightsListed WorkRights = "listed"
)

// ListedRole is the name of a ClusterRole of clusters with WorkRightsListed, and of no others.
const ListedRole = "starling:work-agent-status"

// Set implements pflag.Value.
func (w *WorkRights) Set(value string) error {
	switch r := WorkRights(value); r {
	case WorkRightsAll, WorkRightsListed:
		*w = r
		return nil
	}
	return fmt.Errorf("must be %s or %s", WorkRightsAll, WorkRightsListed)
}

// String implements pflag.Value.
func (w *WorkRights) String() string { return string(*w) }

// Type implements pflag.Value.
func (w *WorkRights) Type() string { return "string" }

// klusterletManifests are OCM's manifests for the agent in a managed cluster in singleton mode: one
// process is the whole agent.
var klusterletManifests = []string{
	"klusterlet/managed/*.yaml",
	"klusterlet/management/*role*.yaml",
}

// grantsAll are the ends of the names of what OCM's manifests have and a cluster with
// WorkRightsListed must not have.
var grantsAll = []string{
	"-registration:addon-management", // all Secrets and Leases
	"-work:execution",                // roles with any rights, webhooks, CRDs
	"-work:execution-admin",          // the ClusterRole admin
}

// Klusterlet returns OCM's objects for a managed cluster, from OCM's manifests, with these rights
// of its agent. It also returns the objects that the cluster has with other rights: they must be
// deleted.
func Klusterlet(from fs.FS, rights WorkRights) (install, remove []*unstructured.Unstructured, err error) {
	common, err := render(from, klusterletManifests, map[string]any{
		"KlusterletName":             "klusterlet",
		"KlusterletNamespace":        NamespaceAgent,
		"AgentNamespace":             NamespaceAgent,
		"RegistrationServiceAccount": KlusterletAccount.Name,
		"WorkServiceAccount":         KlusterletAccount.Name,
		"Labels":                     map[string]string{},
	})
	if err != nil {
		return nil, nil, err
	}
	builtIn, err := manifest.File(wec.FS, "work-agent.yaml", nil)
	if err != nil {
		return nil, nil, err
	}
	listed, err := manifest.File(wec.FS, "work-agent-listed.yaml", nil)
	if err != nil {
		return nil, nil, err
	}
	// OCM's operator creates this ClusterRole in code: it grants the work agent the ClusterRoles
	// that a user labels.
	aggregate := manifest.New("rbac.authorization.k8s.io/v1", "ClusterRole", "", "open-cluster-management:klusterlet-work:aggregate")
	aggregate.Object["aggregationRule"] = map[string]any{
		"clusterRoleSelectors": []any{map[string]any{
			"matchLabels": map[string]any{"open-cluster-management.io/aggregate-to-work": "true"},
		}},
	}
	own := []*unstructured.Unstructured{aggregate, manifest.Namespace(NamespaceAgent), manifest.Namespace(NamespaceAddonAgent)}
	all := slices.Concat(common, builtIn, own)
	least := slices.Concat(slices.DeleteFunc(slices.Clone(common), func(obj *unstructured.Unstructured) bool {
		return has(listed, obj) || slices.ContainsFunc(grantsAll, func(end string) bool { return strings.HasSuffix(obj.GetName(), end) })
	}), listed, own)
	if rights == WorkRightsListed {
		return least, without(all, least), nil
	}
	return all, without(least, all), nil
}

// without returns the objects that are not among others.
func without(objs, others []*unstructured.Unstructured) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(objs), func(obj *unstructured.Unstructured) bool { return has(others, obj) })
}

// has reports whether there is an object of the same kind and name.
func has(objs []*unstructured.Unstructured, obj *unstructured.Unstructured) bool {
	return slices.ContainsFunc(objs, func(o *unstructured.Unstructured) bool { return key(o) == key(obj) })
}

func key(obj *unstructured.Unstructured) string {
	return path.Join(obj.GetKind(), obj.GetNamespace(), obj.GetName())
}

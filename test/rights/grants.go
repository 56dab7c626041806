package rights

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// statusAgent is the identity of the agents of all clusters on the hub. The others are names of
// ServiceAccounts.
const statusAgent = "status-agent"

// Right is one verb on one resource in one kind of space: granted, or used. In a right that is
// granted, "*" is every group, resource or name.
type Right struct {
	// Space is its or wds.
	Space    string `json:"space"`
	Identity string `json:"identity"`
	// Namespace is empty in all namespaces.
	Namespace string `json:"namespace,omitempty"`
	Group     string `json:"group"`
	// Resource includes the subresource.
	Resource string `json:"resource"`
	// Name is empty for all names. In a use, it is known only where a rule has names.
	Name string `json:"name,omitempty"`
	Verb string `json:"verb"`
}

// String implements fmt.Stringer.
func (r Right) String() string {
	s := r.Space + ": " + r.Identity + " may " + r.Verb + " " + r.Resource
	if r.Group != "" {
		s += "." + r.Group
	}
	if r.Name != "" {
		s += " " + r.Name
	}
	if r.Namespace != "" {
		s += " in " + r.Namespace
	}
	return s
}

// covers reports whether a right that is granted allows a use.
func (r Right) covers(use Right) bool {
	return r.Space == use.Space && r.Identity == use.Identity && r.Verb == use.Verb &&
		(r.Namespace == "" || r.Namespace == use.Namespace) &&
		(r.Group == "*" || r.Group == use.Group) &&
		(r.Name == "" || r.Name == use.Name) &&
		coversResource(r.Resource, use.Resource)
}

func coversResource(granted, used string) bool {
	if granted == "*" || granted == used {
		return true
	}
	subresource, ofAll := strings.CutPrefix(granted, "*/")
	_, usedSubresource, _ := strings.Cut(used, "/")
	return ofAll && usedSubresource == subresource
}

// users are the roles that administrators bind to users. No identity has them.
var users = map[string]bool{ //nolint:gochecknoglobals // a constant
	"starling:package-author": true, "starling:package-reviewer": true, "starling:package-variant-author": true,
}

// everybodys are the roles that all users have.
var everybodys = map[string]bool{"starling:settings-reader": true} //nolint:gochecknoglobals // a constant

// unbound are the roles that are bound while Starling runs, and to whom.
var unbound = map[string]string{ //nolint:gochecknoglobals // a constant
	"open-cluster-management:addon-status:agent": statusAgent, // the manager of the status add-on binds it
}

// Granted returns the rights in config/rbac in an ITS and in a WDS. It returns an error for a role
// that nobody has. The rights in a WEC are those of OCM's agent, for what users deliver: the tests
// of test/integration/localfleet ask an API server about them.
func Granted(dir string) ([]Right, error) {
	var all []Right
	for _, space := range []string{"its", "wds"} {
		files, err := filepath.Glob(filepath.Join(dir, space, "*.yaml"))
		if err != nil || len(files) == 0 {
			return nil, fmt.Errorf("no rights found in %q: %w", filepath.Join(dir, space), err)
		}
		var objects []*unstructured.Unstructured
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			some, err := decode(data)
			if err != nil {
				return nil, fmt.Errorf("read %q: %w", file, err)
			}
			objects = append(objects, some...)
		}
		rights, err := granted(space, objects)
		if err != nil {
			return nil, fmt.Errorf("read %q: %w", filepath.Join(dir, space), err)
		}
		all = append(all, rights...)
	}
	return all, nil
}

func decode(data []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		obj := &unstructured.Unstructured{}
		err := decoder.Decode(obj)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		objects = append(objects, obj)
	}
}

// role identifies a Role or ClusterRole.
type role struct{ kind, namespace, name string }

// granted returns the rights that objects of one space give.
func granted(space string, objects []*unstructured.Unstructured) ([]Right, error) {
	rules := map[role][]rbacv1.PolicyRule{}
	bound := map[role]bool{}
	var rights []Right
	for _, obj := range objects {
		if obj.GetKind() != "Role" && obj.GetKind() != "ClusterRole" {
			continue
		}
		var r rbacv1.ClusterRole
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &r); err != nil {
			return nil, err
		}
		key := role{obj.GetKind(), obj.GetNamespace(), obj.GetName()}
		rules[key] = r.Rules
		if identity := unbound[key.name]; identity != "" {
			bound[key] = true
			rights = append(rights, expand(Right{Space: space, Identity: identity}, r.Rules)...)
		}
	}
	for _, obj := range objects {
		if obj.GetKind() != "RoleBinding" && obj.GetKind() != "ClusterRoleBinding" {
			continue
		}
		var b rbacv1.RoleBinding
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &b); err != nil {
			return nil, err
		}
		key := role{b.RoleRef.Kind, "", b.RoleRef.Name}
		if key.kind == "Role" {
			key.namespace = b.Namespace
		}
		bound[key] = true
		for _, subject := range b.Subjects {
			if everybodys[key.name] && subject.Kind == rbacv1.GroupKind && subject.Name == "system:authenticated" {
				continue
			}
			if subject.Kind != rbacv1.ServiceAccountKind || subject.Namespace != "starling-system" {
				return nil, fmt.Errorf("%s %q: subject %s %q is no ServiceAccount of starling-system", obj.GetKind(), b.Name, subject.Kind, subject.Name)
			}
			// A role of Kubernetes has no rules here.
			rights = append(rights, expand(Right{Space: space, Identity: subject.Name, Namespace: b.Namespace}, rules[key])...)
		}
	}
	for key := range rules {
		if !bound[key] && !users[key.name] {
			return nil, fmt.Errorf("%s %q is bound to nobody", key.kind, key.name)
		}
	}
	return rights, nil
}

// expand returns one right for each verb, group, resource and name.
func expand(of Right, rules []rbacv1.PolicyRule) []Right {
	var rights []Right
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, name := range names {
					for _, verb := range rule.Verbs {
						of.Group, of.Resource, of.Name, of.Verb = group, resource, name, verb
						rights = append(rights, of)
					}
				}
			}
		}
	}
	return rights
}

package ocm

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/starlinghq/starling/config/rbac/wec"
	"github.com/starlinghq/starling/pkg/install/manifest"
)

// ocms are some of OCM's manifests, as small as they can be. The end-to-end tests use the real
// ones.
var ocms = fstest.MapFS{
	"klusterlet/managed/roles.yaml": {Data: []byte(`
kind: ClusterRole
metadata: {name: "open-cluster-management:klusterlet-work:agent"}
rules: [{apiGroups: [""], resources: [serviceaccounts], verbs: [impersonate]}]
---
kind: ClusterRole
metadata: {name: "open-cluster-management:klusterlet-work:execution"}
---
kind: ClusterRoleBinding
metadata: {name: "open-cluster-management:klusterlet-work:execution-admin"}
---
kind: ClusterRoleBinding
metadata: {name: "open-cluster-management:klusterlet-work:agent"}
---
kind: ClusterRoleBinding
metadata: {name: "open-cluster-management:klusterlet-registration:addon-management"}
`)},
	"klusterlet/management/role.yaml": {Data: []byte(`
kind: ClusterRoleBinding
metadata: {name: "open-cluster-management:management:klusterlet-registration:addon-management"}
---
kind: Role
metadata: {name: "open-cluster-management:management:klusterlet-work:agent", namespace: open-cluster-management-agent}
`)},
}

func TestKlusterlet(t *testing.T) {
	const prefix = "open-cluster-management:"
	keys := func(objs []*unstructured.Unstructured) []string {
		var out []string
		for _, obj := range objs {
			out = append(out, key(obj))
		}
		slices.Sort(out)
		return out
	}
	onlyAll := []string{
		"ClusterRole/" + prefix + "klusterlet-work:execution",
		"ClusterRole/starling:work-agent-built-in",
		"ClusterRoleBinding/" + prefix + "klusterlet-registration:addon-management",
		"ClusterRoleBinding/" + prefix + "klusterlet-work:execution-admin",
		"ClusterRoleBinding/" + prefix + "management:klusterlet-registration:addon-management",
	}
	onlyListed := []string{
		"ClusterRole/" + prefix + "klusterlet-registration:agent", // OCM's own, of which the test has none
		"ClusterRole/starling:work-agent-status",
		"Role/open-cluster-management-agent-addon/starling:add-ons",
		"RoleBinding/open-cluster-management-agent-addon/starling:add-ons",
	}
	both := []string{
		"ClusterRole/" + prefix + "klusterlet-work:agent",
		"ClusterRole/" + prefix + "klusterlet-work:aggregate",
		"ClusterRoleBinding/" + prefix + "klusterlet-work:agent",
		"Namespace/open-cluster-management-agent",
		"Namespace/open-cluster-management-agent-addon",
		"Role/open-cluster-management-agent/" + prefix + "management:klusterlet-work:agent",
	}
	for rights, want := range map[WorkRights][2][]string{
		"":               {slices.Concat(both, onlyAll), onlyListed},
		WorkRightsAll:    {slices.Concat(both, onlyAll), onlyListed},
		WorkRightsListed: {slices.Concat(both, onlyListed), onlyAll},
	} {
		install, remove, err := Klusterlet(ocms, rights)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(want[0])
		if diff := cmp.Diff(want[0], keys(install)); diff != "" {
			t.Errorf("rights %q: objects (-want +got):\n%s", rights, diff)
		}
		if diff := cmp.Diff(want[1], keys(remove)); diff != "" {
			t.Errorf("rights %q: removed objects (-want +got):\n%s", rights, diff)
		}
	}
}

// TestListedRights: nothing in the file lets the agent get rights that it does not have.
func TestListedRights(t *testing.T) {
	objs, err := manifest.File(wec.FS, "work-agent-listed.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, obj := range objs {
		if !strings.HasSuffix(obj.GetKind(), "Role") {
			continue
		}
		var role rbacv1.ClusterRole
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(obj.Object, &role, true); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, verb := range []string{"escalate", "bind", "impersonate", "*"} {
				if slices.Contains(rule.Verbs, verb) || slices.Contains(rule.Resources, "*") || slices.Contains(rule.APIGroups, "*") {
					t.Errorf("%s %q has %v", obj.GetKind(), obj.GetName(), rule)
				}
			}
			if obj.GetKind() == "ClusterRole" && slices.Contains(rule.Resources, "secrets") {
				t.Errorf("ClusterRole %q has rights to Secrets: %v", obj.GetName(), rule)
			}
		}
	}
}

package manager

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/starlinghq/starling/config/rbac/wec"
	"github.com/starlinghq/starling/pkg/install/manifest"
)

func TestManifests(t *testing.T) {
	const rbac = "Namespace/open-cluster-management-agent-addon ServiceAccount/status-agent-sa " +
		"ClusterRole/open-cluster-management:addon-status:agent ClusterRoleBinding/open-cluster-management:addon-status:agent " +
		"Role/open-cluster-management:addon-status:agent RoleBinding/open-cluster-management:addon-status:agent"
	for name, tc := range map[string]struct {
		image   string
		exclude []string
		want    string
	}{
		"WithoutImage": {want: rbac},
		"WithImage":    {image: "example.com/starling/status-agent:v1@sha256:0", want: rbac + " Deployment/status-agent"},
		"WithExcluded": {image: "example.com/x", exclude: []string{"Secret", "Job.batch"}, want: rbac + " Deployment/status-agent"},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := manifests("cluster1", defaultSettings(tc.image), tc.exclude)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, obj := range objects {
				u := obj.(*unstructured.Unstructured)
				if got != "" {
					got += " "
				}
				got += u.GetKind() + "/" + u.GetName()
				check(t, u, tc.exclude)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("manifests (-want +got):\n%s", diff)
			}
		})
	}
}

// check looks at what must not slip: the agent reads, its metrics are not open, and its Deployment
// is confined.
func check(t *testing.T, obj *unstructured.Unstructured, exclude []string) {
	t.Helper()
	convert := func(into any) {
		t.Helper()
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(obj.Object, into, true); err != nil {
			t.Fatalf("%s: %v", obj.GetKind(), err)
		}
	}
	switch obj.GetKind() {
	case "ClusterRole":
		role := &rbacv1.ClusterRole{}
		convert(role)
		for _, rule := range role.Rules {
			for _, verb := range rule.Verbs {
				reviews := slices.Equal(rule.Resources, []string{"tokenreviews"}) || slices.Equal(rule.Resources, []string{"subjectaccessreviews"})
				if !slices.Contains([]string{"get", "list", "watch"}, verb) && (verb != "create" || !reviews) {
					t.Errorf("the agent may %s %v in the whole WEC", verb, rule.Resources)
				}
			}
		}
	case "Role":
		role := &rbacv1.Role{}
		convert(role)
		for _, rule := range role.Rules {
			if !slices.Equal(rule.Resources, []string{"leases"}) || slices.Contains(rule.Verbs, "*") {
				t.Errorf("the agent may %v %v", rule.Verbs, rule.Resources)
			}
		}
	case "Deployment":
		deployment := &appsv1.Deployment{}
		convert(deployment)
		pod := deployment.Spec.Template.Spec
		c := pod.Containers[0].SecurityContext
		if !*pod.SecurityContext.RunAsNonRoot || *c.AllowPrivilegeEscalation || !*c.ReadOnlyRootFilesystem || len(c.Capabilities.Drop) != 1 {
			t.Error("the container is not confined")
		}
		if !slices.Contains(pod.Containers[0].Args, "--cluster-name=cluster1") {
			t.Errorf("arguments %v", pod.Containers[0].Args)
		}
		if !slices.Contains(pod.Containers[0].Args, "--secure-metrics-address=:9443") {
			t.Errorf("metrics are open: arguments %v", pod.Containers[0].Args)
		}
		if slices.Contains(pod.Containers[0].Args, "--exclude-kinds="+strings.Join(exclude, ",")) != (len(exclude) > 0) {
			t.Errorf("arguments %v, excluded %v", pod.Containers[0].Args, exclude)
		}
	}
}

// TestListedRightsSuffice: OCM's agent can grant the status agent its rights without the verb
// escalate, also in a cluster whose administrator lists what may be delivered.
func TestListedRightsSuffice(t *testing.T) {
	listed, err := manifest.File(wec.FS, "work-agent-listed.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := manifests("cluster1", defaultSettings("image"), nil)
	if err != nil {
		t.Fatal(err)
	}
	// Of those in a Role, in its namespace only.
	rights := func(kinds []string, objs ...*unstructured.Unstructured) map[string]bool {
		t.Helper()
		all := map[string]bool{}
		for _, obj := range objs {
			role := &rbacv1.ClusterRole{}
			if !slices.Contains(kinds, obj.GetKind()) {
				continue
			}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, role); err != nil {
				t.Fatal(err)
			}
			for _, rule := range role.Rules {
				for _, group := range rule.APIGroups {
					for _, resource := range rule.Resources {
						for _, verb := range rule.Verbs {
							all[strings.Join([]string{verb, group, resource, strings.Join(rule.ResourceNames, ",")}, " ")] = true
						}
					}
				}
			}
		}
		return all
	}
	var granted []*unstructured.Unstructured
	for _, obj := range objects {
		granted = append(granted, obj.(*unstructured.Unstructured))
	}
	for kind, own := range map[string][]string{"ClusterRole": {"ClusterRole"}, "Role": {"ClusterRole", "Role"}} {
		have := rights(own, listed...)
		for right := range rights([]string{kind}, granted...) {
			if !have[right] {
				t.Errorf("a %s grants %q, which OCM's agent does not have", kind, right)
			}
		}
	}
}

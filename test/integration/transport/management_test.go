package transport

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/test/testenv"
)

// refused waits until the Binding says of just these objects that they are not delivered, and how
// to allow it.
func (e *environment) refused(namespace string, want ...string) {
	e.t.Helper()
	b := e.expectCondition(controlv1alpha1.BindingConditionDelivered, metav1.ConditionFalse, controlv1alpha1.ReasonFailed)
	var got []string
	for _, err := range b.Status.Errors {
		ref, why, _ := strings.Cut(err, ": ")
		got = append(got, ref)
		if !strings.Contains(why, "--ocm-namespaces="+namespace) {
			e.t.Errorf("the error of %s does not say how to allow it: %s", ref, why)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		e.t.Errorf("objects with errors (-want +got):\n%s", diff)
	}
}

// TestManagementNamespaces: nothing is delivered to a namespace of Open Cluster Management, nor its
// Namespace, unless that is allowed. The status says so, the rest is delivered, and what was
// delivered while it was allowed stays.
func TestManagementNamespaces(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(1)
	reserved := "open-cluster-management-" + e.name
	e.create(namespaces, "", reserved, nil)
	e.create(configMaps, reserved, "x", map[string]any{"data": map[string]any{"content": "1"}})
	one := e.configMap("one", "1")
	itself, inside := entry{resource: namespaces, name: reserved}, entry{resource: configMaps, namespace: reserved, name: "x"}
	c := e.start(roomy)
	e.bind(sites, itself, inside, one)
	e.refused(reserved, "configmaps "+reserved+"/x", "namespaces "+reserved)
	e.expectContents(sites[0], e.line("one", "1"))

	c.stop()
	e.management = []string{reserved}
	c = e.start(roomy)
	e.rebind(sites, itself, inside, one)
	all := []string{"ConfigMap " + reserved + "/x: 1", e.line("one", "1"), "Namespace " + reserved}
	e.expectContents(sites[0], all...)
	e.applied()

	c.stop()
	e.management = nil
	e.start(roomy)
	e.patch(configMaps, reserved, "x", `{"data":{"content":"2"}}`)
	e.edit("one", "2")
	all[1] = e.line("one", "2")
	e.expectContents(sites[0], all...)
	e.refused(reserved, "configmaps "+reserved+"/x", "namespaces "+reserved)
	e.rebind(sites, one)
	e.expectContents(sites[0], all[1])
	testenv.Eventually(t, patience, func() (bool, string) {
		errs := e.binding().Status.Errors
		return len(errs) == 0, strings.Join(errs, "; ")
	})
}

// TestManagementNamespaceOfPackages: nothing of a package is delivered there either.
func TestManagementNamespaceOfPackages(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(1)
	reserved := "open-cluster-management-" + e.name
	e.start(roomy)
	e.bindPackages(sites, e.revision(1, "Published", kpt.Files{
		"Kptfile": kptfile, "a.yaml": packaged(reserved, "p", "1"), "b.yaml": packaged(e.name, "q", "1"),
	}))
	e.expectContents(sites[0], e.line("q", "1"))
	e.refused(reserved, "configmaps "+reserved+"/p")
}

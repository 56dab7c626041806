package combinedstatus

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/packages/binding"
)

// TestObjectsOfPackages: what is delivered of packages, and what clusters report of it, is no
// policy's: nothing is combined of it, no Binding of a package is touched, and what policies say
// goes on beside it.
func TestObjectsOfPackages(t *testing.T) {
	e := newEnvironment(t)
	e.clusters(2)
	object, ref := e.configMap("o")
	policy := e.policy("p", nil, e.collector("all", selectAll))
	p := binding.Package{Namespace: e.name, Repository: e.clusterName(1), Name: "web"}
	bindings := e.wds.Client.Resource(controlv1alpha1.Bindings)
	carrier := e.create(controlv1alpha1.Bindings, "", binding.Name(p), map[string]any{
		"metadata": map[string]any{
			"labels":      map[string]any{controlv1alpha1.LabelPackageNamespace: p.Namespace, controlv1alpha1.LabelPackageRepository: p.Repository},
			"annotations": map[string]any{controlv1alpha1.AnnotationPackage: p.Name},
		},
		"spec": map[string]any{
			"workload": map[string]any{"packages": []any{map[string]any{
				"namespace": p.Namespace, "repository": p.Repository, "package": p.Name, "revision": int64(1), "name": "r", "digest": "sha256:" + fmt.Sprintf("%064d", 1),
			}}},
			"destinations": []any{map[string]any{"clusterId": p.Repository}},
		},
	})
	// One object is only in the package. One is in the WDS as well, but no policy selects it. One
	// is selected by a policy.
	e.create(namespaces, "", e.name+"-other", nil)
	nobodys := e.create(configMaps, e.name+"-other", "o", nil)
	c := e.start()
	e.becomesReady(c)
	e.report(objref.New(deploys.GroupResource(), e.name+"-nowhere", "web"), 1, `{"availableReplicas": 1}`)
	e.report(objref.New(configMaps.GroupResource(), e.name+"-other", "o"), 1, `{"x": 1}`)
	e.report(ref, 1, `{"x": 2}`)
	e.shows(object, policy, "all: c, s, known\nc01, {\"x\":2}, true\nc02, -, false")
	c.Idle(t)
	e.patch(controlv1alpha1.Bindings, "", carrier.GetName(), `{"metadata":{"annotations":{"touched":"yes"}}}`)
	e.report(objref.New(deploys.GroupResource(), e.name+"-nowhere", "web"), 1, "-")
	c.Nothing(t, "/", len(c.Written("/")))

	for _, about := range []string{carrier.GetName(), e.name + "-other", e.name + "-nowhere", "/o/status"} {
		if written := c.Written(about); len(written) > 0 {
			t.Errorf("wrote %q", written)
		}
	}
	if e.of(nobodys, policy) != nil {
		t.Error("there is a CombinedStatus of an object that no policy selects")
	}
	list, err := e.wds.Client.Resource(combineds).Namespace(e.name).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Errorf("%d CombinedStatuses, %v", len(list.Items), err)
	}
	if after, err := bindings.Get(t.Context(), carrier.GetName(), metav1.GetOptions{}); err != nil || after.GetGeneration() != carrier.GetGeneration() {
		t.Errorf("the Binding of the package is %v, %v", after, err)
	}
}

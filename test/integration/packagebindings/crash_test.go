package packagebindings

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/test/testenv"
)

// Writes of the controllers, as testenv.Proxy names them.
const (
	repositoryCreated  = "POST repositories"
	repositoryUpdated  = "(PUT|PATCH) repositories"
	repositoryReported = "(PUT|PATCH) repositories/status"
	repositoryDeleted  = "DELETE repositories"
	bindingCreated     = "POST bindings"
	bindingUpdated     = "(PUT|PATCH) bindings"
	bindingDeleted     = "DELETE bindings"
)

// kill runs binding-controller, with all controllers of packages, and kills it when the API server
// of the WDS has carried out the n-th write of that kind.
func (e *environment) kill(write string, n int) {
	e.t.Helper()
	wds, its := testenv.NewProxy(e.t, e.fleet.Config(e.t, "wds1")), testenv.NewProxy(e.t, e.fleet.Config(e.t, "its1"))
	wds.KillAfter(e.t, write, n, "binding-controller", "--controllers=packages", "--leader-elect=false",
		"--wds-kubeconfig="+wds.Kubeconfig(e.t), "--its=its1="+its.Kubeconfig(e.t), "--cluster-repository-namespaces="+e.namespace)()
}

// identities returns the UIDs of all Repositories and Bindings of packages of the namespace.
func (e *environment) identities() map[string]string {
	e.t.Helper()
	uids := map[string]string{}
	repositories, err := e.wds.Resource(configv1alpha1.Repositories).Namespace(e.namespace).List(e.t.Context(), metav1.ListOptions{})
	if err != nil {
		e.t.Fatal(err)
	}
	for i := range repositories.Items {
		uids["Repository "+repositories.Items[i].GetName()] = string(repositories.Items[i].GetUID())
	}
	bindings, err := e.wds.Resource(controlv1alpha1.Bindings).List(e.t.Context(), metav1.ListOptions{LabelSelector: controlv1alpha1.LabelPackageNamespace + "=" + e.namespace})
	if err != nil {
		e.t.Fatal(err)
	}
	for i := range bindings.Items {
		if bindings.Items[i].GetDeletionTimestamp() == nil {
			uids["Binding "+bindings.Items[i].GetName()] = string(bindings.Items[i].GetUID())
		}
	}
	return uids
}

// TestKilledBetweenWrites follows clusters that join, change, leave and come back, and packages
// that are published and deleted with them. At each step, the controllers are killed after one of
// its writes; the next ones continue. Nothing is lost, nothing exists twice, and nothing is re-
// created.
func TestKilledBetweenWrites(t *testing.T) {
	e := newEnvironment(t)
	a, b, c := e.namespace+"-a", e.namespace+"-b", e.namespace+"-c"
	all := []string{a, b, c}
	label := func(site string, names ...string) {
		for _, name := range names {
			e.patch(e.its, clusters.ManagedClusters, "", name, fmt.Sprintf(`{"metadata":{"labels":{"site":%q}}}`, site))
		}
	}
	leave := func(name string) {
		e.patch(e.its, clusters.ManagedClusters, "", name, `{"metadata":{"finalizers":["test/wait"]}}`)
		e.delete(e.its, clusters.ManagedClusters, "", name)
	}
	gone := func(name string) {
		e.patch(e.its, clusters.ManagedClusters, "", name, `{"metadata":{"finalizers":null}}`)
	}
	publish := func(number int) {
		for _, name := range all {
			e.revision(name, number, "Published")
		}
	}
	unpublish := func(repository string, number int) {
		e.delete(e.wds, storev1alpha1.PackageRevisions, e.namespace, fmt.Sprintf("%s.web.w%d", repository, number))
	}
	known := map[string]string{}
	for _, step := range []struct {
		write string
		n     int
		do    func()
		// want are the Repository and the Binding of each cluster then, "none; none" where nothing
		// is said.
		want map[string]string
	}{
		{repositoryCreated, 2, func() {
			for _, name := range all {
				e.cluster(name, "edge")
			}
		}, map[string]string{a: "edge ours; none", b: "edge ours; none", c: "edge ours; none"}},
		{
			repositoryUpdated, 2, func() { label("far", all...) },
			map[string]string{a: "far ours; none", b: "far ours; none", c: "far ours; none"},
		},
		{
			bindingCreated, 2, func() { publish(1) },
			map[string]string{a: "far ours; w1 to " + a, b: "far ours; w1 to " + b, c: "far ours; w1 to " + c},
		},
		{
			bindingUpdated, 2, func() { publish(2) },
			map[string]string{a: "far ours; w2 to " + a, b: "far ours; w2 to " + b, c: "far ours; w2 to " + c},
		},
		{
			repositoryReported, 1, func() { leave(a) },
			map[string]string{a: "far ours Detached=True; w2", b: "far ours; w2 to " + b, c: "far ours; w2 to " + c},
		},
		{
			bindingUpdated, 1, func() { gone(a); leave(b) },
			map[string]string{a: "far ours Detached=True; w2", b: "far ours Detached=True; w2", c: "far ours; w2 to " + c},
		},
		// They come back with other labels: that is two writes of the Repository, and one of the
		// Binding.
		{
			repositoryUpdated, 1, func() { e.cluster(a, "near") },
			map[string]string{a: "near ours Detached=False; w2 to " + a, b: "far ours Detached=True; w2", c: "far ours; w2 to " + c},
		},
		{
			repositoryReported, 1, func() { gone(b); e.awaitGone(b); e.cluster(b, "near") },
			map[string]string{a: "near ours Detached=False; w2 to " + a, b: "near ours Detached=False; w2 to " + b, c: "far ours; w2 to " + c},
		},
		{
			bindingUpdated, 2, func() { unpublish(a, 2); unpublish(b, 2) },
			map[string]string{a: "near ours Detached=False; w1 to " + a, b: "near ours Detached=False; w1 to " + b, c: "far ours; w2 to " + c},
		},
		{
			bindingDeleted, 1, func() { unpublish(a, 1); unpublish(b, 1) },
			map[string]string{a: "near ours Detached=False; none", b: "near ours Detached=False; none", c: "far ours; w2 to " + c},
		},
		{repositoryDeleted, 1, func() {
			for _, name := range all {
				e.delete(e.its, clusters.ManagedClusters, "", name)
			}
		}, map[string]string{c: "far ours Detached=True; w2 to " + c}}, // a cluster that is gone at once was perhaps removed by mistake
	} {
		step.do()
		e.kill(step.write, step.n)
		e.unchanged(known, step.want, step.write)
		stop := e.start(false)
		for _, name := range all {
			want := step.want[name]
			if want == "" {
				want = "none; none"
			}
			e.expect(func(of string) string { return e.repository(of) + "; " + e.binding(of) }, name, want)
		}
		e.quiet()
		stop()
		e.unchanged(known, step.want, step.write)
		known = e.identities()
		if n, most := len(known), 2*len(step.want); n > most {
			t.Errorf("%s: there are %v, which is more than %d", step.write, known, most)
		}
	}
}

// unchanged expects that what was known and is still wanted is there, and the same.
func (e *environment) unchanged(known, wanted map[string]string, when string) {
	e.t.Helper()
	now := e.identities()
	for what, uid := range known {
		stays := false
		for name, want := range wanted {
			isBinding := strings.HasPrefix(what, "Binding "+name)
			stays = stays || what == "Repository "+name || isBinding && !strings.HasSuffix(want, "; none")
		}
		if stays && now[what] != uid {
			e.t.Errorf("%s: %s was %s, is %q", when, what, uid, now[what])
		}
	}
}

// awaitGone waits until a cluster is gone.
func (e *environment) awaitGone(name string) {
	e.t.Helper()
	testenv.Eventually(e.t, testenv.Patience, func() (bool, string) {
		_, err := e.its.Resource(clusters.ManagedClusters).Get(e.t.Context(), name, metav1.GetOptions{})
		return err != nil, name + " is there"
	})
}

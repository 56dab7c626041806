package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	"github.com/starlinghq/starling/test/testenv"
	"github.com/starlinghq/starling/test/testxpkg"
)

// TestPackagesOfProviders: a user installs a Provider with a dependency. Its definitions and an
// object of its kind go to the clusters. An update reaches them, one that would break the object is
// refused and reaches nobody, and the deletion waits until the object is gone. Then the definition
// stays in the clusters, one of which has an object of its own, unless the user allows to delete
// it.
func TestPackagesOfProviders(t *testing.T) {
	t.Parallel()
	s := tell(t, testenv.Shared(t))
	registry, err := testxpkg.NewRegistry()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(registry.Close)
	const group = "providers.example.org"
	family := registry.Source("org/family")
	if _, err := registry.PushPackage(t.Context(), "org/family", "v1.0.0", testxpkg.Provider("family", testxpkg.CRD(group, "Account", "id"))); err != nil {
		t.Fatal(err)
	}
	for tag, fields := range map[string][]string{"v1.0.0": {"region"}, "v1.1.0": {"region", "size"}, "v2.0.0": {"size"}} {
		pkg := testxpkg.Requires(testxpkg.Provider("store", testxpkg.CRD(group, "Bucket", fields...)), pkgv1.KindProvider, family, ">=v1.0.0")
		if _, err := registry.PushPackage(t.Context(), "org/store", tag, pkg); err != nil {
			t.Fatal(err)
		}
	}
	buckets := schema.GroupVersionResource{Group: group, Version: "v1", Resource: "buckets"}
	for _, cluster := range []string{"cluster1", "cluster2"} { // OCM's agent needs the right to apply objects of the kind
		s.create(cluster, grouped("rbac.authorization.k8s.io", "clusterroles"), `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole,
			metadata: {name: $NAME, labels: {open-cluster-management.io/aggregate-to-work: "true"}},
			rules: [{apiGroups: [`+group+`], resources: ["*"], verbs: ["*"]}]}`)
	}
	s.policy(both)
	install := func(tag string) string { return registry.Source("org/store") + ":" + tag }
	provider := `{apiVersion: pkg.crossplane.io/v1, kind: Provider, metadata: {name: $NAME}, spec: {package: "` + install("v1.0.0") + `", commonLabels: {story: $NAME}}}`
	s.create("wds1", pkgv1.Providers, provider)
	reports := func(kind, status, reason, text string) {
		t.Helper()
		testenv.Eventually(t, arrival, func() (bool, string) {
			obj, err := s.get("wds1", pkgv1.Providers, "", s.name)
			if err != nil {
				return false, err.Error()
			}
			c := meta.FindStatusCondition(testenv.Into[pkgv1.Provider](t, obj).Status.Conditions, kind)
			return c != nil && string(c.Status) == status && c.Reason == reason && strings.Contains(c.Message, text), fmt.Sprintf("%+v", c)
		})
	}
	reports("Installed", "True", "ActivePackageRevision", "")
	s.create("wds1", buckets, `{apiVersion: providers.example.org/v1, kind: Bucket, metadata: {name: $NAME, labels: {story: $NAME}}, spec: {region: eu}}`)
	fieldsIn := func(cluster, want string) {
		t.Helper()
		testenv.Eventually(t, arrival, func() (bool, string) {
			crd, err := s.get(cluster, definitions, "", "buckets."+group)
			if err != nil {
				return false, err.Error()
			}
			return strings.Contains(fmt.Sprint(crd.Object["spec"]), want), fmt.Sprintf("%s has no %s", cluster, want)
		})
	}
	for _, cluster := range []string{"cluster1", "cluster2"} {
		fieldsIn(cluster, "region")
		testenv.Eventually(t, arrival, func() (bool, string) {
			_, err := s.get(cluster, buckets, "", s.name)
			return err == nil, fmt.Sprint(err)
		})
	}

	s.patch("wds1", pkgv1.Providers, "", s.name, `{"spec":{"package":"`+install("v1.1.0")+`"}}`)
	for _, cluster := range []string{"cluster1", "cluster2"} {
		fieldsIn(cluster, "size")
	}
	s.patch("wds1", pkgv1.Providers, "", s.name, `{"spec":{"package":"`+install("v2.0.0")+`"}}`)
	reports("Synced", "False", "ReconcileError", s.name) // the object is named
	fieldsIn("cluster1", "region")

	s.create("cluster1", buckets, `{apiVersion: providers.example.org/v1, kind: Bucket, metadata: {name: own}, spec: {region: eu}}`)
	s.drop(pkgv1.Providers, "", s.name)
	reports("Synced", "False", "ReconcileError", "1 object of buckets."+group)
	s.remove("wds1", buckets, "", s.name)
	s.leaves("wds1", pkgv1.Providers, "", s.name)
	s.leaves("wds1", definitions, "", "buckets."+group)
	for _, cluster := range []string{"cluster1", "cluster2"} {
		s.accounts(cluster, "buckets."+group, false)
		if _, err := s.get(cluster, definitions, "", "buckets."+group); err != nil {
			t.Errorf("%s: %v", cluster, err)
		}
	}
	if _, err := s.get("cluster1", buckets, "", "own"); err != nil {
		t.Errorf("what cluster1 had of its own: %v", err)
	}

	s.create("wds1", pkgv1.Providers, provider)
	reports("Installed", "True", "ActivePackageRevision", "")
	for _, cluster := range []string{"cluster1", "cluster2"} {
		s.accounts(cluster, "buckets."+group, true)
	}
	s.patch("wds1", pkgv1.Providers, "", s.name, `{"metadata":{"annotations":{"pkg.crossplane.io/allow-deletion-of-resources":"true"}}}`)
	s.drop(pkgv1.Providers, "", s.name)
	s.leaves("wds1", pkgv1.Providers, "", s.name)
	for _, cluster := range []string{"cluster1", "cluster2"} {
		s.leaves(cluster, definitions, "", "buckets."+group)
	}
	s.remove("wds1", pkgv1.Providers, "", "org-family") // a dependency stays
}

// accounts waits until OCM's agent of a cluster counts a CustomResourceDefinition among what it has
// applied, or does not any more.
func (s *story) accounts(cluster, name string, want bool) {
	s.Helper()
	testenv.Eventually(s.T, arrival, func() (bool, string) {
		works, err := s.space(cluster, appliedWorks).List(s.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		counts := slices.ContainsFunc(works.Items, func(work unstructured.Unstructured) bool {
			resources, _, _ := unstructured.NestedSlice(work.Object, "status", "appliedResources")
			return slices.ContainsFunc(resources, func(r any) bool { return r.(map[string]any)["name"] == name })
		})
		return counts == want, fmt.Sprintf("the agent of %s counts %s among what it has applied: %t", cluster, name, counts)
	})
}

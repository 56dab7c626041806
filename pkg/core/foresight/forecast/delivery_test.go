package forecast

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/inventory"
	"github.com/starlinghq/starling/pkg/core/objref"
	packagebinding "github.com/starlinghq/starling/pkg/core/packages/binding"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/workload"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// web is the package of the tests. Its revisions are "web.v1" and so on.
var web = packagebinding.Package{Namespace: "default", Repository: "c1", Name: "web"}

// aPackage returns a package with published revisions, of which some are approved.
func aPackage(published int, approved ...int) *Package {
	p := &Package{ID: web, Repository: &configv1alpha1.Repository{Spec: configv1alpha1.RepositorySpec{Deployment: true}}}
	revision := func(n int) *storev1alpha1.PackageRevision {
		r := &storev1alpha1.PackageRevision{}
		r.Namespace, r.Name = web.Namespace, fmt.Sprintf("web.v%d", n)
		r.Spec = porchv1alpha1.PackageRevisionSpec{RepositoryName: web.Repository, PackageName: web.Name, Revision: n, Lifecycle: porchv1alpha1.LifecyclePublished}
		return r
	}
	for n := range published {
		p.Before = append(p.Before, revision(n+1))
	}
	p.After = slices.Clone(p.Before)
	for _, n := range approved {
		p.After = append(p.After, revision(n))
		p.Approved = append(p.Approved, ApprovedRevision{Name: fmt.Sprintf("web.v%d", n), Version: fmt.Sprint(n)})
	}
	return p
}

// contents returns what is in revisions: web.v1 is the first.
func contents(t *testing.T, revisions ...string) map[string]*workload.Workload {
	t.Helper()
	read := map[string]*workload.Workload{}
	for i, text := range revisions {
		w, err := workload.Read(kpt.Files{"all.yaml": text}, func(kind schema.GroupVersionKind) (workload.Resource, bool, error) {
			r, known := kinds[kind.Kind]
			return workload.Resource{Name: r.Resource, Namespaced: kind.Kind != "Namespace"}, known, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		read[fmt.Sprintf("web.v%d", i+1)] = w
	}
	return read
}

const (
	aNamespace = "---\n{apiVersion: v1, kind: Namespace, metadata: {name: web}}\n"
	aConfigMap = "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: web%s}, data: {text: '%s'}}\n"
	aSecret    = "---\n{apiVersion: v1, kind: Secret, metadata: {name: password, namespace: web}, stringData: {key: %s}}\n"
)

func configMap(name, text string) string {
	annotations := ""
	if strings.Contains(text, "{{") {
		annotations = ", annotations: {" + controlv1alpha1.AnnotationExpandTemplates + ": 'true'}"
	}
	return fmt.Sprintf(aConfigMap, name, annotations, text)
}

// TestDelivery: what the approval of revisions does to the cluster of their package.
func TestDelivery(t *testing.T) {
	t.Parallel()
	first := aNamespace + configMap("a", "red") + configMap("b", "red")
	second := aNamespace + configMap("a", "blue") + configMap("c", "red")
	binding := packagebinding.Name(web)
	configMapRef := func(name string) objref.Ref { return objref.Ref{Resource: "configmaps", Namespace: "web", Name: name} }
	cases := map[string]struct {
		pkg      *Package
		contents []string
		world    func(before, after *World)
		others   map[objref.Ref]Other
		want     Approval
		lines    []string
	}{
		"TheFirst": {
			pkg: aPackage(0, 1), contents: []string{first}, want: Approval{Binding: binding, Cluster: "c1", After: "1"},
			lines: []string{"c1: 2 works", "  create ConfigMap web/a", "  create ConfigMap web/b", "  create Namespace web"},
		},
		"TheNext": {
			pkg: aPackage(1, 2), contents: []string{first, second}, want: Approval{Binding: binding, Cluster: "c1", Before: "1", After: "2"},
			lines: []string{
				"c1: 2 works", "  update ConfigMap web/a .data.text: red -> blue", "  delete ConfigMap web/b", "  create ConfigMap web/c",
			},
		},
		"TwoAtOnce": {
			pkg: aPackage(1, 2, 3), contents: []string{first, "", first}, want: Approval{Binding: binding, Cluster: "c1", Before: "1", After: "3"},
		},
		"ASecret": {
			pkg: aPackage(1, 2), contents: []string{fmt.Sprintf(aSecret, "old"), fmt.Sprintf(aSecret, "new")},
			want:  Approval{Binding: binding, Cluster: "c1", Before: "1", After: "2"},
			lines: []string{"c1: 1 works", "  update Secret web/password .stringData.key: (removed) -> (removed)"},
		},
		"ATemplate": {
			pkg: aPackage(1, 2), contents: []string{configMap("a", "in {{.site}}"), configMap("a", "now in {{.site}}")},
			want:  Approval{Binding: binding, Cluster: "c1", Before: "1", After: "2"},
			lines: []string{"c1: 1 works", "  update ConfigMap web/a .data.text: in edge -> now in edge"},
		},
		"ACustomTransform": {
			pkg: aPackage(1, 2), contents: []string{configMap("a", "red"), configMap("a", "blue")},
			world: func(before, after *World) {
				ct := &controlv1alpha1.CustomTransform{}
				ct.Name, ct.Spec.Resource, ct.Spec.Remove = "texts", "configmaps", []string{"$.data.text"}
				before.Transforms[ct.Name], after.Transforms[ct.Name] = ct, ct
			},
			want: Approval{Binding: binding, Cluster: "c1", Before: "1", After: "2"},
		},
		"ANamespaceThatAnotherSourceDelivers": {
			pkg: aPackage(0, 1), contents: []string{configMap("a", "red")},
			others: map[objref.Ref]Other{{Resource: "namespaces", Name: "web"}: {By: `Binding "edge"`}},
			want:   Approval{Binding: binding, Cluster: "c1", After: "1"},
			lines:  []string{"c1: 1 works", "  create ConfigMap web/a"},
		},
		"ANamespaceThatNobodyDelivers": {
			pkg: aPackage(0, 1), contents: []string{configMap("a", "red")}, want: Approval{Binding: binding, Cluster: "c1", After: "1"},
			lines: []string{"c1: 1 works", "  create ConfigMap web/a", `  ! no policy delivers Namespace "web": the clusters need one (1 object)`},
		},
		"WhatAnotherSourceDelivers": {
			pkg: aPackage(1, 2), contents: []string{first, second},
			others: map[objref.Ref]Other{configMapRef("b"): {By: `WDS "b"`}, configMapRef("c"): {By: `WDS "b"`, Content: transform.Hash{1}}},
			want:   Approval{Binding: binding, Cluster: "c1", Before: "1", After: "2"},
			lines: []string{
				"c1: 2 works", "  update ConfigMap web/a .data.text: red -> blue", `  keep ConfigMap web/b (WDS "b" delivers it too)`,
				`  create ConfigMap web/c CONFLICT (WDS "b" delivers it with different content; the first of the two is delivered)`,
			},
		},
		"ANamespaceWithObjectsOfAnotherSource": {
			pkg: aPackage(1, 2), contents: []string{first, configMap("a", "red") + configMap("b", "red")},
			others: map[objref.Ref]Other{configMapRef("z"): {By: `Binding "edge"`}},
			want:   Approval{Binding: binding, Cluster: "c1", Before: "1", After: "2"},
			lines:  []string{"c1: 0 works", "  keep Namespace web (stays, because 2 objects would be deleted with it)"},
		},
		"ANamespaceThatOnlyAnotherSourceNeeds": {
			pkg: aPackage(1, 2), contents: []string{first, "---\n{apiVersion: v1, kind: Namespace, metadata: {name: other}}\n"},
			others: map[objref.Ref]Other{configMapRef("z"): {By: `Binding "edge"`}},
			want:   Approval{Binding: binding, Cluster: "c1", Before: "1", After: "2"},
			lines: []string{
				"c1: 2 works", "  delete ConfigMap web/a", "  delete ConfigMap web/b", "  create Namespace other",
				"  keep Namespace web (stays, because 1 object would be deleted with it)",
			},
		},
		"AHold": {
			pkg: aPackage(1, 2), contents: []string{first, second},
			world: func(before, _ *World) {
				b := &controlv1alpha1.Binding{}
				b.Name, b.Annotations = binding, map[string]string{controlv1alpha1.AnnotationPackage: web.Name, controlv1alpha1.AnnotationHold: "true"}
				b.Spec.Destinations = []controlv1alpha1.Destination{{ClusterID: "c1"}}
				before.Bindings[b.Name] = b
			},
			want: Approval{Binding: binding, Cluster: "c1", Before: "1", After: "2"},
			lines: []string{
				"c1: 0 works", "  keep ConfigMap web/a .data.text: red -> blue (held by the annotation starling.io/hold of Binding " + binding + ")",
				"  keep ConfigMap web/b (held by the annotation starling.io/hold of Binding " + binding + ")",
				"  keep ConfigMap web/c (held by the annotation starling.io/hold of Binding " + binding + ")",
			},
		},
		"AnErrorInTheFiles": { // nothing is deleted, since there may be more objects
			pkg: aPackage(1, 2), contents: []string{first, configMap("a", "blue") + "---\n- 1\n"},
			want:  Approval{Binding: binding, Cluster: "c1", Before: "1", After: "2", Problems: []string{"all.yaml: has documents that are objects, and others that are not: move the others to a file of their own", "until the files are repaired, nothing of the package is removed from clusters"}},
			lines: []string{"c1: 1 works", "  update ConfigMap web/a .data.text: red -> blue"},
		},
		"ContentThatMayNotBeRead": {
			pkg: aPackage(1, 2), contents: []string{first}, want: Approval{Binding: binding, Cluster: "c1", Before: "1", After: "2"},
		},
		"AllAreRefused": {
			pkg:  &Package{ID: web, Approved: []ApprovedRevision{{Name: "web.v1", Refused: "not ready"}}},
			want: Approval{},
		},
		"ALaterOneIsPublished": {
			pkg: func() *Package {
				p := aPackage(0, 1)
				second := aPackage(2).Before[1]
				p.Before, p.After = append(p.Before, second), append(p.After, second)
				return p
			}(),
			want: Approval{Why: "revision 2 stays the latest one"},
		},
		"NoClusterRepository": {
			pkg: func() *Package {
				p := aPackage(0, 1)
				p.Repository.Spec.Deployment = false
				return p
			}(),
			want: Approval{Why: "Repository c1 is no cluster repository: what is in it is not delivered, but can be cloned"},
		},
		"NoRepository": {
			pkg:  func() *Package { p := aPackage(0, 1); p.Repository = nil; return p }(),
			want: Approval{Why: "there is no Repository c1 in namespace default"},
		},
		"NoCluster": {
			pkg: aPackage(0, 1), world: func(before, after *World) { delete(before.Clusters, "c1"); delete(after.Clusters, "c1") },
			want: Approval{Why: "no ITS has a cluster c1"},
		},
		"AClusterThatIsNotAccepted": {
			pkg: aPackage(0, 1), world: func(before, after *World) {
				before.Clusters["c1"] = &Cluster{State: inventory.Absent, Refused: "is not accepted"}
				after.Clusters["c1"] = before.Clusters["c1"]
			},
			want: Approval{Why: "cluster c1 is not accepted"},
		},
		"AClusterThatIsDrained": {
			pkg: aPackage(0, 1), world: func(_, after *World) { after.cluster("c1", "starling.io/drained=true") },
			want: Approval{Why: "cluster c1 is drained: kubectl starling cluster undrain c1"},
		},
		"ANameThatIsTaken": {
			pkg: aPackage(0, 1), world: func(before, after *World) {
				b := &controlv1alpha1.Binding{}
				b.Name = binding
				before.Bindings[binding], after.Bindings[binding] = b, b
			},
			want: Approval{Why: "Binding " + binding + " has the name that its Binding needs, and does not belong to it"},
		},
	}
	for name, tc := range cases {
		before := newWorld()
		before.cluster("c1", "site=edge")
		after := before.Clone()
		if tc.world != nil {
			tc.world(before, after)
		}
		read := contents(t, tc.contents...)
		d := NewDelivery(tc.pkg, before, after)
		tc.want.Package, tc.want.Revisions = web.String(), tc.pkg.Approved
		if diff := cmp.Diff(tc.want, d.Approval(read)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(tc.lines, (&Forecast{Groups: d.Groups(read, tc.others)}).lines()); diff != "" {
			t.Errorf("%s: groups (-want +got):\n%s", name, diff)
		}
		if len(d.Needs()) > 0 != d.Changes() {
			t.Errorf("%s: needs %v, changes %v", name, d.Needs(), d.Changes())
		}
	}
}

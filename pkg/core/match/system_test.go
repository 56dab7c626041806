package match

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/starlinghq/starling/pkg/core/objref"
)

// TestSystemNamespaces: a clause selects what is in kube-system if it names the Namespace, and
// otherwise says what it would select. The order in which policy and objects come does not matter.
func TestSystemNamespaces(t *testing.T) {
	configMaps := Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Kind: "ConfigMap"}
	named := func(operator metav1.LabelSelectorOperator, values ...string) []metav1.LabelSelector {
		return []metav1.LabelSelector{{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "kubernetes.io/metadata.name", Operator: operator, Values: values}}}}
	}
	const selects, says, nothing = "selects", "says", "nothing"
	cases := map[string]struct {
		test objectTest
		want string
	}{
		"Namespaces":         {objectTest{Namespaces: []string{"shop", "kube-system"}}, selects},
		"NamespacesAndAll":   {objectTest{Namespaces: []string{"*", "kube-system"}}, selects},
		"NamespaceSelector":  {objectTest{NamespaceSelectors: named(metav1.LabelSelectorOpIn, "kube-system")}, selects},
		"OtherName":          {objectTest{NamespaceSelectors: named(metav1.LabelSelectorOpIn, "kube-public"), Namespaces: []string{"kube-public"}}, nothing},
		"LabelOfNamespace":   {objectTest{NamespaceSelectors: []metav1.LabelSelector{selector("env", "prod")}}, says},
		"LabelOfObject":      {objectTest{ObjectSelectors: []metav1.LabelSelector{selector("app", "dns")}}, says},
		"Name":               {objectTest{ObjectNames: []string{"dns"}}, says},
		"Excluded":           {objectTest{ObjectNames: []string{"dns"}, NamespaceSelectors: named(metav1.LabelSelectorOpNotIn, "kube-system")}, nothing},
		"Resource":           {objectTest{Resources: []string{"configmaps"}}, nothing},
		"Everything":         {objectTest{ObjectNames: []string{"*"}}, nothing},
		"EverythingInSystem": {objectTest{Namespaces: []string{"kube-system"}, ObjectNames: []string{"*"}}, selects},
	}
	for name, tc := range cases {
		for _, policyFirst := range []bool{true, false} {
			index := NewIndex(Options{})
			policy := mustCompile(t, downsync(tc.test))
			if policyFirst {
				index.SetPolicy("p", policy)
			}
			index.SetNamespace("kube-system", map[string]string{"kubernetes.io/metadata.name": "kube-system", "env": "prod"})
			index.SetObject(configMaps, &metav1.ObjectMeta{Namespace: "kube-system", Name: "dns", Labels: map[string]string{"app": "dns"}})
			index.SetObject(configMaps, &metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-root-ca.crt", Labels: map[string]string{"app": "dns"}})
			if !policyFirst {
				index.SetPolicy("p", policy)
			}
			snapshot, _, _ := index.Snapshot("p", Listed{})
			texts := index.Withheld("p")
			got := nothing
			switch {
			case len(snapshot.Matches) > 0:
				got = selects
			case len(texts) > 0:
				got = says
			}
			if got != tc.want || len(snapshot.Matches)+len(texts) > 1 {
				t.Errorf("%s, policy first %t: %s, want %s: %v %q", name, policyFirst, got, tc.want, snapshot.Matches, texts)
			}
		}
	}
}

// TestWithheldFollows: what a policy says of kube-system follows its clauses and the objects.
func TestWithheldFollows(t *testing.T) {
	configMaps := Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Kind: "ConfigMap"}
	object := func(app string) *metav1.ObjectMeta {
		return &metav1.ObjectMeta{Namespace: "kube-system", Name: "dns", Labels: map[string]string{"app": app}}
	}
	index := NewIndex(Options{})
	says := func(want ...string) {
		t.Helper()
		got := index.Withheld("p")
		for i := range got {
			got[i], _, _ = strings.Cut(got[i], ": ")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	labelled := objectTest{ObjectSelectors: []metav1.LabelSelector{selector("app", "dns")}}
	index.SetPolicy("p", mustCompile(t, downsync(objectTest{Namespaces: []string{"shop"}}, labelled)))
	if changes := index.SetObject(configMaps, object("dns")); changes.Policies["p"] == 0 {
		t.Error("an object that the policy does not deliver changed nothing")
	}
	says("spec.downsync[1]")
	index.SetObject(configMaps, object("web"))
	says()
	index.SetObject(configMaps, object("dns"))
	index.SetPolicy("p", mustCompile(t, downsync(labelled)))
	says("spec.downsync[0]")
	index.SetPolicy("p", mustCompile(t, downsync(labelled, objectTest{Namespaces: []string{"kube-system"}})))
	says()
	index.SetPolicy("p", mustCompile(t, downsync(labelled)))
	if changes := index.DeleteObject(objref.Ref{Resource: "configmaps", Namespace: "kube-system", Name: "dns"}); changes.Policies["p"] == 0 {
		t.Error("the end of an object that the policy does not deliver changed nothing")
	}
	says()
}

func TestManagementNamespace(t *testing.T) {
	for ref, want := range map[objref.Ref]bool{
		{Resource: "secrets", Namespace: "open-cluster-management-agent-addon", Name: "x"}:  true,
		{Resource: "namespaces", Name: "open-cluster-management"}:                           true,
		{Resource: "namespaces", Name: "open-cluster-managements"}:                          false,
		{Resource: "clusterroles", Name: "open-cluster-management"}:                         false,
		{Resource: "configmaps", Namespace: "shop", Name: "open-cluster-management"}:        false,
		{Group: "example.com", Resource: "namespaces", Name: "open-cluster-management-hub"}: false,
	} {
		if _, got := ManagementNamespace(ref); got != want {
			t.Errorf("%s: %t, want %t", ref, got, want)
		}
	}
}

func TestEssentialNamespace(t *testing.T) {
	for name, want := range map[string]bool{
		"default": true, "kube-system": true, "kube-public": true, "kube-node-lease": true,
		"open-cluster-management": true, "open-cluster-management-agent": true,
		"kube-prometheus": false, "kube-": false, "kubeflow": false, "open-cluster-managements": false, "shop": false, "": false,
	} {
		if got := EssentialNamespace(name); got != want {
			t.Errorf("%q: %t, want %t", name, got, want)
		}
	}
}

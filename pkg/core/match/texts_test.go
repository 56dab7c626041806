package match

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/test/golden"
)

// servesApps serves deployments, and leases that are no workload.
type servesApps struct{}

func (servesApps) Serves(group *string, resource string) (serves, known bool) {
	switch {
	case group == nil:
		return resource == "deployments" || resource == "leases" || resource == "namespaces", true
	case *group == "apps":
		return resource == "" || resource == "deployments", true
	}
	return *group == "coordination.k8s.io" && (resource == "" || resource == "leases"), true
}

func (servesApps) Selects(group *string, resource string) bool {
	return (group == nil || *group == "apps") && resource != "leases"
}

// TestTexts lists the mistakes in the spec of a BindingPolicy as users read them in status.errors.
func TestTexts(t *testing.T) {
	group := func(name string) *string { return &name }
	spec := &controlv1alpha1.BindingPolicySpec{
		ClusterSelectors: []metav1.LabelSelector{{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "site", Operator: "Is"}}}},
		Downsync: []controlv1alpha1.DownsyncPolicyClause{
			{},
			{DownsyncObjectTest: controlv1alpha1.DownsyncObjectTest{APIGroup: group("example.com")}},
			{DownsyncObjectTest: controlv1alpha1.DownsyncObjectTest{APIGroup: group("coordination.k8s.io")}},
			{DownsyncObjectTest: controlv1alpha1.DownsyncObjectTest{APIGroup: group(""), Resources: []string{"deployments"}}},
			{DownsyncObjectTest: controlv1alpha1.DownsyncObjectTest{Resources: []string{"deployments.apps", "Deployment", "leases"}}},
			{DownsyncObjectTest: controlv1alpha1.DownsyncObjectTest{Namespaces: []string{"kube-system", "starling-system"}}},
			{DownsyncObjectTest: controlv1alpha1.DownsyncObjectTest{Resources: []string{"namespaces"}, ObjectNames: []string{"kube-system"}}},
		},
	}
	var texts []golden.Text
	_, invalid := Compile(spec)
	for i, text := range invalid {
		texts = append(texts, golden.Text{Heading: fmt.Sprintf("invalid %d", i+1), Text: text})
	}
	for i, text := range Unserved(spec, servesApps{}) {
		texts = append(texts, golden.Text{Heading: fmt.Sprintf("not served %d", i+1), Text: text})
	}
	index := NewIndex(Options{})
	index.SetPolicy("p", mustCompile(t, downsync(objectTest{ObjectSelectors: []metav1.LabelSelector{selector("app", "dns")}})))
	configMaps := Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Kind: "ConfigMap"}
	for i := range 5 {
		index.SetObject(configMaps, &metav1.ObjectMeta{Namespace: "kube-system", Name: fmt.Sprintf("dns-%d", i), Labels: map[string]string{"app": "dns"}})
		if i == 0 || i == 4 {
			texts = append(texts, golden.Text{Heading: fmt.Sprintf("not delivered %d", i+1), Text: index.Withheld("p")[0]})
		}
	}
	index = NewIndex(Options{})
	index.SetPolicy("p", mustCompile(t, downsync(objectTest{ObjectSelectors: []metav1.LabelSelector{selector("app", "dns")}})))
	slices := Resource{GroupVersionResource: endpointSlices.WithVersion("v1"), Kind: "EndpointSlice"}
	for i := range 2 {
		index.SetObject(slices, &metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("db-%d", i), Labels: map[string]string{"app": "dns"}})
		texts = append(texts, golden.Text{Heading: fmt.Sprintf("no workload %d", i+1), Text: index.Withheld("p")[0]})
	}
	golden.Texts(t, texts...)
}

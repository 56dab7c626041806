package status

import (
	"encoding/json"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/starlinghq/starling/test/testenv"
)

// TestPolicyBoundsStatusReturn: of all that RBAC lets the binding-controller patch, the admission
// policy leaves it .status and its own labels; and RBAC keeps it from the policy.
func TestPolicyBoundsStatusReturn(t *testing.T) {
	wds, _, _ := fleet(t)
	const ns = "policy"
	wds.namespace(t, ns)
	wds.create(t, configMaps, map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{
			"name": "c", "namespace": ns, "labels": map[string]any{"app": "x"}, "annotations": map[string]any{"note": "x"},
		},
		"data": map[string]any{"k": "v"},
	})
	wds.create(t, deployments, deployment(ns, "d"))
	wds.create(t, widgets, map[string]any{
		"apiVersion": "test.example.com/v1", "kind": "Widget",
		"metadata": map[string]any{"name": "w", "namespace": ns}, "spec": map[string]any{"size": 1},
	})
	wds.create(t, gadgets, map[string]any{
		"apiVersion": "test.example.com/v1", "kind": "Gadget",
		"metadata": map[string]any{"name": "policy"}, "spec": map[string]any{"size": 1},
	})
	user, group := serviceAccount("starling-system", "binding-controller")
	client, err := dynamic.NewForConfig(wds.As(user, group))
	if err != nil {
		t.Fatal(err)
	}
	try := func(gvr schema.GroupVersionResource, namespace, name, patch string, subresources ...string) error {
		if !json.Valid([]byte(patch)) {
			t.Fatalf("bad patch %s", patch)
		}
		_, err := client.Resource(gvr).Namespace(namespace).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
		return err
	}
	// A policy takes effect some time after it was created.
	testenv.Eventually(t, patience, func() (bool, string) {
		err := try(configMaps, ns, "c", `{"data":{"k":"v"},"metadata":{"annotations":{"probe":"x"}}}`)
		return apierrors.IsInvalid(err) || apierrors.IsForbidden(err), "the policy is not in force"
	})

	const own = `{"metadata":{"labels":{"managed-by.kubestellar.io/singletonstatus":"true"}}}`
	for name, tc := range map[string]struct {
		gvr         schema.GroupVersionResource
		namespace   string
		name        string
		patch       string
		subresource []string
		wantRefused bool
	}{
		"OwnLabelOfBuiltIn":         {gvr: configMaps, namespace: ns, name: "c", patch: own},
		"OwnLabelOfDeployment":      {gvr: deployments, namespace: ns, name: "d", patch: own},
		"OwnLabelOfCustomResource":  {gvr: widgets, namespace: ns, name: "w", patch: own},
		"OwnLabelOfClusterScoped":   {gvr: gadgets, name: "policy", patch: own},
		"OwnLabelOfNamespace":       {gvr: namespaces, name: ns, patch: own},
		"OtherOwnLabel":             {gvr: configMaps, namespace: ns, name: "c", patch: `{"metadata":{"labels":{"managed-by.kubestellar.io/multiwecstatus":"true"}}}`},
		"ExecutingCount":            {gvr: configMaps, namespace: ns, name: "c", patch: `{"metadata":{"labels":{"kubestellar.io/executing-count":"2"}}}`},
		"LikeExecutingCount":        {gvr: configMaps, namespace: ns, name: "c", patch: `{"metadata":{"labels":{"kubestellar.io/executing-counts":"2"}}}`, wantRefused: true},
		"StatusOfDeployment":        {gvr: deployments, namespace: ns, name: "d", patch: `{"status":{"replicas":3}}`, subresource: []string{"status"}},
		"StatusOfCustomResource":    {gvr: widgets, namespace: ns, name: "w", patch: `{"status":{"count":3}}`, subresource: []string{"status"}},
		"StatusWithoutSubresource":  {gvr: gadgets, name: "policy", patch: `{"status":{"anything":3}}`},
		"StatusAndOwnLabelTogether": {gvr: gadgets, name: "policy", patch: `{"status":{"anything":4},"metadata":{"labels":{"managed-by.kubestellar.io/singletonstatus":null}}}`},
		"NothingChanged":            {gvr: configMaps, namespace: ns, name: "c", patch: `{"data":{"k":"v"}}`},
		"DataOfBuiltIn":             {gvr: configMaps, namespace: ns, name: "c", patch: `{"data":{"k":"other"}}`, wantRefused: true},
		"DataRemoved":               {gvr: configMaps, namespace: ns, name: "c", patch: `{"data":null}`, wantRefused: true},
		"FieldAdded":                {gvr: configMaps, namespace: ns, name: "c", patch: `{"immutable":true}`, wantRefused: true},
		"SpecOfDeployment":          {gvr: deployments, namespace: ns, name: "d", patch: `{"spec":{"replicas":9}}`, wantRefused: true},
		"SpecOfCustomResource":      {gvr: widgets, namespace: ns, name: "w", patch: `{"spec":{"size":9}}`, wantRefused: true},
		"SpecBesideStatus":          {gvr: gadgets, name: "policy", patch: `{"status":{"anything":5},"spec":{"size":9}}`, wantRefused: true},
		"SpecRemoved":               {gvr: gadgets, name: "policy", patch: `{"spec":null}`, wantRefused: true},
		"ForeignLabelAdded":         {gvr: configMaps, namespace: ns, name: "c", patch: `{"metadata":{"labels":{"new":"x"}}}`, wantRefused: true},
		"ForeignLabelChanged":       {gvr: configMaps, namespace: ns, name: "c", patch: `{"metadata":{"labels":{"app":"y"}}}`, wantRefused: true},
		"ForeignLabelRemoved":       {gvr: configMaps, namespace: ns, name: "c", patch: `{"metadata":{"labels":{"app":null}}}`, wantRefused: true},
		"AllLabelsRemoved":          {gvr: configMaps, namespace: ns, name: "c", patch: `{"metadata":{"labels":null}}`, wantRefused: true},
		"LabelWithOurPrefixInside":  {gvr: configMaps, namespace: ns, name: "c", patch: `{"metadata":{"labels":{"x.managed-by.kubestellar.io/a":"x"}}}`, wantRefused: true},
		"AnnotationAdded":           {gvr: deployments, namespace: ns, name: "d", patch: `{"metadata":{"annotations":{"new":"x"}}}`, wantRefused: true},
		"AnnotationChanged":         {gvr: configMaps, namespace: ns, name: "c", patch: `{"metadata":{"annotations":{"note":"y"}}}`, wantRefused: true},
		"AnnotationsRemoved":        {gvr: configMaps, namespace: ns, name: "c", patch: `{"metadata":{"annotations":null}}`, wantRefused: true},
		"FinalizerAdded":            {gvr: widgets, namespace: ns, name: "w", patch: `{"metadata":{"finalizers":["example.com/x"]}}`, wantRefused: true},
		"OwnerAdded":                {gvr: configMaps, namespace: ns, name: "c", patch: `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"c","uid":"u"}]}}`, wantRefused: true},
		"AnotherSubresource":        {gvr: deployments, namespace: ns, name: "d", patch: `{"spec":{"replicas":9}}`, subresource: []string{"scale"}, wantRefused: true},
	} {
		t.Run(name, func(t *testing.T) {
			err := try(tc.gvr, tc.namespace, tc.name, tc.patch, tc.subresource...)
			switch {
			case tc.wantRefused && (err == nil || !strings.Contains(err.Error(), "starling-status-return")):
				t.Errorf("error %v, want a refusal by the policy", err)
			case !tc.wantRefused && err != nil:
				t.Errorf("refused: %v", err)
			}
		})
	}
	admission := schema.GroupVersion{Group: "admissionregistration.k8s.io", Version: "v1"}
	for name, tc := range map[string]struct {
		gvr   schema.GroupVersionResource
		name  string
		patch string
	}{
		"TheBound":           {admission.WithResource("validatingadmissionpolicies"), "starling-status-return", `{"spec":{"failurePolicy":"Ignore"}}`},
		"WhereTheBoundHolds": {admission.WithResource("validatingadmissionpolicybindings"), "starling-status-return", `{"spec":{"validationActions":["Audit"]}}`},
		"OwnRights": {
			schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
			"starling:binding-controller", `{"metadata":{"labels":{"managed-by.kubestellar.io/singletonstatus":"true"}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := try(tc.gvr, "", tc.name, tc.patch); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "cannot patch resource") {
				t.Errorf("error %v, want a refusal by RBAC", err)
			}
		})
	}
	t.Run("OthersAreNotBound", func(t *testing.T) {
		wds.patch(t, deployments, ns, "d", map[string]any{"spec": map[string]any{"replicas": 2}})
	})
}

func deployment(namespace, name string) map[string]any {
	labels := map[string]any{"app": name}
	return map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": name, "namespace": namespace},
		"spec": map[string]any{
			"replicas": 1,
			"selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{
				"metadata": map[string]any{"labels": labels},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "c", "image": "example.com/none"}}},
			},
		},
	}
}

package e2e

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/test/testenv"
)

// TestSecretsStaySecret attacks invariant 10: a Secret is delivered, edited, and refused by one of
// its clusters, and its payload stands nowhere but in the objects that carry it.
func TestSecretsStaySecret(t *testing.T) {
	t.Parallel()
	fleet := testenv.Shared(t)
	s := tell(t, fleet)
	const payload, edited = "correct-horse-battery-staple", "hunter2-hunter2-hunter2"
	secrets := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	s.refuseSecrets("cluster1")
	s.namespace()
	s.create("wds1", secrets,
		`{apiVersion: v1, kind: Secret, metadata: {name: password, namespace: $NAME, labels: {story: $NAME}}, stringData: {key: `+payload+`}}`)
	s.policy(both)
	holds := func(value string) {
		t.Helper()
		testenv.Eventually(t, arrival, func() (bool, string) {
			obj, err := s.get("cluster2", secrets, s.name, "password")
			if err != nil {
				return false, err.Error()
			}
			data, ok := obj.Object["data"].(map[string]any)
			return ok && data["key"] == base64.StdEncoding.EncodeToString([]byte(value)), "cluster2 does not hold the payload"
		})
	}
	holds(payload)
	s.patch("wds1", secrets, s.name, "password", `{"stringData":{"key":"`+edited+`"}}`)
	holds(edited)
	testenv.Eventually(t, arrival, func() (bool, string) {
		said := strings.Join(s.observed().Status.Errors, "\n")
		return strings.Contains(said, "cluster1") && strings.Contains(said, "password"), "status.errors of the policy: " + said
	})

	// Every place that Starling writes to, but the works.
	places := map[string]string{}
	for name, gvr := range map[string]schema.GroupVersionResource{
		"policies": controlv1alpha1.BindingPolicies, "Bindings": controlv1alpha1.Bindings, "events": {Version: "v1", Resource: "events"},
	} {
		places[name+" of wds1"] = s.everything("wds1", gvr)
	}
	places["reports"] = s.everything("its1", controlv1alpha1.WorkStatuses)
	places["events of its1"] = s.everything("its1", schema.GroupVersionResource{Version: "v1", Resource: "events"})
	for _, c := range fleet.Components(t) {
		if !slices.Contains([]string{"its1", "wds1", "wds2", "cluster1", "cluster2"}, c.Space) {
			continue // other tests add and remove clusters
		}
		switch c.Program {
		case "binding-controller", "transport-controller", "status-agent":
			log, err := os.ReadFile(c.Log)
			if err != nil {
				t.Fatal(err)
			}
			places["log of "+c.Name] = string(log)
			places["metrics of "+c.Name] = s.metrics(c.Name)
		}
	}
	if len(places) < 15 {
		t.Errorf("searched %d places, want at least 15: %v", len(places), places)
	}
	for place, text := range places {
		if text == "" && !strings.HasPrefix(place, "events") {
			t.Errorf("%s: nothing there to search", place)
		}
		for _, value := range []string{payload, edited} {
			if strings.Contains(text, value) || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte(value))) {
				t.Errorf("%s contains the payload of a Secret", place)
			}
		}
	}
}

// refuseSecrets makes a cluster refuse the story's Secrets with an error text that holds their
// payload.
func (s *story) refuseSecrets(cluster string) {
	s.Helper()
	admission := schema.GroupVersion{Group: "admissionregistration.k8s.io", Version: "v1"}
	s.create(cluster, namespaces, `{apiVersion: v1, kind: Namespace, metadata: {name: $NAME}}`)
	s.create(cluster, admission.WithResource("validatingadmissionpolicies"), `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: $NAME}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [secrets]}]
  matchConditions: [{name: here, expression: "request.namespace == '$NAME'"}]
  validations: [{expression: "false", messageExpression: "'refused: ' + string(object.data.key)"}]`)
	s.create(cluster, admission.WithResource("validatingadmissionpolicybindings"), `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: $NAME}
spec: {policyName: $NAME, validationActions: [Deny]}`)
	probe := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "probe", "namespace": s.name},
		"stringData": map[string]any{"key": "probe"},
	}}
	testenv.Eventually(s, arrival, func() (bool, string) {
		_, err := s.space(cluster, schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace(s.name).
			Create(s.Context(), probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil && strings.Contains(err.Error(), "refused"), fmt.Sprintf("the policy is not in force (%v)", err)
	})
}

// everything returns all objects of a resource as JSON.
func (s *story) everything(space string, gvr schema.GroupVersionResource) string {
	s.Helper()
	list, err := s.space(space, gvr).List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	data, err := list.MarshalJSON()
	if err != nil {
		s.Fatal(err)
	}
	return string(data)
}

// metrics returns the metrics of a component, which another test may restart.
func (s *story) metrics(component string) string {
	s.Helper()
	var body []byte
	testenv.Eventually(s, arrival, func() (bool, string) {
		request, err := http.NewRequestWithContext(s.Context(), http.MethodGet, "http://"+s.fleet.Component(s, component).Address+"/metrics", http.NoBody)
		if err != nil {
			s.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false, err.Error()
		}
		defer response.Body.Close()
		body, err = io.ReadAll(response.Body)
		return err == nil, fmt.Sprint(err)
	})
	return string(body)
}

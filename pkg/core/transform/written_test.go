package transform_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	kjson "k8s.io/apimachinery/pkg/util/json"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// entry is an entry of managedFields.
func entry(operation, manager, subresource, fields string) string {
	if subresource != "" {
		subresource = `,"subresource":"` + subresource + `"`
	}
	return fmt.Sprintf(`{"manager":%q,"operation":%q,"fieldsV1":%s%s}`, manager, operation, fields, subresource)
}

// TestWritten checks which fields count as written, by what an API server records. What it records
// is checked with a real one (TestWhatUsersWriteArrives in test/integration/transport).
func TestWritten(t *testing.T) {
	const (
		replicas = `{"f:spec":{"f:replicas":{}}}`
		port     = `{"f:spec":{"f:ports":{".":{},"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:nodePort":{},"f:port":{}}}}}`
		number   = `{"ports":[{"nodePort":30080,"port":80,"protocol":"TCP"},{"port":81}]}`
		none     = `{"ports":[{"port":80,"protocol":"TCP"},{"port":81}]}`
	)
	deployments, services := objref.Ref{Group: "apps", Resource: "deployments", Name: "a"}, objref.Ref{Resource: "services", Name: "a"}
	for name, tc := range map[string]struct {
		ref     objref.Ref
		applied string // the annotation of kubectl apply
		entries string
		spec    string
		want    string
	}{
		"Nobody":         {deployments, "", ``, `{"replicas":1}`, `{}`},
		"ADefault":       {deployments, "", entry("Update", "kubectl-create", "", replicas), `{"replicas":1}`, `{}`},
		"AnotherValue":   {deployments, "", entry("Update", "kubectl-create", "", replicas), `{"replicas":2}`, `{"replicas":2}`},
		"Applied":        {deployments, "", entry("Apply", "argocd", "", replicas), `{"replicas":1}`, `{"replicas":1}`},
		"Scaled":         {deployments, "", entry("Update", "kubectl", "scale", replicas), `{"replicas":1}`, `{"replicas":1}`},
		"Status":         {deployments, "", entry("Update", "status", "status", replicas), `{"replicas":1}`, `{}`},
		"AppliedStatus":  {deployments, "", entry("Apply", "status", "status", replicas), `{"replicas":1}`, `{}`},
		"Configured":     {deployments, `{"spec":{"replicas":1}}`, entry("Update", "kubectl", "", `{}`), `{"replicas":1}`, `{"replicas":1}`},
		"NotConfigured":  {deployments, `{"spec":{}}`, entry("Update", "kubectl", "", replicas), `{"replicas":1}`, `{}`},
		"Null":           {deployments, `{"spec":{"replicas":null}}`, ``, `{"replicas":1}`, `{}`},
		"Copied":         {deployments, `{"metadata":{"uid":"u"},"spec":{"replicas":1}}`, ``, `{"replicas":1}`, `{}`},
		"NoJSON":         {deployments, `{`, ``, `{"replicas":1}`, `{}`},
		"Beside":         {deployments, "", entry("Update", "a", "", `{"f:spec":{"f:paused":{}}}`) + "," + entry("Apply", "b", "", replicas), `{"replicas":1}`, `{"replicas":1}`},
		"NotTheSpec":     {deployments, "", entry("Apply", "b", "", `{"f:spec":{".":{}}}`), `{"replicas":1}`, `{}`},
		"AsAWhole":       {deployments, "", entry("Apply", "b", "", `{"f:spec":{}}`), `{"replicas":1}`, `{"replicas":1}`},
		"Number":         {services, "", entry("Update", "kubectl-create", "", port), number, number},
		"NumberOfNobody": {services, "", entry("Update", "kubectl-create", "", `{"f:spec":{"f:ports":{"k:{\"port\":80,\"protocol\":\"UDP\"}":{"f:nodePort":{}}}}}`), number, none},
		"NumberForgotten": {
			services, "", entry("Update", "before-first-apply", "", port), number, none,
		},
		"NumberConfigured":      {services, `{"spec":{"ports":[{"port":80,"nodePort":30080}]}}`, ``, number, number},
		"NumberOfAnotherPort":   {services, `{"spec":{"ports":[{"port":81,"nodePort":30080}]}}`, ``, number, none},
		"NumberLeftToTheServer": {services, `{"spec":{"ports":[{"port":80,"nodePort":0}]}}`, entry("Update", "kubectl", "", port), number, none},
		"AddressLeftToTheServer": {
			services, `{"spec":{"clusterIP":""}}`, entry("Update", "kubectl", "", `{"f:spec":{"f:clusterIP":{}}}`), `{"clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1"]}`, `{}`,
		},
		"HealthCheck": {
			services, "", entry("Apply", "kubectl", "", `{"f:spec":{"f:healthCheckNodePort":{},"f:externalTrafficPolicy":{}}}`),
			`{"externalTrafficPolicy":"Local","healthCheckNodePort":31000}`, `{"externalTrafficPolicy":"Local","healthCheckNodePort":31000}`,
		},
		"HealthCheckOfNobody": {services, "", ``, `{"externalTrafficPolicy":"Local","healthCheckNodePort":31000}`, `{"externalTrafficPolicy":"Local"}`},
		"AffinityIsOver":      {services, "", ``, `{"sessionAffinity":"None","sessionAffinityConfig":{"clientIP":{"timeoutSeconds":600}}}`, `{}`},
		"BothFamilies": {
			services, "", entry("Apply", "kubectl", "", `{"f:spec":{"f:ipFamilies":{},"f:ipFamilyPolicy":{}}}`),
			`{"ipFamilies":["IPv6","IPv4"],"ipFamilyPolicy":"RequireDualStack"}`, `{"ipFamilies":["IPv6","IPv4"],"ipFamilyPolicy":"RequireDualStack"}`,
		},
		"FamiliesOfNobody": {services, "", ``, `{"ipFamilies":["IPv6","IPv4"],"ipFamilyPolicy":"RequireDualStack"}`, `{}`},
		"Addresses": {
			services, "", entry("Apply", "kubectl", "", `{"f:spec":{"f:clusterIP":{},"f:clusterIPs":{}}}`),
			`{"clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1","fd00::1"]}`, `{"clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1","fd00::1"]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			text := fmt.Sprintf(`{"apiVersion":"v1","kind":"X","metadata":{"name":"a","uid":"u","managedFields":[%s]},"spec":%s}`, tc.entries, tc.spec)
			var in map[string]any
			if err := kjson.Unmarshal([]byte(text), &in); err != nil {
				t.Fatal(err)
			}
			if tc.applied != "" {
				in["metadata"].(map[string]any)["annotations"] = map[string]any{"kubectl.kubernetes.io/last-applied-configuration": tc.applied}
			}
			expectSpec(t, tc.ref, in, tc.want)
		})
	}
}

func expectSpec(t *testing.T, ref objref.Ref, in map[string]any, want string) {
	t.Helper()
	object, err := transform.Standard().Apply(ref, in)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Spec json.RawMessage `json:"spec"`
	}
	if err := json.Unmarshal(object.JSON, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got.Spec)); diff != "" {
		t.Errorf("the spec (-want +got):\n%s", diff)
	}
}

// TestAnyContentOfPackages: no API server has validated what is in a package, or in an annotation.
func TestAnyContentOfPackages(t *testing.T) {
	odd := []any{map[string]any{"a": int64(1)}, []any{map[string]any{}}, "x", int64(1), true, nil}
	for ref, spec := range map[objref.Ref]string{
		{Resource: "services", Name: "a"}: `{"clusterIP":"None","clusterIPs":["10.0.0.1"],"type":"LoadBalancer","ports":[{"port":80,"nodePort":30080,"protocol":"UDP"}],
			"externalTrafficPolicy":"Local","healthCheckNodePort":1,"sessionAffinity":"ClientIP","ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack"}`,
		{Group: "apps", Resource: "deployments", Name: "a"}: `{"replicas":1,"template":{"spec":{"containers":[{"name":"c"}]}}}`,
		{Group: "batch", Resource: "jobs", Name: "a"}:       `{"suspend":false,"selector":{"matchLabels":{"controller-uid":"u"}},"manualSelector":true,"template":{"metadata":{"labels":{"controller-uid":"u"}}}}`,
		{Resource: "pods", Name: "a"}: `{"priority":1,"tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}],
			"volumes":[{"name":"kube-api-access-x","projected":{}}],"containers":[{"volumeMounts":[{"name":"kube-api-access-x"}]}]}`,
		{Resource: "serviceaccounts", Name: "a"}: `{"secrets":[{"name":"x"}]}`,
	} {
		var replace func(value any, with any, visit func())
		replace = func(value any, with any, visit func()) { // each place in turn
			switch value := value.(type) {
			case map[string]any:
				for name, below := range value {
					value[name] = with
					visit()
					value[name] = below
					replace(below, with, visit)
				}
			case []any:
				for i, below := range value {
					value[i] = with
					visit()
					value[i] = below
					replace(below, with, visit)
				}
			}
		}
		for _, with := range odd {
			for _, uid := range []any{nil, "u"} {
				o := map[string]any{"apiVersion": "v1", "kind": "X"}
				var fields any
				if err := kjson.Unmarshal([]byte(spec), &fields); err != nil {
					t.Fatal(err)
				}
				o["spec"] = fields
				replace(fields, with, func() {
					raw, err := json.Marshal(o)
					if err != nil {
						t.Fatal(err)
					}
					var in map[string]any
					if err := kjson.Unmarshal(raw, &in); err != nil {
						t.Fatal(err)
					}
					in["metadata"] = map[string]any{"name": "a", "uid": uid, "annotations": map[string]any{"kubectl.kubernetes.io/last-applied-configuration": string(raw)}}
					_, _ = transform.Standard().Apply(ref, in) // it may refuse it
				})
			}
		}
	}
}

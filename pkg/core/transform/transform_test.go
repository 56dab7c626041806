package transform_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	kjson "k8s.io/apimachinery/pkg/util/json"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/transform"
)

func TestStandard(t *testing.T) {
	deployments := objref.Ref{Group: "apps", Resource: "deployments", Namespace: "web", Name: "nginx"}
	services := objref.Ref{Resource: "services", Namespace: "web", Name: "nginx"}
	jobs := objref.Ref{Group: "batch", Resource: "jobs", Namespace: "web", Name: "once"}

	claims := objref.Ref{Resource: "persistentvolumeclaims", Namespace: "web", Name: "data"}
	volumes := objref.Ref{Resource: "persistentvolumes", Name: "disk"}

	cases := map[string]struct {
		ref     objref.Ref
		in      string
		want    string
		wantErr bool
	}{
		"ServerOwnedMetadataGoes": {
			ref: deployments,
			in: `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"nginx","namespace":"web","uid":"u","resourceVersion":"7",
				"generation":3,"generateName":"ng","selfLink":"/x","finalizers":["f"],"ownerReferences":[{"name":"o"}],
				"managedFields":[{"manager":"m"}],"creationTimestamp":"2026-01-01T00:00:00Z","deletionTimestamp":"2026-01-01T00:00:00Z",
				"deletionGracePeriodSeconds":30,"invented":"later",
				"labels":{"app":"nginx"},"annotations":{"note":"kept","kubectl.kubernetes.io/last-applied-configuration":"{}"}},
				"spec":{"replicas":2},"status":{"replicas":2}}`,
			want: `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"annotations":{"note":"kept"},"labels":{"app":"nginx"},"name":"nginx","namespace":"web"},"spec":{"replicas":2}}`,
		},
		"LabelsThatWeWriteGo": {
			ref: deployments,
			in: `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"nginx","namespace":"web",
				"labels":{"managed-by.kubestellar.io/singletonstatus":"true","managed-by.kubestellar.io/multiwecstatus":"true"}}}`,
			want: `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"nginx","namespace":"web"}}`,
		},
		"NumbersAreCanonical": {
			ref:  deployments,
			in:   `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"n"},"spec":{"a":1.0,"b":-0.0,"c":1e2,"d":0.5,"e":[2.0],"f":9007199254740993}}`,
			want: `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"n"},"spec":{"a":1,"b":0,"c":100,"d":0.5,"e":[2],"f":9007199254740993}}`,
		},
		"Service": {
			ref: services,
			in: `{"apiVersion":"v1","kind":"Service","metadata":{"name":"nginx","namespace":"web","uid":"u"},"spec":{"clusterIP":"10.0.0.1",
				"clusterIPs":["10.0.0.1","fd00::1"],"ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack","externalTrafficPolicy":"Cluster",
				"internalTrafficPolicy":"Cluster","sessionAffinity":"None","healthCheckNodePort":31000,"type":"NodePort",
				"ports":[{"port":80,"nodePort":30080},{"port":81}]}}`,
			want: `{"apiVersion":"v1","kind":"Service","metadata":{"name":"nginx","namespace":"web"},"spec":{"ports":[{"port":80},{"port":81}],"type":"NodePort"}}`,
		},
		"HeadlessServiceStaysHeadless": {
			ref:  services,
			in:   `{"apiVersion":"v1","kind":"Service","metadata":{"name":"nginx","namespace":"web"},"spec":{"clusterIP":"None","clusterIPs":["None"]}}`,
			want: `{"apiVersion":"v1","kind":"Service","metadata":{"name":"nginx","namespace":"web"},"spec":{"clusterIP":"None","clusterIPs":["None"]}}`,
		},
		"NodePortsArePreservedOnDemand": {
			ref: services,
			in: `{"apiVersion":"v1","kind":"Service","metadata":{"name":"nginx","namespace":"web","uid":"u",
				"annotations":{"control.kubestellar.io/preserve":"nodeport"}},"spec":{"ports":[{"port":80,"nodePort":30080}]}}`,
			want: `{"apiVersion":"v1","kind":"Service","metadata":{"annotations":{"control.kubestellar.io/preserve":"nodeport"},"name":"nginx","namespace":"web"},"spec":{"ports":[{"nodePort":30080,"port":80}]}}`,
		},
		"ServiceOfAnotherGroupIsLeftAlone": {
			ref:  objref.Ref{Group: "serving.knative.dev", Resource: "services", Namespace: "web", Name: "nginx"},
			in:   `{"apiVersion":"serving.knative.dev/v1","kind":"Service","metadata":{"name":"nginx"},"spec":{"clusterIP":"10.0.0.1"}}`,
			want: `{"apiVersion":"serving.knative.dev/v1","kind":"Service","metadata":{"name":"nginx"},"spec":{"clusterIP":"10.0.0.1"}}`,
		},
		"Job": {
			ref: jobs,
			in: `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"once","namespace":"web","uid":"u",
				"labels":{"controller-uid":"u","batch.kubernetes.io/controller-uid":"u","app":"x"},
				"annotations":{"batch.kubernetes.io/job-tracking":""}},
				"spec":{"selector":{"matchLabels":{"controller-uid":"u"}},"suspend":false,"parallelism":1,"ttlSecondsAfterFinished":10,
				"template":{"metadata":{"labels":{"controller-uid":"u","batch.kubernetes.io/controller-uid":"u"}},"spec":{}}},"status":{"active":1}}`,
			want: `{"apiVersion":"batch/v1","kind":"Job","metadata":{"labels":{"app":"x"},"name":"once","namespace":"web"},"spec":{"parallelism":1,"template":{"metadata":{},"spec":{}}}}`,
		},
		"JobWithASelector": {
			ref: jobs,
			in: `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"once","uid":"u","labels":{"controller-uid":"mine"}},
				"spec":{"manualSelector":true,"selector":{"matchLabels":{"controller-uid":"mine"}},"suspend":true,
				"template":{"metadata":{"labels":{"controller-uid":"mine"}}}}}`,
			want: `{"apiVersion":"batch/v1","kind":"Job","metadata":{"labels":{"controller-uid":"mine"},"name":"once"},"spec":{"manualSelector":true,"selector":{"matchLabels":{"controller-uid":"mine"}},"suspend":true,"template":{"metadata":{"labels":{"controller-uid":"mine"}}}}}`,
		},
		"ObjectsOfPackagesAreWrittenWhole": {
			ref:  services,
			in:   `{"apiVersion":"v1","kind":"Service","metadata":{"name":"nginx"},"spec":{"clusterIP":"10.0.0.1","externalTrafficPolicy":"Cluster","ports":[{"nodePort":30080,"port":80}]}}`,
			want: `{"apiVersion":"v1","kind":"Service","metadata":{"name":"nginx"},"spec":{"clusterIP":"10.0.0.1","externalTrafficPolicy":"Cluster","ports":[{"nodePort":30080,"port":80}]}}`,
		},
		"ConversionThatNobodyServes": {
			ref: objref.Ref{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Name: "a"},
			in: `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a"},"spec":{"group":"b",
				"conversion":{"strategy":"Webhook","webhook":{"clientConfig":{"service":{"name":"unnamed-conversion-webhook","namespace":"default"}}}}}}`,
			want: `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a"},"spec":{"group":"b"}}`,
		},
		"ConversionOfAService": {
			ref: objref.Ref{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Name: "a"},
			in: `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a"},"spec":{"group":"b",
				"conversion":{"strategy":"Webhook","webhook":{"clientConfig":{"service":{"name":"mine","namespace":"apps"}}}}}}`,
			want: `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a"},"spec":{"conversion":{"strategy":"Webhook","webhook":{"clientConfig":{"service":{"name":"mine","namespace":"apps"}}}},"group":"b"}}`,
		},
		"AggregatedClusterRole": {
			ref: objref.Ref{Group: "rbac.authorization.k8s.io", Resource: "clusterroles", Name: "all"},
			in: `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"all"},"aggregationRule":{"clusterRoleSelectors":[]},
				"rules":[{"verbs":["get"]}]}`,
			want: `{"aggregationRule":{"clusterRoleSelectors":[]},"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"all"}}`,
		},
		"ClusterRole": {
			ref:  objref.Ref{Group: "rbac.authorization.k8s.io", Resource: "clusterroles", Name: "all"},
			in:   `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"all"},"rules":[{"verbs":["get"]}]}`,
			want: `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"all"},"rules":[{"verbs":["get"]}]}`,
		},
		"TokenOfAServiceAccount": {
			ref: objref.Ref{Resource: "secrets", Namespace: "web", Name: "robot"},
			in: `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"robot","uid":"u","labels":{"kubernetes.io/legacy-token-last-used":"2026-01-01"},
				"annotations":{"kubernetes.io/service-account.name":"robot","kubernetes.io/service-account.uid":"u"}},
				"type":"kubernetes.io/service-account-token","data":{"token":"eA==","ca.crt":"eA==","namespace":"eA=="}}`,
			want: `{"apiVersion":"v1","kind":"Secret","metadata":{"annotations":{"kubernetes.io/service-account.name":"robot"},"name":"robot"},"type":"kubernetes.io/service-account-token"}`,
		},
		"AnotherSecret": {
			ref:  objref.Ref{Resource: "secrets", Namespace: "web", Name: "mine"},
			in:   `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"mine"},"type":"Opaque","data":{"token":"eA=="}}`,
			want: `{"apiVersion":"v1","data":{"token":"eA=="},"kind":"Secret","metadata":{"name":"mine"},"type":"Opaque"}`,
		},
		"Pod": {
			ref: objref.Ref{Resource: "pods", Namespace: "web", Name: "tool"},
			in: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"tool","uid":"u"},"spec":{"priority":0,"preemptionPolicy":"PreemptLowerPriority","nodeName":"n",
				"tolerations":[{"effect":"NoExecute","key":"node.kubernetes.io/not-ready","operator":"Exists","tolerationSeconds":300},
				{"effect":"NoExecute","key":"node.kubernetes.io/unreachable","operator":"Exists","tolerationSeconds":30}],
				"volumes":[{"name":"kube-api-access-x","projected":{"sources":[]}},{"name":"data","emptyDir":{}}],
				"containers":[{"name":"a","volumeMounts":[{"name":"kube-api-access-x","mountPath":"/a"}]},
				{"name":"b","volumeMounts":[{"name":"kube-api-access-x","mountPath":"/a"},{"name":"data","mountPath":"/b"}]}]}}`,
			want: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"tool"},"spec":{"containers":[{"name":"a"},{"name":"b","volumeMounts":[{"mountPath":"/b","name":"data"}]}],"tolerations":[{"effect":"NoExecute","key":"node.kubernetes.io/unreachable","operator":"Exists","tolerationSeconds":30}],"volumes":[{"emptyDir":{},"name":"data"}]}}`,
		},
		"PodOfAPackage": {
			ref:  objref.Ref{Resource: "pods", Namespace: "web", Name: "tool"},
			in:   `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"tool"},"spec":{"nodeName":"n","volumes":[{"name":"kube-api-access-x","projected":{"sources":[]}}]}}`,
			want: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"tool"},"spec":{"nodeName":"n","volumes":[{"name":"kube-api-access-x","projected":{"sources":[]}}]}}`,
		},
		"JobWithoutTemplate": {
			ref:  jobs,
			in:   `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"once"},"spec":"odd"}`,
			want: `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"once"},"spec":"odd"}`,
		},
		"OurAnnotationsGo": {
			ref: deployments,
			in: `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"nginx","annotations":{"starling.io/apply":"update",
				"starling.io/ignore-fields":".spec.replicas","starling.io/on-removal":"orphan","starling.io/other":"x"}}}`,
			want: `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"annotations":{"starling.io/other":"x"},"name":"nginx"}}`,
		},
		"ClaimThatAControllerBound": {
			ref: claims,
			in: `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"data","namespace":"web","annotations":{
				"pv.kubernetes.io/bind-completed":"yes","pv.kubernetes.io/bound-by-controller":"yes","volume.kubernetes.io/selected-node":"n"}},
				"spec":{"volumeName":"pvc-1","accessModes":["ReadWriteOnce"]}}`,
			want: `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"data","namespace":"web"},"spec":{"accessModes":["ReadWriteOnce"]}}`,
		},
		"ClaimOfAVolumeThatTheUserNamed": {
			ref: claims,
			in: `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"data","annotations":{"pv.kubernetes.io/bind-completed":"yes","note":"x"}},
				"spec":{"volumeName":"disk"}}`,
			want: `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"annotations":{"note":"x"},"name":"data"},"spec":{"volumeName":"disk"}}`,
		},
		"VolumeThatAControllerBound": {
			ref: volumes,
			in: `{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"disk","annotations":{"pv.kubernetes.io/bound-by-controller":"yes"}},
				"spec":{"claimRef":{"name":"data","namespace":"web","uid":"u","resourceVersion":"7"},"capacity":{"storage":"1Gi"}}}`,
			want: `{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"disk"},"spec":{"capacity":{"storage":"1Gi"}}}`,
		},
		"VolumeForAClaimThatTheUserNamed": {
			ref:  volumes,
			in:   `{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"disk"},"spec":{"claimRef":{"name":"data","namespace":"web","uid":"u","resourceVersion":"7"}}}`,
			want: `{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"disk"},"spec":{"claimRef":{"name":"data","namespace":"web"}}}`,
		},
		"ServiceAccount": {
			ref: objref.Ref{Resource: "serviceaccounts", Namespace: "web", Name: "robot"},
			in: `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"robot"},"secrets":[{"name":"robot-token-x7kpl"},{"name":"mine"}],
				"imagePullSecrets":[{"name":"robot-dockercfg-abcde"}]}`,
			want: `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"robot"},"secrets":[{"name":"mine"}]}`,
		},
		"NoKind":          {ref: deployments, in: `{"apiVersion":"apps/v1","metadata":{"name":"n"}}`, wantErr: true},
		"NoName":          {ref: deployments, in: `{"apiVersion":"apps/v1","kind":"Deployment"}`, wantErr: true},
		"LabelIsNoString": {ref: deployments, in: `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"n","labels":{"a":1}}}`, wantErr: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var in map[string]any
			if err := kjson.Unmarshal([]byte(tc.in), &in); err != nil {
				t.Fatal(err)
			}
			got, err := transform.Standard().Apply(tc.ref, in)
			if (err != nil) != tc.wantErr {
				t.Fatalf("Apply() error = %v, want error: %v", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, string(got.JSON)); diff != "" {
				t.Errorf("Apply() (-want +got):\n%s", diff)
			}
			if err == nil && (got.Ref != tc.ref || got.Hash != transform.HashOf([]byte(tc.want))) {
				t.Errorf("Apply() = %v, hash %v, want %v and the hash of its JSON", got.Ref, got.Hash, tc.ref)
			}
		})
	}
}

func TestFurtherStepsRunBehindTheStandardOnes(t *testing.T) {
	step := func(_ objref.Ref, obj map[string]any) error {
		if _, ok := obj["status"]; ok {
			t.Error("a further step sees the status")
		}
		delete(obj, "spec")
		return nil
	}
	in := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "p"}, "spec": map[string]any{}, "status": map[string]any{}}
	got, err := transform.Standard(step).Apply(objref.Ref{Resource: "pods", Name: "p"}, in)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}`; string(got.JSON) != want {
		t.Errorf("Apply() = %s, want %s", got.JSON, want)
	}
}

func TestParseHash(t *testing.T) {
	want := transform.HashOf([]byte("x"))
	if got, ok := transform.ParseHash(want.String()); !ok || got != want {
		t.Errorf("ParseHash(String()) = %v, %v, want %v", got, ok, want)
	}
	for _, s := range []string{"", "xyz", want.String() + "00", "zz" + want.String()[2:]} {
		if _, ok := transform.ParseHash(s); ok {
			t.Errorf("ParseHash(%q) = true, want false", s)
		}
	}
}

// FuzzApply checks that no object makes the pipeline panic, and that its result passes it
// unchanged, also when it was decoded and encoded by somebody else in between.
func FuzzApply(f *testing.F) {
	f.Add("services", "", `{"apiVersion":"v1","kind":"Service","metadata":{"name":"a","labels":{"x":"<&>"}},"spec":{"clusterIPs":["None"],"ports":[{"nodePort":1.5}, 3]}}`)
	f.Add("jobs", "batch", `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"a","labels":{"controller-uid":"x"}},"spec":{"template":{"metadata":null}}}`)
	f.Add("pods", "", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","uid":"u","managedFields":[{"fieldsV1":{"f:spec":3}}]},"spec":{"volumes":[1],"tolerations":{}}}`)
	f.Add("x", "y", `{"apiVersion":"y/v1","kind":"X","metadata":{"name":"a"},"n":[1e21,-0.0,9223372036854775807,0.1,9007199254740992.0,"\ud800"]}`)
	f.Fuzz(func(t *testing.T, resource, group, raw string) {
		var in map[string]any
		if kjson.Unmarshal([]byte(raw), &in) != nil || in == nil {
			return
		}
		ref := objref.Ref{Group: group, Resource: resource, Name: "a"}
		once, err := transform.Standard().Apply(ref, in)
		if err != nil {
			return
		}
		var again map[string]any
		if err := kjson.Unmarshal(once.JSON, &again); err != nil {
			t.Fatalf("the result is no JSON: %v", err)
		}
		twice, err := transform.Standard().Apply(ref, again)
		if err != nil {
			t.Fatalf("the result does not pass again: %v", err)
		}
		if diff := cmp.Diff(string(once.JSON), string(twice.JSON)); diff != "" {
			t.Errorf("the second pass changed something (-once +twice):\n%s", diff)
		}
		var stranger any
		if err := json.Unmarshal(once.JSON, &stranger); err != nil {
			t.Fatal(err)
		}
	})
}

func BenchmarkApply(b *testing.B) {
	raw := []byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"nginx","namespace":"web","uid":"u","labels":{"app":"nginx"}},
		"spec":{"replicas":2,"selector":{"matchLabels":{"app":"nginx"}},"template":{"metadata":{"labels":{"app":"nginx"}},
		"spec":{"containers":[{"name":"nginx","image":"nginx","ports":[{"containerPort":80}]}]}}},"status":{"replicas":2}}`)
	pipeline := transform.Standard()
	ref := objref.Ref{Group: "apps", Resource: "deployments", Namespace: "web", Name: "nginx"}
	for b.Loop() {
		var in map[string]any
		if err := kjson.Unmarshal(raw, &in); err != nil {
			b.Fatal(err)
		}
		if _, err := pipeline.Apply(ref, in); err != nil {
			b.Fatal(err)
		}
	}
}

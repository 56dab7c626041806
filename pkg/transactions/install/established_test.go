package install

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	"github.com/starlinghq/starling/pkg/core/transaction"
)

// apiServer serves the kinds of one API group after a time.
type apiServer struct {
	discovery.ServerResourcesInterface
	began  time.Time
	served map[string]time.Duration // of v1, by plural
	asked  int
}

func (s *apiServer) ServerResourcesForGroupVersion(version string) (*metav1.APIResourceList, error) {
	s.asked++
	list := &metav1.APIResourceList{GroupVersion: version}
	for plural, after := range s.served {
		if version == "example.org/v1" && time.Since(s.began) >= after {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: plural}, metav1.APIResource{Name: plural + "/status"})
		}
	}
	if len(list.APIResources) == 0 {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, version)
	}
	return list, nil
}

func definition(plural string, served []string, conditions ...any) *unstructured.Unstructured {
	var versions []any
	for _, version := range []string{"v1", "v2"} {
		versions = append(versions, map[string]any{"name": version, "served": slices.Contains(served, version)})
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": plural + ".example.org"},
		"spec": map[string]any{"group": "example.org", "versions": versions}, "status": map[string]any{"conditions": conditions},
	}}
}

func condition(kind, status, message string) map[string]any {
	return map[string]any{"type": kind, "status": status, "message": message}
}

// TestEstablished: many definitions are one request. Those that discovery does not show count by
// their conditions, and if these do not say so either, the error has the reason.
func TestEstablished(t *testing.T) {
	v1 := []string{"v1"}
	for name, tc := range map[string]struct {
		served  map[string]time.Duration
		crds    []*unstructured.Unstructured
		want    string // error
		after   time.Duration
		maxAsks int
	}{
		"AtOnce": {
			served: map[string]time.Duration{"a": 0, "b": 0, "c": 0}, crds: []*unstructured.Unstructured{definition("a", v1), definition("b", v1), definition("c", v1)}, maxAsks: 1,
		},
		"Later": {
			served: map[string]time.Duration{"a": 0, "b": 120 * time.Millisecond}, crds: []*unstructured.Unstructured{definition("a", v1), definition("b", v1)},
			after: 150 * time.Millisecond, maxAsks: 4,
		},
		"Slow": { // longer than the patience in all
			served: map[string]time.Duration{"a": 2 * time.Second, "b": 4 * time.Second}, crds: []*unstructured.Unstructured{definition("a", v1), definition("b", v1)},
			after: 4 * time.Second, maxAsks: 81,
		},
		"ServedByOthers": {
			served: map[string]time.Duration{"a": 0}, crds: []*unstructured.Unstructured{definition("a", []string{"v1", "v2"}, condition("Established", "True", ""))},
			after: time.Second, maxAsks: 50,
		},
		"NotServed": {
			crds: []*unstructured.Unstructured{definition("a", nil, condition("Established", "True", ""))}, after: time.Second, maxAsks: 0,
		},
		"NamesTaken": {
			crds: []*unstructured.Unstructured{definition("a", v1, condition("NamesAccepted", "False", "kind A is taken"), condition("Established", "False", ""))},
			want: "Failed to install CRD a.example.org: it is not established: kind A is taken", after: 3 * time.Second, maxAsks: 100,
		},
		"NoStatus": {
			crds: []*unstructured.Unstructured{definition("b", v1), definition("a", v1)},
			want: "Failed to install CRD a.example.org: it is not established: it has no status", after: 3 * time.Second, maxAsks: 100,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var objects []runtime.Object
				for _, crd := range tc.crds {
					objects = append(objects, crd)
				}
				server := &apiServer{began: time.Now(), served: tc.served}
				lists := map[schema.GroupVersionResource]string{definitions: "CustomResourceDefinitionList"}
				i := &Installer{
					Objects: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, objects...), Discovery: server, Patience: 3 * time.Second,
				}
				err := i.established(t.Context(), tc.crds)
				if tc.want == "" && err != nil {
					t.Fatal(err)
				}
				if failed, ok := errors.AsType[*transaction.FailedError](err); tc.want != "" && (!ok || failed.Message != tc.want) {
					t.Errorf("error %v, want %q", err, tc.want)
				}
				if took := time.Since(server.began); took != tc.after {
					t.Errorf("it took %s, want %s", took, tc.after)
				}
				if server.asked > tc.maxAsks {
					t.Errorf("%d requests, want %d at most", server.asked, tc.maxAsks)
				}
			})
		})
	}
}

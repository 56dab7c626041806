package ocm

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	workv1 "open-cluster-management.io/api/work/v1"
)

// TestWatchWorks compares with what the typed client makes of the same events.
func TestWatchWorks(t *testing.T) {
	const work = `{"apiVersion":"work.open-cluster-management.io/v1","kind":"ManifestWork","metadata":{"name":"w","namespace":"cluster1","uid":"u",
		"resourceVersion":"7","generation":2,"creationTimestamp":"2026-01-02T03:04:05Z","labels":{"a":"b"},"finalizers":["f"]},
		"spec":{"deleteOption":{"propagationPolicy":"Foreground"},"workload":{"manifests":[{"kind":"ConfigMap","data":{"a":"<\u00e9>"}},{"kind":"Secret"}]}},
		"status":{"conditions":[{"type":"Applied","status":"True","reason":"r","message":"m","lastTransitionTime":"2026-01-02T03:04:05Z"}]}}`
	events := strings.Join([]string{
		`{"type":"ADDED","object":` + work + `}`,
		`{"type":"MODIFIED","object":` + strings.ReplaceAll(work, "\n", " ") + `}` + "\n",
		`{"type":"DELETED","object":{"apiVersion":"work.open-cluster-management.io/v1","kind":"ManifestWork","metadata":{"name":"w","namespace":"cluster1"}}}`,
		`{"type":"BOOKMARK","object":{"apiVersion":"work.open-cluster-management.io/v1","kind":"ManifestWork","metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}`,
		`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old","reason":"Expired","code":410}}`,
	}, "\n")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("labelSelector") == "refuse" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusGone)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`)
			return
		}
		want := map[string]string{
			"watch": "true", "resourceVersion": "5", "labelSelector": "a", "allowWatchBookmarks": "true", "timeout": "5m0s", "timeoutSeconds": "300",
		}
		got := map[string]string{}
		for key := range r.URL.Query() {
			got[key] = r.URL.Query().Get(key)
		}
		if !maps.Equal(got, want) {
			t.Errorf("asked for %v, want %v", got, want)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, events)
	}))
	defer server.Close()
	client, err := workclient.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	o := metav1.ListOptions{ResourceVersion: "5", LabelSelector: "a", AllowWatchBookmarks: true, TimeoutSeconds: new(int64(300))}
	collect := func(w watch.Interface, err error) []watch.Event {
		if err != nil {
			t.Fatal(err)
		}
		return slices.Collect(func(yield func(watch.Event) bool) {
			for event := range w.ResultChan() {
				clean(event.Object)
				if !yield(event) {
					return
				}
			}
		})
	}
	got := collect(watchWorks(t.Context(), client.WorkV1().RESTClient(), o))
	want := collect(client.WorkV1().ManifestWorks("").Watch(t.Context(), o))
	if len(want) != 5 {
		t.Fatalf("the typed client saw %d events, want 5", len(want))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-typed client +watchWorks):\n%s", diff)
	}

	if _, err := watchWorks(t.Context(), client.WorkV1().RESTClient(), metav1.ListOptions{LabelSelector: "refuse"}); !apierrors.IsResourceExpired(err) {
		t.Errorf("a refused watch gives %v, want that the version expired", err)
	}
}

// clean drops what nobody looks at.
func clean(obj runtime.Object) {
	switch o := obj.(type) {
	case *workv1.ManifestWork:
		o.TypeMeta = metav1.TypeMeta{}
	case *metav1.Status:
		o.TypeMeta = metav1.TypeMeta{}
	}
}

func TestWatchWorksGarbage(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"type":"ADDED","object":[]}`) }))
	defer server.Close()
	client, err := workclient.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	w, err := watchWorks(t.Context(), client.WorkV1().RESTClient(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	event, open := <-w.ResultChan()
	if !open || event.Type != watch.Error {
		t.Errorf("garbage gives %v, want an error", event)
	}
	if _, open := <-w.ResultChan(); open {
		t.Error("the watch goes on after garbage")
	}
}

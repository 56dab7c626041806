package writer_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/starlinghq/starling/pkg/writer"
)

// request is a request that the API server received.
type request struct{ Method, Path, Query, ContentType, Body string }

// apiServer responds to every request with the status code, and records the request.
func apiServer(t *testing.T, code int, response any) (*writer.Writer, *request) {
	t.Helper()
	got := &request{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		*got = request{r.Method, r.URL.Path, r.URL.RawQuery, r.Header.Get("Content-Type"), string(body)}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		if err := json.NewEncoder(w).Encode(response); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	writer, err := writer.New(&rest.Config{Host: server.URL}, "wds1", "tester")
	if err != nil {
		t.Fatal(err)
	}
	return writer, got
}

func TestRequests(t *testing.T) {
	deployments := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	namespaces := schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	obj := map[string]string{"a": "b"}
	cases := map[string]struct {
		do   func(t *testing.T, w *writer.Writer) error
		want request
	}{
		"CreateNamespaced": {
			do: func(t *testing.T, w *writer.Writer) error {
				_, err := w.Create(t.Context(), writer.Target{Resource: deployments, Namespace: "web", Name: "nginx"}, obj, "test")
				return err
			},
			want: request{"POST", "/apis/apps/v1/namespaces/web/deployments", "fieldManager=tester", "application/json", `{"a":"b"}`},
		},
		"UpdateStatusOfCoreClusterScoped": {
			do: func(t *testing.T, w *writer.Writer) error {
				_, err := w.Update(t.Context(), writer.Target{Resource: namespaces, Name: "web", Subresource: "status"}, obj, "test")
				return err
			},
			want: request{"PUT", "/api/v1/namespaces/web/status", "fieldManager=tester", "application/json", `{"a":"b"}`},
		},
		"Patch": {
			do: func(t *testing.T, w *writer.Writer) error {
				_, err := w.Patch(t.Context(), writer.Target{Resource: namespaces, Name: "web"}, types.JSONPatchType, []byte(`[]`), "test")
				return err
			},
			want: request{"PATCH", "/api/v1/namespaces/web", "fieldManager=tester", "application/json-patch+json", `[]`},
		},
		"DeleteNamesTheUID": {
			do: func(t *testing.T, w *writer.Writer) error {
				return w.Delete(t.Context(), writer.Target{Resource: namespaces, Name: "web"}, "u1", "test")
			},
			want: request{
				"DELETE", "/api/v1/namespaces/web", "", "application/json",
				`{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"u1"},"propagationPolicy":"Background"}`,
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			writer, got := apiServer(t, http.StatusOK, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7"}})
			if err := tc.do(t, writer); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, *got); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOnlyMetadataIsDecoded(t *testing.T) {
	w, _ := apiServer(t, http.StatusCreated, map[string]any{
		"metadata": map[string]any{"name": "web", "resourceVersion": "7", "generation": 3},
		"spec":     map[string]any{"anything": []int{1, 2, 3}},
	})
	got, err := w.Create(t.Context(), writer.Target{Resource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}}, struct{}{}, "test")
	if err != nil {
		t.Fatal(err)
	}
	want := metav1.ObjectMeta{Name: "web", ResourceVersion: "7", Generation: 3}
	if diff := cmp.Diff(want, got.ObjectMeta); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
}

func TestErrorsWrapThoseOfTheAPIServer(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "namespaces"}, "web", nil).Status()
	w, _ := apiServer(t, http.StatusConflict, conflict)
	target := writer.Target{Resource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, Name: "web"}
	if _, err := w.Update(t.Context(), target, struct{}{}, "test"); !apierrors.IsConflict(err) {
		t.Errorf("Update: got %v, want a conflict", err)
	}
}

package spaces

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/testutil"
)

func TestCall(t *testing.T) {
	for request, want := range map[string]string{
		"GET /api/v1/namespaces":                                        "namespaces.v1 list",
		"GET /api/v1/namespaces/web":                                    "namespaces.v1 get",
		"PUT /api/v1/namespaces/web/finalize":                           "namespaces.v1 update",
		"GET /api/v1/namespaces/web/configmaps":                         "configmaps.v1 list",
		"GET /api/v1/namespaces/web/configmaps/status":                  "configmaps.v1 get",
		"PATCH /apis/apps/v1/namespaces/web/deployments/x/status":       "deployments.v1.apps patch",
		"POST /apis/control.kubestellar.io/v1alpha1/bindings":           "bindings.v1alpha1.control.kubestellar.io create",
		"DELETE /apis/control.kubestellar.io/v1alpha1/bindings/x":       "bindings.v1alpha1.control.kubestellar.io delete",
		"DELETE /apis/control.kubestellar.io/v1alpha1/bindings":         "bindings.v1alpha1.control.kubestellar.io deletecollection",
		"GET /apis/control.kubestellar.io/v1alpha1/bindings?watch=true": "",
		"GET /apis/control.kubestellar.io/v1alpha1":                     "",
		"GET /version": "",
		"HEAD /apis/control.kubestellar.io/v1alpha1/bindings/x":              "",
		"GET /apis/control.kubestellar.io/v1alpha1/bindings?resourceVersion": "bindings.v1alpha1.control.kubestellar.io list",
	} {
		t.Run(request, func(t *testing.T) {
			method, path, _ := strings.Cut(request, " ")
			got := ""
			if resource, method, ok := call(httptest.NewRequest(method, path, http.NoBody)); ok {
				got = resource + " " + method
			}
			if got != want {
				t.Errorf("call() = %q, want %q", got, want)
			}
		})
	}
}

func TestFailure(t *testing.T) {
	for want, tc := range map[string]struct {
		code int
		err  error
	}{"": {code: 201}, "Conflict": {code: 409}, "NotFound": {code: 404}, "NoAnswer": {err: errors.New("dial")}} {
		if got := failure(&http.Response{StatusCode: tc.code}, tc.err); got != want {
			t.Errorf("failure(%+v) = %q, want %q", tc, got, want)
		}
	}
}

func TestCallsAreMeasured(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	config := &rest.Config{Host: server.URL}
	measureCalls(config, "its9")
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	calls := func() uint64 {
		count, err := testutil.GetHistogramMetricCount(callLatency.WithLabelValues("its9", "configmaps.v1", "get", "NotFound"))
		if err != nil {
			t.Fatal(err)
		}
		return count
	}
	before := calls()
	if _, err := client.CoreV1().ConfigMaps("web").Get(t.Context(), "x", metav1.GetOptions{}); err == nil {
		t.Fatal("Get() = nil, want an error")
	}
	if measured := calls() - before; measured != 1 {
		t.Errorf("%d calls were measured, want 1", measured)
	}
}

package client

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

// TestListWorkStatuses: what is read one by one is what the typed client reads at once.
func TestListWorkStatuses(t *testing.T) {
	const item = `{"apiVersion":"control.kubestellar.io/v1alpha1","kind":"WorkStatus","metadata":{"name":"%s","namespace":"c1","annotations":{"a":"<\u00e9>"}},
		"spec":{"sourceRef":{"resource":"services","name":"%[1]s"}},"status":{"a":[1,{"b":null}]}}`
	a, b := fmt.Sprintf(item, "a"), fmt.Sprintf(item, "b")
	for name, tc := range map[string]struct {
		body    string
		code    int
		wantErr string
		want    []string
		missing bool
	}{
		"Items":           {body: `{"apiVersion":"control.kubestellar.io/v1alpha1","items":[` + a + `,` + b + `],"kind":"WorkStatusList","metadata":{"continue":"x","resourceVersion":"5"}}`, want: []string{"a", "b"}},
		"OtherOrder":      {body: `{"metadata":{"resourceVersion":"5","remainingItemCount":3},"kind":"WorkStatusList","apiVersion":"control.kubestellar.io/v1alpha1","items":[` + a + `]}` + "\n", want: []string{"a"}},
		"None":            {body: `{"kind":"WorkStatusList","apiVersion":"control.kubestellar.io/v1alpha1","metadata":{"resourceVersion":"5"},"items":[]}`},
		"EndsInAnItem":    {body: `{"items":[` + a + `,` + b[:50], wantErr: "unexpected EOF", want: []string{"a"}},
		"EndsAfterAnItem": {body: `{"items":[` + a, wantErr: "unexpected EOF", want: []string{"a"}},
		"EndsBeforeAnyOf": {body: `{"metadata":{"resourceVersion":"5"},"items":[`, wantErr: "unexpected EOF"},
		"EndsWithout}":    {body: `{"items":[` + a + `],"metadata":{"resourceVersion":"5"}`, wantErr: "unexpected EOF", want: []string{"a"}},
		"Empty":           {wantErr: "unexpected EOF"},
		"NoList":          {body: `[]`, wantErr: "found [, want {"},
		"NoItems":         {body: `{"items":{}}`, wantErr: "found {, want ["},
		"NoObject":        {body: `{"items":[1]}`, wantErr: "cannot unmarshal"},
		"NotFound":        {body: `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`, code: http.StatusNotFound, missing: true},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if got := r.URL.Path + "?" + r.URL.RawQuery; got != "/apis/control.kubestellar.io/v1alpha1/workstatuses?labelSelector=a%3Db&limit=500" {
					t.Errorf("asked for %s", got)
				}
				w.Header().Set("Content-Type", "application/json")
				if tc.code != 0 {
					w.WriteHeader(tc.code)
				}
				fmt.Fprint(w, tc.body)
			}))
			defer server.Close()
			c, err := New(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			options := metav1.ListOptions{LabelSelector: "a=b", Limit: 500}
			got := controlv1alpha1.WorkStatusList{}
			var names []string
			got.ListMeta, err = c.ListWorkStatuses(t.Context(), options, func(ws *controlv1alpha1.WorkStatus) {
				got.Items, names = append(got.Items, *ws), append(names, ws.Name)
			})
			if diff := cmp.Diff(tc.want, names); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
			if tc.wantErr != "" || tc.missing {
				if err == nil || apierrors.IsNotFound(err) != tc.missing || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("error %v, want %q; not found: %t", err, tc.wantErr, tc.missing)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want, err := c.WorkStatuses("").List(t.Context(), options)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want.ListMeta, got.ListMeta); diff != "" {
				t.Errorf("metadata (-typed client +one by one):\n%s", diff)
			}
			if diff := cmp.Diff(want.Items, append([]controlv1alpha1.WorkStatus{}, got.Items...)); diff != "" {
				t.Errorf("items (-typed client +one by one):\n%s", diff)
			}
		})
	}
}

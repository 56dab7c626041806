package install

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/starlinghq/starling/pkg/transactions/live"
)

// TestSameDefinition: what the validation has not seen must be validated, and not what only the API
// server writes. No API server lets a test change an object between two requests.
func TestSameDefinition(t *testing.T) {
	const (
		none     = ""
		before   = `{"metadata":{"name":"x","uid":"1","resourceVersion":"7"},"spec":{"group":"example.org"}}`
		status   = `{"metadata":{"name":"x","uid":"1","resourceVersion":"8","labels":{"a":"b"}},"spec":{"group":"example.org"},"status":{"storedVersions":["v1"]}}`
		content  = `{"metadata":{"name":"x","uid":"1","resourceVersion":"8"},"spec":{"group":"example.org","scope":"Cluster"}}`
		created  = `{"metadata":{"name":"x","uid":"2","resourceVersion":"8"},"spec":{"group":"example.org"}}`
		stranger = `{"metadata":{"name":"x","uid":"1","resourceVersion":"8","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"c","uid":"c","controller":true}]},"spec":{"group":"example.org"}}`
	)
	cases := map[string]struct {
		before, after string
		same          bool
	}{
		"Status":      {before, status, true},
		"Content":     {before, content, false},
		"Created":     {none, before, false},
		"Deleted":     {before, none, false},
		"Recreated":   {before, created, false},
		"Controlled":  {before, stranger, false},
		"StillAbsent": {none, none, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var now atomic.Value
			now.Store(tc.before)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				text, _ := now.Load().(string)
				if text == none {
					w.WriteHeader(http.StatusNotFound)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",` + text[1:])) // the client reports it if it fails
			}))
			t.Cleanup(server.Close)
			reader, err := live.NewReader(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			known := reader.Definitions()
			if _, err := known.Object(t.Context(), "x"); err != nil {
				t.Fatal(err)
			}
			now.Store(tc.after)
			same, err := sameDefinition(t.Context(), "x", known, known.Again())
			if err != nil || same != tc.same {
				t.Errorf("same %t, want %t (error %v)", same, tc.same, err)
			}
		})
	}
}

package delivery

import (
	"fmt"
	"strings"
	"testing"

	"github.com/starlinghq/starling/pkg/core/customize"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// TestExpansionsAreBounded: of many clusters, and of large objects.
func TestExpansionsAreBounded(t *testing.T) {
	e := newExpansions()
	const size = 100_000
	raw := fmt.Sprintf(`{"apiVersion":"v1","data":{"a":"{{.clusterName}}","b":%q},"kind":"ConfigMap","metadata":{"annotations":{"control.kubestellar.io/expand-templates":"true"},"name":"settings","namespace":"web"}}`,
		strings.Repeat("x", size))
	template, err := customize.Compile(transform.Object{Ref: settings, JSON: []byte(raw), Hash: transform.HashOf([]byte(raw))})
	if err != nil || template == nil {
		t.Fatalf("Compile() = %v, %v", template, err)
	}
	for i := range 100 {
		name := fmt.Sprintf("cluster%d", i)
		object, err := e.expand(template, customize.NewProperties(name))
		if err != nil || !strings.Contains(string(object.JSON), `"a":"`+name+`"`) {
			t.Fatalf("expand() = %s, %v", object.JSON[:100], err)
		}
	}
	if bytes := e.expanded.Len() * size; bytes > 1<<20 {
		t.Errorf("%d bytes are kept of one object", bytes)
	}
}

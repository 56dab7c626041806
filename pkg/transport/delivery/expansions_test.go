package delivery

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/starlinghq/starling/pkg/core/customize"
	"github.com/starlinghq/starling/pkg/core/packing"
	"github.com/starlinghq/starling/pkg/core/plan"
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

// TestIgnoreAll: an object with a field that clusters cannot leave alone stays as it is, with an
// error; others are made once.
func TestIgnoreAll(t *testing.T) {
	e := newExpansions()
	object := func(fields string) *plan.Desired {
		raw := `{"apiVersion":"v1","data":{"a":"1","b":"1","list":[{}]},"kind":"ConfigMap","metadata":{"name":"settings","namespace":"web"}}`
		return plan.NewDesired([]plan.Object{{
			Object: transform.Object{Ref: settings, JSON: []byte(raw), Hash: transform.HashOf([]byte(raw))}, Known: true, Options: plan.Options{IgnoredFields: fields},
		}}, packing.Limits{})
	}
	for fields, want := range map[string]string{
		"":        "",
		".data.a": `{"apiVersion":"v1","data":{"b":"1","list":[{}]},"kind":"ConfigMap","metadata":{"name":"settings","namespace":"web"}}`,
	} {
		for range 2 {
			desired, problems := e.ignoreAll(object(fields))
			desired.With(func(o *plan.Object) {
				if fields != "" && (string(o.JSON) != want || o.Whole == nil) || !o.Known || problems != nil {
					t.Errorf("%q: got %s, whole %v, problems %q", fields, o.JSON, o.Whole, problems)
				}
			})
		}
	}
	if n := e.ignoring.Len(); n != 1 {
		t.Errorf("%d objects are kept", n)
	}
	desired, problems := e.ignoreAll(object(".data.list"))
	desired.With(func(o *plan.Object) {
		if o.Known || o.Whole != nil {
			t.Errorf("it is known: %+v", o)
		}
	})
	want := []string{"configmaps web/settings: .data.list cannot be ignored, because it has a list of objects: a cluster cannot apply an element without its " +
		"required fields. Remove the path from the annotation starling.io/ignore-fields, or set starling.io/apply to create-only"}
	if diff := cmp.Diff(want, problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestRefusedTexts(t *testing.T) {
	item := plan.Item{Ref: settings, Options: plan.Options{Stage: plan.Stage{Begun: true, Refused: ".data.a"}}}
	want := []string{"configmaps web/settings: " + item.NotIgnored()}
	if diff := cmp.Diff(want, refusedTexts([]*plan.Work{{Items: []plan.Item{{Ref: web}, item}}})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

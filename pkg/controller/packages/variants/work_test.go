package variants

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/variant"
	"github.com/starlinghq/starling/pkg/core/packages/variant/mutation"
)

// moving are objects that change the moment they were looked at.
type moving struct {
	version, next string
	object        map[string]any
	err           error
}

func (m *moving) Use(map[schema.GroupKind]struct{}) {}

func (m *moving) Version(context.Context, string, configv1alpha1.InjectedObject) (string, bool, error) {
	return m.version, true, nil
}

func (m *moving) Get(context.Context, string, schema.GroupVersionKind, string) (map[string]any, string, error) {
	seen := m.version
	m.version = m.next
	return m.object, seen, m.err
}

// TestLookup: the version that is noted of an object is that of what was seen, also if it changes
// at that moment. Else the next plan would take what was made of the old state for settled.
func TestLookup(t *testing.T) {
	for name, objects := range map[string]moving{
		"Changes":     {version: "uid/1", next: "uid/2", object: map[string]any{}},
		"Goes":        {version: "uid/1", next: "", object: map[string]any{}},
		"Comes":       {version: "", next: "uid/1"},
		"KindGoes":    {version: "", next: notServed},
		"Refused":     {version: refused, next: refused, err: mutation.RefusedError("it may not")},
		"KindIsThere": {version: notServed, next: "", err: mutation.ErrNotServed},
	} {
		t.Run(name, func(t *testing.T) {
			seen := objects.version
			pv := &configv1alpha1.PackageVariant{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
			w := &editor{
				Controller: &Controller{objects: &objects}, in: &variant.Input{Variant: pv},
				injected: map[configv1alpha1.InjectedObject]string{},
			}
			for range 2 { // two points may look for one object
				if _, err := w.lookup(t.Context())(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, "east"); err != objects.err { //nolint:errorlint // the very one
					t.Fatal(err)
				}
			}
			want := map[configv1alpha1.InjectedObject]string{{Version: "v1", Kind: "ConfigMap", Name: "east"}: seen}
			if diff := cmp.Diff(want, w.injected); diff != "" || w.unread != nil {
				t.Errorf("%v (-want +got):\n%s", w.unread, diff)
			}
		})
	}
}

package placement

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	"github.com/starlinghq/starling/pkg/core/objref"
)

// TestHoldsAreUnited: the user's hold, and what Transactions hold everywhere and in one mailbox, of
// all Bindings except those of packages.
func TestHoldsAreUnited(t *testing.T) {
	t.Parallel()
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, Indexers())
	index := NewIndex(store)
	set := func(text string) {
		b := &controlv1alpha1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pkgv1.HoldsBinding, Annotations: map[string]string{pkgv1.AnnotationHeldObjects: text}}}
		if err := store.Update(b); err != nil {
			t.Fatal(err)
		}
	}
	placed := &Placement{Annotations: AnnotationsOf(&controlv1alpha1.Binding{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		controlv1alpha1.AnnotationHold: "configmaps/web/a",
		pkgv1.AnnotationHeldObjects:    `[{"transaction":"x","objects":["configmaps/web/z"]}]`, // it is not the Binding for that
	}}})}
	if got := index.HoldAt(placed, "east").String(); got != "configmaps/web/a" {
		t.Errorf("without the Binding, %s is held", got)
	}
	set(`[{"transaction":"x","objects":["configmaps/web/b"]},{"transaction":"y","objects":["configmaps/web/c"],"clusters":["east"]}]`)
	for mailbox, want := range map[string]string{
		"east": "configmaps/web/a, configmaps/web/b, configmaps/web/c", "west": "configmaps/web/a, configmaps/web/b",
	} {
		if got := index.HoldAt(placed, mailbox).String(); got != want {
			t.Errorf("%s: %s, want %s", mailbox, got, want)
		}
	}
	ofPackage := *placed
	ofPackage.Source = "package default/edge/web"
	if got := index.HoldAt(&ofPackage, "east").String(); got != "configmaps/web/a" {
		t.Errorf("of a package, %s is held", got)
	}
	c := objref.Ref{Resource: "configmaps", Namespace: "web", Name: "c"}
	of := index.Held().Of(func(ref objref.Ref) bool { return ref == c })
	if diff := cmp.Diff([]string{"configmaps/web/c", ""}, []string{of.At("east").String(), of.At("west").String()}); diff != "" {
		t.Error(diff)
	}
	set("[]")
	if got := index.HoldAt(placed, "east").String(); got != "configmaps/web/a" {
		t.Errorf("afterwards, %s is held", got)
	}
	set("x") // it is not known what its author meant to hold
	if got := index.HoldAt(placed, "west").String(); got != "*" {
		t.Errorf("%s is held", got)
	}
	invalid := AnnotationsOf(&controlv1alpha1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pkgv1.HoldsBinding, Annotations: map[string]string{pkgv1.AnnotationHeldObjects: "x"}}})
	if len(invalid.Mistakes) != 1 {
		t.Errorf("mistakes %q", invalid.Mistakes)
	}
}

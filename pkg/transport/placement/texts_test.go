package placement

import (
	"errors"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/customtransform"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/render"
	"github.com/starlinghq/starling/test/golden"
)

// TestTexts: what users read of the objects of a Binding in status.errors.
func TestTexts(t *testing.T) {
	paragraphs := []string{
		"# an object is missing\n" + settings.String() + ": " + errMissing.Error(),
		"# an object cannot be delivered\n" + settings.String() + ": " + (&invalidError{errors.New("metadata.annotations[starling.io/apply]: …")}).Error(),
		"# a CustomTransform has errors\n" + unknownInstructions(settings.GroupResource(), &customtransform.Instructions{Unknown: []string{"hide-passwords"}}),
	}
	for _, ref := range []objref.Ref{
		{Resource: "secrets", Namespace: "open-cluster-management-agent-addon", Name: "token"}, {Resource: "namespaces", Name: "open-cluster-management-agent"},
	} {
		paragraphs = append(paragraphs, "# a namespace of Open Cluster Management\n"+ref.String()+": "+render.Withheld(ref, nil).Error())
	}
	for _, annotations := range []map[string]string{
		{controlv1alpha1.AnnotationHold: "settings"},
		{controlv1alpha1.AnnotationRelease: "true"},
		{controlv1alpha1.AnnotationRelease: "clusters=a b"},
		{controlv1alpha1.AnnotationApply: "never"},
	} {
		a := AnnotationsOf(&controlv1alpha1.Binding{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}})
		for key, value := range annotations {
			paragraphs = append(paragraphs, "# "+key+"="+value+"\n"+strings.Join(a.Mistakes, "\n"))
		}
	}
	none := func(schema.GroupResource) *customtransform.Instructions { return &customtransform.Instructions{} }
	store := &shelf{revisions: map[string]*storev1alpha1.PackageRevision{}}
	for what, change := range map[string]func(*storev1alpha1.PackageRevision){
		"is a draft":                 func(r *storev1alpha1.PackageRevision) { r.Spec.Lifecycle = porchv1alpha1.LifecycleDraft },
		"is another one":             func(r *storev1alpha1.PackageRevision) { r.Spec.PackageName = "db" },
		"has another content":        func(r *storev1alpha1.PackageRevision) { r.Content.Digest = "sha256:2" },
		"has a content that is away": func(*storev1alpha1.PackageRevision) { store.away = true },
	} {
		store.away = false
		clause := store.clause("edge.web.v1", "sha256:1")
		change(store.revisions["edge.web.v1"])
		_, err := newPackages(store).find(t.Context(), &clause, none)
		paragraphs = append(paragraphs, "# a package revision "+what+"\npackage default/edge/web v1: "+err.Error()+"; what was delivered of it stays")
	}
	slices.Sort(paragraphs)
	golden.Compare(t, "texts", strings.Join(paragraphs, "\n\n")+"\n")
}

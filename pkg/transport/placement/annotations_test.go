package placement

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/text"
)

func TestAnnotationsOf(t *testing.T) {
	cases := map[string]struct {
		annotations map[string]string
		wantHold    string
		want        Release
		wantErrors  []string
	}{
		"None":     {nil, "", Release{}, nil},
		"Force":    {map[string]string{controlv1alpha1.AnnotationRelease: " force\n"}, "", Release{All: true}, nil},
		"Clusters": {map[string]string{controlv1alpha1.AnnotationRelease: "clusters=a, b.c"}, "", Release{Clusters: []string{"a", "b.c"}}, nil},
		"NoClusters": {map[string]string{controlv1alpha1.AnnotationRelease: "clusters="}, "", Release{}, []string{
			`metadata.annotations[starling.io/release]: "" is not a cluster name: ` + errRelease.Error() + "; the annotation releases nothing",
		}},
		"BothWrong": {map[string]string{controlv1alpha1.AnnotationRelease: "true", controlv1alpha1.AnnotationHold: "x,y"}, "*", Release{}, []string{
			`metadata.annotations[starling.io/hold]: "x": want <resource>.<group>/<namespace>/<name>, with nothing between the slashes for an object that has no namespace; every object is held until this is corrected`,
			`metadata.annotations[starling.io/hold]: "y": want <resource>.<group>/<namespace>/<name>, with nothing between the slashes for an object that has no namespace; every object is held until this is corrected`,
			`metadata.annotations[starling.io/release]: ` + errRelease.Error() + "; the annotation releases nothing",
		}},
		"Hold": {map[string]string{controlv1alpha1.AnnotationHold: "namespaces//web"}, "namespaces//web", Release{}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := AnnotationsOf(&controlv1alpha1.Binding{ObjectMeta: metav1.ObjectMeta{Annotations: tc.annotations}})
			if diff := cmp.Diff(tc.wantErrors, o.Mistakes); diff != "" || o.Hold.String() != tc.wantHold || o.HoldInvalid != (tc.wantHold == "*") {
				t.Errorf("hold %q, mistakes (-want +got):\n%s", o.Hold, diff)
			}
			if diff := cmp.Diff(tc.want, o.Release); diff != "" {
				t.Errorf("release (-want +got):\n%s", diff)
			}
		})
	}
	empty := AnnotationsOf(&controlv1alpha1.Binding{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{controlv1alpha1.AnnotationHold: ""}}})
	if empty.Hold.Any() || !empty.HasHold() {
		t.Error("an empty list holds nothing, but it is there")
	}
}

func TestClip(t *testing.T) {
	if got := Clip("a\n\tb  c"); got != "a b c" {
		t.Errorf("Clip() = %q", got)
	}
	if got := Clip(strings.Repeat("é", maxText)); len(got) > maxText || !strings.HasSuffix(got, "é"+text.Ellipsis) {
		t.Errorf("Clip() = %d bytes, ends %q", len(got), got[len(got)-8:])
	}
}

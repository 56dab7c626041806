package placement

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/customtransform"
	"github.com/starlinghq/starling/pkg/core/objref"
)

func TestFingerprint(t *testing.T) {
	meta := func(change func(*metav1.ObjectMeta)) *metav1.ObjectMeta {
		m := &metav1.ObjectMeta{
			UID: "u", Generation: 1, ResourceVersion: "1",
			Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"},
		}
		change(m)
		return m
	}
	base := fingerprint(meta(func(*metav1.ObjectMeta) {}), true)
	cases := map[string]struct {
		change func(*metav1.ObjectMeta)
		want   bool // that it is a change
	}{
		"ResourceVersion": {func(m *metav1.ObjectMeta) { m.ResourceVersion = "2" }, false},
		"OurLabel":        {func(m *metav1.ObjectMeta) { m.Labels["managed-by.kubestellar.io/singletonstatus"] = "true" }, false},
		"LastApplied": {
			func(m *metav1.ObjectMeta) { m.Annotations["kubectl.kubernetes.io/last-applied-configuration"] = "x" },
			true, // it says which defaults a user wrote
		},
		"Label":                  {func(m *metav1.ObjectMeta) { m.Labels["a"] = "x" }, true},
		"Annotation":             {func(m *metav1.ObjectMeta) { m.Annotations["e"] = "" }, true},
		"LabelBecomesAnnotation": {func(m *metav1.ObjectMeta) { m.Labels, m.Annotations = m.Annotations, m.Labels }, true},
		"Generation":             {func(m *metav1.ObjectMeta) { m.Generation = 2 }, true},
		"UID":                    {func(m *metav1.ObjectMeta) { m.UID = "v" }, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := fingerprint(meta(tc.change), true) != base; got != tc.want {
				t.Errorf("is a change: %v, want %v", got, tc.want)
			}
		})
	}
	written := func(generation int64, tracksContent bool) (changed bool) {
		at := func(version string) uint64 {
			return fingerprint(meta(func(m *metav1.ObjectMeta) { m.Generation, m.ResourceVersion = generation, version }), tracksContent)
		}
		return at("1") != at("2")
	}
	if !written(0, true) {
		t.Error("a kind without generation does not go by resourceVersion")
	}
	if !written(1, false) {
		t.Error("a kind whose generation does not track its content does not go by resourceVersion")
	}
}

// fakeWatch is a watch that says what a test sets.
type fakeWatch struct {
	objects map[objref.Ref]metav1.Object
	synced  bool
}

func (w *fakeWatch) Get(ref objref.Ref) (metav1.Object, bool) {
	o, ok := w.objects[ref]
	return o, ok
}

func (w *fakeWatch) Synced(schema.GroupResource) bool { return w.synced }

func (w *fakeWatch) TracksContent(schema.GroupResource) bool { return false }

func configMap(version, content string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"namespace": "web", "name": "settings", "uid": "u", "resourceVersion": version},
		"data":     map[string]any{"content": content},
	}}
}

// removing returns the Instructions to remove this from ConfigMaps.
func removing(path string) *customtransform.Instructions {
	ct := &controlv1alpha1.CustomTransform{Spec: controlv1alpha1.CustomTransformSpec{Resource: "configmaps", Remove: []string{path}}}
	by, _ := customtransform.NewCollection(func(schema.GroupResource) []*controlv1alpha1.CustomTransform {
		return []*controlv1alpha1.CustomTransform{ct}
	}).Changes("binding", schema.GroupResource{Resource: "configmaps"})
	return by
}

func TestObjectsAreReadOnceForEachVersion(t *testing.T) {
	ctx := t.Context()
	client := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(), configMap("5", "1"))
	watch := &fakeWatch{objects: map[objref.Ref]metav1.Object{}}
	o := newObjects(client, watch)
	by := &customtransform.Instructions{}
	reads := func() int { n := len(client.Actions()); client.ClearActions(); return n }
	find := func(what string, wantKnown bool, wantReads int) finding {
		t.Helper()
		f := o.find(ctx, settings, recipe{version: "v1", removal: by}, now)
		if n := reads(); (f.manifest != nil) != wantKnown || n != wantReads {
			t.Errorf("%s: known %v after %d reads (%v), want %v after %d", what, f.manifest != nil, n, f.err, wantKnown, wantReads)
		}
		return f
	}

	find("before the watch has synced", true, 1)
	find("again", true, 0)
	watch.synced, watch.objects[settings] = true, configMap("5", "1")
	find("the watch shows what was read", true, 0)
	watch.objects[settings] = configMap("4", "1")
	find("the watch is late", true, 0)
	watch.objects[settings] = configMap("6", "1")
	find("it changed", true, 1)
	watch.objects[settings] = configMap("5", "1")
	by = removing("$.data.content")
	if f := find("a CustomTransform came", true, 1); strings.Contains(string(f.manifest.JSON), "content") {
		t.Errorf("not removed: %s", f.manifest.JSON)
	}
	by = removing("$['data'].content")
	find("it was written another way", true, 0)

	delete(watch.objects, settings)
	if f := find("it is gone", false, 0); f.err != nil || !f.recheck {
		t.Errorf("gone for no time: %+v, want a recheck", f)
	}
	if f := o.find(ctx, settings, recipe{version: "v1", removal: by}, now.Add(grace)); f.manifest != nil || !errors.Is(f.err, errMissing) {
		t.Errorf("gone for long: %+v, want errMissing", f)
	}
	reads()
	watch.objects[settings] = configMap("7", "1")
	find("it is back", true, 1)

	o.forget(map[objref.Ref]bool{settings: true})
	delete(watch.objects, settings)
	find("the watch has not seen it yet", true, 1)
	if f := o.find(ctx, password, recipe{version: "v1", removal: by}, now); !errors.Is(f.err, errMissing) || f.manifest != nil {
		t.Errorf("one that never was: %+v, want errMissing at once", f)
	}
}

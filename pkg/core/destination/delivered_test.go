package destination_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/customize"
	"github.com/starlinghq/starling/pkg/core/customtransform"
	"github.com/starlinghq/starling/pkg/core/destination"
	"github.com/starlinghq/starling/pkg/core/objref"
)

// removing returns Instructions of a CustomTransform that removes these paths.
func removing(paths ...string) *customtransform.Instructions {
	ct := &controlv1alpha1.CustomTransform{}
	ct.Name, ct.Spec.Remove = "mine", paths
	collection := customtransform.NewCollection(func(schema.GroupResource) []*controlv1alpha1.CustomTransform {
		if len(paths) == 0 {
			return nil
		}
		return []*controlv1alpha1.CustomTransform{ct}
	})
	instructions, _ := collection.Changes("", schema.GroupResource{})
	return instructions
}

// bucket returns a bucket of the space with labels and a spec. Its templates are expanded.
func bucket(name, labels, spec string) *unstructured.Unstructured {
	fields := map[string]any{}
	for key, value := range parse(spec) {
		fields[key] = value
	}
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.org/v1", "kind": "Bucket", "spec": fields, "status": map[string]any{"phase": "Ready"},
		"metadata": map[string]any{
			"name": name, "uid": "1", "resourceVersion": "7", "generation": int64(3),
			"annotations": map[string]any{controlv1alpha1.AnnotationExpandTemplates: "true"},
		},
	}}
	o.SetLabels(parse(labels))
	return o
}

func deliver(o *unstructured.Unstructured, instructions *customtransform.Instructions) *destination.Object {
	return destination.Deliver(objref.Ref{Group: "example.org", Resource: "buckets", Name: o.GetName()}, o, instructions)
}

// delivered returns what is delivered of a CRD.
func delivered(t testing.TB, c *destination.CRD, instructions *customtransform.Instructions) *destination.Object {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c)
	if err != nil {
		t.Fatal(err)
	}
	content["apiVersion"], content["kind"] = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
	return destination.Deliver(ref(c.Name), &unstructured.Unstructured{Object: content}, instructions)
}

// enum restricts the field region of the last version of a CRD.
func enum(c *destination.CRD, pattern string) *destination.CRD {
	spec := c.Spec.Versions[len(c.Spec.Versions)-1].Schema.OpenAPIV3Schema.Properties["spec"]
	region := spec.Properties["region"]
	region.Pattern = pattern
	spec.Properties["region"] = region
	return c
}

// TestValidatedAsDelivered: custom resources and CRDs are validated as clusters get them.
func TestValidatedAsDelivered(t *testing.T) {
	t.Parallel()
	const app = "app=a"
	v1, v2 := crd(app, "v1:region,size"), crd(app, "v1:size")
	eu := enum(crd(app, "v1:region,size"), "^eu")
	change := func(before, after *destination.CRD) destination.Change {
		return destination.Change{Package: pkg, Before: before, After: after, Had: delivered(t, before, removing()), Gets: delivered(t, after, removing())}
	}
	templated := func(c *destination.CRD) *destination.CRD {
		c.Annotations = map[string]string{controlv1alpha1.AnnotationExpandTemplates: "true"}
		return c
	}
	cluster := func(name, properties string) destination.Cluster {
		return destination.Cluster{
			Name: name, Labels: parse("env=prod"), Stored: map[string][]string{"buckets.example.org": {"v1"}},
			Properties: customize.NewProperties(name, parse(properties)),
		}
	}
	clusters := []destination.Cluster{cluster("east", "region=eu-1"), cluster("lab", ""), cluster("south", "region=eu-2"), cluster("west", "region=us")}
	const refused = `buckets.example.org v1: spec.region: should match '^eu' (1 object: mine)`
	const notExpanded = `1 object of buckets.example.org (mine): not delivered, and what was delivered stays, which is not checked: ` +
		`.spec.region cannot be expanded: buckets.example.org.spec.region:1:2: executing "buckets.example.org.spec.region" at <.region>: map has no entry for key "region"`
	cases := map[string]struct {
		changes    []destination.Change
		resources  []*destination.Object
		failure    string
		warnings   []string
		situations int
	}{
		"AFieldThatACustomTransformRemoves": {
			changes: []destination.Change{change(v1, v2)}, situations: 1,
			resources: []*destination.Object{deliver(bucket("mine", app, "region=eu"), removing("$.spec.region"))},
		},
		"TheFieldWithoutTheCustomTransform": {
			changes: []destination.Change{change(v1, v2)}, situations: 1,
			resources: []*destination.Object{deliver(bucket("mine", app, "region=eu"), removing())},
			failure:   "SchemaIncompatible: clusters east, lab, south, west: buckets.example.org v1: spec.region is removed (1 object: mine)",
		},
		"ALabelThatACustomTransformRemovesSelects": {
			changes: []destination.Change{change(v1, v2)}, situations: 1,
			resources: []*destination.Object{deliver(bucket("mine", app, "region=eu"), removing("$.metadata.labels"))},
			failure:   "SchemaIncompatible: clusters east, lab, south, west: buckets.example.org v1: spec.region is removed (1 object: mine)",
		},
		"ACustomTransformWithErrors": {
			changes: []destination.Change{change(v1, v2)}, situations: 1,
			resources: []*destination.Object{deliver(bucket("mine", app, "region=eu"), removing("nonsense"))},
			warnings: []string{
				"clusters east, lab, south, west: 1 object of buckets.example.org (mine): not delivered, and what was delivered stays, which is not checked: CustomTransforms have errors: mine",
			},
		},
		"ATemplate": { // east and south differ, the verdict on them does not
			changes: []destination.Change{change(v1, eu)}, situations: 4,
			resources: []*destination.Object{deliver(bucket("mine", app, "region={{.region}}"), removing())},
			failure:   "SchemaIncompatible: cluster west: " + refused,
			warnings:  []string{"cluster lab: " + notExpanded},
		},
		"ATemplateOfMetadata": { // no schema is about it
			changes: []destination.Change{change(v1, v2)}, situations: 1,
			resources: []*destination.Object{deliver(func() *unstructured.Unstructured {
				o := bucket("mine", app, "region=eu")
				_ = unstructured.SetNestedField(o.Object, "{{.clusterName}}", "metadata", "annotations", "at")
				return o
			}(), removing())},
			failure: "SchemaIncompatible: clusters east, lab, south, west: buckets.example.org v1: spec.region is removed (1 object: mine)",
		},
		"ATemplateThatLeavesWithItsCRD": {
			changes: []destination.Change{{Package: pkg, Before: v1, Had: delivered(t, v1, removing())}}, situations: 4,
			resources: []*destination.Object{deliver(bucket("mine", app, "region={{.region}}"), removing())},
			failure:   "MissingDependency: clusters east, lab, south, west: CRD buckets.example.org would be removed, but 1 object of buckets.example.org (mine) needs it",
		},
		"ACustomTransformOfTheCRD": {
			changes: []destination.Change{{
				Package: pkg, Before: v1, After: v2, Had: delivered(t, v1, removing()),
				Gets: delivered(t, v2, removing("$.spec.versions[*].schema.openAPIV3Schema.properties.spec.properties")),
			}}, situations: 1,
			resources: []*destination.Object{deliver(bucket("mine", app, "size=1"), removing())},
			failure:   "SchemaIncompatible: clusters east, lab, south, west: buckets.example.org v1: spec.size is removed (1 object: mine)",
		},
		"ATemplateInTheCRD": {
			changes: []destination.Change{change(v1, templated(enum(crd(app, "v1:region,size"), "^{{.region}}")))}, situations: 4,
			resources: []*destination.Object{deliver(bucket("mine", app, "region=eu-1"), removing())},
			failure: `SchemaIncompatible: cluster south: buckets.example.org v1: spec.region: should match '^eu-2' (1 object: mine); ` +
				`cluster west: buckets.example.org v1: spec.region: should match '^us' (1 object: mine)`,
			warnings: []string{"cluster lab: CRD buckets.example.org is not delivered, and what was delivered of it stays: " +
				".spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.region.pattern cannot be expanded: " +
				"customresourcedefinitions.apiextensions.k8s.io.spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.region.pattern:1:3: " +
				"executing"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := evaluate(t, &destination.Input{
				Changes: tc.changes, Policies: []destination.Policy{policy(t, "all", app, "env=prod")}, Clusters: clusters, Resources: tc.resources,
			})
			got := ""
			if failure := result.Failure(); failure != nil {
				got = failure.Reason + ": " + failure.Message
			}
			if diff := cmp.Diff(tc.failure, got); diff != "" {
				t.Error(diff)
			}
			same := func(want, got string) bool { return want == got || len(want) > 100 && strings.HasPrefix(got, want) }
			if diff := cmp.Diff(tc.warnings, result.Warnings(), cmp.Comparer(func(a, b string) bool { return same(a, b) || same(b, a) })); diff != "" {
				t.Error(diff)
			}
			if result.Situations != tc.situations {
				t.Errorf("%d situations, want %d", result.Situations, tc.situations)
			}
		})
	}
}

// BenchmarkOneTemplate: one object that differs on each cluster should not make the others cost
// more. A thousand clusters with many objects should take less than 250 times as long as one:
// without sharing it is a thousand times.
func BenchmarkOneTemplate(b *testing.B) {
	const objects = 3000
	for _, clusters := range []int{1, 1000} {
		b.Run(fmt.Sprint(clusters), func(b *testing.B) {
			in := oneTemplate(b, clusters, objects)
			for b.Loop() {
				evaluate(b, in)
			}
		})
	}
}

// TestOneTemplate: an object that differs on each cluster is checked on each.
func TestOneTemplate(t *testing.T) {
	const clusters = 1000
	if result := evaluate(t, oneTemplate(t, clusters, 3)); result.Situations != clusters || result.Failure() != nil {
		t.Errorf("%d situations, failure %v", result.Situations, result.Failure())
	}
}

// oneTemplate has objects that are equal on all clusters, and one that is not.
func oneTemplate(t testing.TB, clusters, objects int) *destination.Input {
	t.Helper()
	const app = "app=a"
	in := &destination.Input{Policies: []destination.Policy{policy(t, "all", app, "env=prod")}}
	before, after := crd(app, "v1:region,size"), enum(crd(app, "v1:region,size"), "^eu")
	in.Changes = []destination.Change{{Package: pkg, Before: before, After: after, Had: delivered(t, before, removing()), Gets: delivered(t, after, removing())}}
	for n := range objects {
		in.Resources = append(in.Resources, deliver(bucket(fmt.Sprint("b", n), app, "region=eu"), removing()))
	}
	in.Resources = append(in.Resources, deliver(bucket("mine", app, "region=eu,size={{.clusterName}}"), removing()))
	for n := range clusters {
		name := fmt.Sprint("c", n)
		in.Clusters = append(in.Clusters, destination.Cluster{Name: name, Labels: parse("env=prod"), Properties: customize.NewProperties(name)})
	}
	return in
}

package render_test

import (
	"errors"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/customize"
	"github.com/starlinghq/starling/pkg/core/customtransform"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/options"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/render"
	"github.com/starlinghq/starling/pkg/core/transform"
)

var (
	settings   = objref.Ref{Resource: "configmaps", Namespace: "shop", Name: "settings"}
	web        = objref.Ref{Group: "apps", Resource: "deployments", Namespace: "shop", Name: "web"}
	autoscaler = objref.Ref{Group: "autoscaling", Resource: "horizontalpodautoscalers", Namespace: "shop", Name: "web"}
)

func decode(t *testing.T, text string) map[string]any {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := kjson.Unmarshal(raw, &object); err != nil {
		t.Fatal(err)
	}
	return object
}

// removal returns the instructions of CustomTransforms for ConfigMaps; a path "" is invalid.
func removal(paths ...string) *customtransform.Instructions {
	ct := &controlv1alpha1.CustomTransform{Spec: controlv1alpha1.CustomTransformSpec{Resource: "configmaps", Remove: paths}}
	ct.Name = "colors"
	return customtransform.Settled([]*controlv1alpha1.CustomTransform{ct})(schema.GroupResource{Resource: "configmaps"})
}

// TestRender: what a cluster gets of an object, or why it gets nothing.
var aHash = regexp.MustCompile(`"0/u/[0-9a-f]{16}"`)

func TestRender(t *testing.T) {
	const head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: shop, uid: u, generation: 3, resourceVersion: \"7\""
	cases := map[string]struct {
		object     string
		removal    *customtransform.Instructions
		uid        types.UID
		ref        objref.Ref // settings, if it is none
		properties *customize.Properties
		want       string
		wantErr    string
	}{
		"Plain": {object: head + "}\ndata: {a: b}", want: `{"apiVersion":"v1","data":{"a":"b"},"kind":"ConfigMap","metadata":{"name":"settings","namespace":"shop"}}`},
		"Options": { // are not delivered
			object: head + ", annotations: {starling.io/apply: create-only}}",
			want:   `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings","namespace":"shop"}}`,
		},
		"InvalidOptions": {
			object:  head + ", annotations: {starling.io/on-removal: x}}",
			wantErr: `metadata.annotations[starling.io/on-removal]: "x" must be delete or orphan`,
		},
		"CustomTransform": {
			object: head + "}\ndata: {a: b, c: d}", removal: removal("$.data.a"),
			want: `{"apiVersion":"v1","data":{"c":"d"},"kind":"ConfigMap","metadata":{"name":"settings","namespace":"shop"}}`,
		},
		"CustomTransformWithErrors": {object: head + "}", removal: removal(""), wantErr: "CustomTransforms have errors: colors"},
		"OfTheWDS": {
			object: head + "}", uid: "u",
			want: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"annotations":{"` + controlv1alpha1.AnnotationSourceGeneration + `":"0/u"},"name":"settings","namespace":"shop"}}`,
		},
		"NotConverted": {
			object: head + ", annotations: {starling.io/not-converted-from: v1alpha1}}", uid: "u",
			wantErr: "it was written in version v1alpha1, and the WDS reads it in version v1 without converting it, so fields can be missing: " +
				"apply it in version v1, or remove the annotation starling.io/not-converted-from if it is whole",
		},
		"WithAStatus": {
			ref: objref.Ref{Group: "example.com", Resource: "apps", Namespace: "shop", Name: "settings"}, uid: "u",
			object: "apiVersion: example.com/v1\nkind: App\nmetadata: {name: settings, namespace: shop, uid: u, generation: 3}",
			want:   `{"apiVersion":"example.com/v1","kind":"App","metadata":{"annotations":{"` + controlv1alpha1.AnnotationSourceGeneration + `":"3/u"},"name":"settings","namespace":"shop"}}`,
		},
		"WithoutAGeneration": {
			ref: objref.Ref{Resource: "services", Namespace: "shop", Name: "settings"}, uid: "u",
			object: "apiVersion: v1\nkind: Service\nmetadata: {name: settings, namespace: shop, uid: u, resourceVersion: \"7\"}",
			want:   `{"apiVersion":"v1","kind":"Service","metadata":{"annotations":{"` + controlv1alpha1.AnnotationSourceGeneration + `":"0/u/HASH"},"name":"settings","namespace":"shop"}}`,
		},
		"Template": {
			object:     head + ", annotations: {control.kubestellar.io/expand-templates: \"true\"}}\ndata: {a: \"{{.clusterName}}\"}",
			properties: customize.NewProperties("c1", nil),
			want:       `{"apiVersion":"v1","data":{"a":"c1"},"kind":"ConfigMap","metadata":{"annotations":{"control.kubestellar.io/expand-templates":"true"},"name":"settings","namespace":"shop"}}`,
		},
		"TemplateWithoutProperties": {
			object:  head + ", annotations: {control.kubestellar.io/expand-templates: \"true\"}}\ndata: {a: \"{{.clusterName}}\"}",
			wantErr: "the properties of the cluster are not known",
		},
		"InvalidTemplate": {
			object:  head + ", annotations: {control.kubestellar.io/expand-templates: \"true\"}}\ndata: {a: \"{{\"}",
			wantErr: ".data.a cannot be parsed as a template: configmaps.data.a:1: unclosed action",
		},
		"NoKind": {object: "apiVersion: v1\nmetadata: {name: settings}", wantErr: "the object has no apiVersion and kind"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			source := &render.Source{Ref: settings, Object: decode(t, tc.object), Removal: tc.removal, UID: tc.uid}
			if tc.ref != (objref.Ref{}) {
				source.Ref = tc.ref
			}
			if source.Removal == nil {
				source.Removal = removal()
			}
			got, err := "", error(nil)
			m, err := render.Render(source)
			if err == nil {
				var object transform.Object
				object, err = m.At(tc.properties)
				got = aHash.ReplaceAllString(string(object.JSON), `"0/u/HASH"`)
				if m.Template == nil {
					if diff := cmp.Diff(source.Object, render.Content(object)); diff != "" {
						t.Errorf("what Render left of its source (-), what it returned (+):\n%s", diff)
					}
				}
			}
			text := ""
			if err != nil {
				text = err.Error()
			}
			if diff := cmp.Diff([]string{tc.want, tc.wantErr}, []string{got, text}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			unknown, is := errors.AsType[*render.UnknownRemovalError](err)
			if want := name == "CustomTransformWithErrors"; is != want || is && unknown.CustomTransforms[0] != "colors" {
				t.Errorf("it is an UnknownRemovalError: %v (%v), want %v", is, unknown, want)
			}
		})
	}
}

// TestCarry: the options with which a Binding carries a Deployment.
func TestCarry(t *testing.T) {
	of := func(target string) *transform.Object {
		return render.Autoscaler(autoscaler, map[string]any{"spec": map[string]any{"scaleTargetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": target}}})
	}
	const object, binding = "object", "Binding"
	cases := map[string]struct {
		annotations map[string]string // "object" or "Binding", to the value of starling.io/apply
		createOnly  bool
		scaler      *transform.Object
		has, known  bool // an autoscaler, and its content
		noReplicas  bool
		want        plan.Options
		waits       bool
	}{
		"Nothing":                               {},
		"OfTheObject":                           {annotations: map[string]string{object: "server-side", binding: "update"}, want: plan.Options{NoForce: true}},
		"OfTheBinding":                          {annotations: map[string]string{binding: "update"}, want: plan.Options{Update: true}},
		"CreateOnly":                            {annotations: map[string]string{object: "server-side"}, createOnly: true, want: plan.Options{CreateOnly: true}},
		"Scaled":                                {has: true, known: true, scaler: of("web"), want: plan.Options{IgnoredFields: ".spec.replicas"}},
		"ScaledAsTheUserWants":                  {annotations: map[string]string{object: "server-side"}, has: true, known: true, scaler: of("web"), want: plan.Options{NoForce: true}},
		"ScaledAndCreateOnly":                   {createOnly: true, has: true, known: true, scaler: of("web"), want: plan.Options{CreateOnly: true}},
		"AnotherIsScaled":                       {has: true, known: true, scaler: of("db")},
		"TheAutoscalerIsUnknown":                {has: true, scaler: of("web"), waits: true},
		"AnUnknownOneOfAnother":                 {has: true, scaler: of("db")},
		"ItWasNeverSeen":                        {has: true, waits: true},
		"ItWasNeverSeenAndThereAreNoReplicas":   {has: true, noReplicas: true},
		"ItIsUnknownAndTheUserSaysHowToApplyIt": {annotations: map[string]string{binding: "server-side"}, has: true, want: plan.Options{NoForce: true}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			requested := map[string]options.Requested{}
			for of, value := range tc.annotations {
				r, err := options.Parse(map[string]string{controlv1alpha1.AnnotationApply: value})
				if err != nil {
					t.Fatal(err)
				}
				requested[of] = r
			}
			scope := render.NewScope(requested[binding], nil)
			if tc.has {
				scope.Add(autoscaler, tc.scaler, tc.known)
			}
			got, waits := scope.Carry(&render.Listed{
				Ref: web, Kind: schema.GroupKind{Group: "apps", Kind: "Deployment"}, Requested: requested[object], CreateOnly: tc.createOnly, Replicas: !tc.noReplicas,
			})
			if diff := cmp.Diff(tc.want, got); diff != "" && !tc.waits {
				t.Errorf("options (-want +got):\n%s", diff)
			}
			if tc.waits != (waits != nil) || waits != nil && *waits != autoscaler {
				t.Errorf("waits for %v, want %v", waits, tc.waits)
			}
		})
	}
}

// TestCarryWhatStays: Namespaces that a cluster cannot do without stay, and so does what an object
// needs that stays, also if its own annotation says otherwise.
func TestCarryWhatStays(t *testing.T) {
	asking := func(value string) options.Requested {
		r, err := options.Parse(map[string]string{controlv1alpha1.AnnotationOnRemoval: value})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	namespace := func(name string) objref.Ref { return objref.Ref{Resource: "namespaces", Name: name} }
	widget := objref.Ref{Group: "example.com", Resource: "widgets", Namespace: "web", Name: "one"}
	definition := plan.DefinitionOf(widget.GroupResource())
	for name, tc := range map[string]struct {
		ref                     objref.Ref
		requested               options.Requested
		dependent, ofTheBinding options.Requested
		want                    bool
	}{
		"Default":                         {ref: namespace("default"), want: true},
		"Nothing":                         {ref: namespace("web")},
		"ADependent":                      {ref: namespace("web"), dependent: asking("orphan"), want: true},
		"ADependentElsewhere":             {ref: namespace("db"), dependent: asking("orphan")},
		"ItsDefinition":                   {ref: definition, dependent: asking("orphan"), want: true},
		"NotWhatIsBesideIt":               {ref: objref.Ref{Group: widget.Group, Resource: widget.Resource, Namespace: "web", Name: "two"}, dependent: asking("orphan")},
		"NoDependent":                     {ref: namespace("web"), dependent: asking("delete"), ofTheBinding: asking("orphan"), requested: asking("delete")},
		"ADependentByTheBinding":          {ref: namespace("web"), ofTheBinding: asking("orphan"), requested: asking("delete"), want: true},
		"ADependentThoughToBeDeleted":     {ref: definition, dependent: asking("orphan"), requested: asking("delete"), want: true},
		"ADependentThatDoesNotStayAtLast": {ref: definition, dependent: asking("delete")},
	} {
		t.Run(name, func(t *testing.T) {
			kept := render.Kept{}
			kept.Add(widget, tc.dependent, tc.ofTheBinding)
			got, _ := render.NewScope(tc.ofTheBinding, kept).Carry(&render.Listed{Ref: tc.ref, Requested: tc.requested})
			if diff := cmp.Diff(plan.Options{Orphan: tc.want}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if render.NewScope(options.Requested{}, nil).Equal(render.NewScope(options.Requested{}, render.Kept{definition: true})) {
		t.Error("a Scope that keeps something equals one that does not")
	}
}

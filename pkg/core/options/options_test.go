package options_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/options"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
)

const (
	apply     = "starling.io/apply"
	ignore    = "starling.io/ignore-fields"
	onRemoval = "starling.io/on-removal"
)

func TestParse(t *testing.T) {
	var (
		none     plan.Options
		create   = plan.Options{CreateOnly: true}
		ssa      = plan.Options{ServerSide: true}
		force    = plan.Options{ServerSide: true, Force: true}
		orphan   = plan.Options{Orphan: true}
		ignoring = func(o plan.Options, paths ...string) plan.Options {
			o.IgnoredFields = strings.Join(paths, "\n")
			return o
		}
	)
	cases := map[string]struct {
		annotations map[string]string
		rule        plan.Options
		want        plan.Options
		wantErr     string
	}{
		"Nothing":        {nil, none, none, ""},
		"RuleOfTheKind":  {nil, force, force, ""},
		"UpdateOverRule": {map[string]string{apply: "update"}, force, none, ""},
		"ServerSide":     {map[string]string{apply: "server-side"}, none, ssa, ""},
		"Force":          {map[string]string{apply: " server-side-force\n"}, none, force, ""},
		"CreateOnly":     {map[string]string{apply: "create-only"}, force, create, ""},
		"Orphan":         {map[string]string{onRemoval: "orphan"}, force, plan.Options{ServerSide: true, Force: true, Orphan: true}, ""},
		"NeverDeleted":   {map[string]string{onRemoval: "delete"}, orphan, orphan, ""},
		"IgnoreFields": {
			map[string]string{ignore: ".spec.replicas, $.spec.template.spec.containers[*].image\n.spec.replicas"},
			none,
			ignoring(force, ".spec.replicas", ".spec.template.spec.containers[*].image"), "",
		},
		"IgnoreWithoutForce": {map[string]string{apply: "server-side", ignore: "spec.replicas"}, none, ignoring(ssa, ".spec.replicas"), ""},
		"IgnoreNothing":      {map[string]string{ignore: " "}, force, force, ""},
		"UnknownApply": {
			map[string]string{apply: "ssa"},
			none, none,
			`metadata.annotations[starling.io/apply]: "ssa" must be one of update, server-side, server-side-force, create-only`,
		},
		"UnknownRemoval": {
			map[string]string{onRemoval: "keep"}, none, none, `metadata.annotations[starling.io/on-removal]: "keep" must be delete or orphan`,
		},
		"TopLevel": {
			map[string]string{ignore: ".data"},
			none, none,
			`metadata.annotations[starling.io/ignore-fields]: ".data" must be the path of a field below another one, such as .spec.replicas or .spec.template.spec.containers[0].image`,
		},
		"Filter": {
			map[string]string{ignore: `.spec.list[?(@.name=="x")].y`},
			none, none,
			`metadata.annotations[starling.io/ignore-fields]: ".spec.list[?(@.name==\"x\")].y" must be the path of a field below another one, such as .spec.replicas or .spec.template.spec.containers[0].image`,
		},
		"Identity": {map[string]string{ignore: ".metadata.name"}, none, none, `metadata.annotations[starling.io/ignore-fields]: ".metadata.name" is part of the object's identity`},
		"IgnoreWithUpdate": {
			map[string]string{apply: "update", ignore: ".spec.replicas"},
			none, none,
			`metadata.annotations[starling.io/ignore-fields]: fields can be ignored by server-side and server-side-force only; leave starling.io/apply away, or change it`,
		},
		"Several": {
			map[string]string{apply: "x", onRemoval: "y"},
			none, none,
			`metadata.annotations[starling.io/apply]: "x" must be one of update, server-side, server-side-force, create-only` + "\n" +
				`metadata.annotations[starling.io/on-removal]: "y" must be delete or orphan`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			wish, err := options.Parse(tc.annotations)
			text := ""
			if err != nil {
				text = err.Error()
			}
			if diff := cmp.Diff(tc.wantErr, text); diff != "" {
				t.Fatalf("error (-want +got):\n%s", diff)
			}
			if err != nil {
				return
			}
			if diff := cmp.Diff(tc.want, wish.Options(tc.rule)); diff != "" {
				t.Errorf("Options() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOver(t *testing.T) {
	wish := func(annotations map[string]string) options.Wish {
		w, err := options.Parse(annotations)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	binding := wish(map[string]string{apply: "server-side", ignore: ".spec.replicas", onRemoval: "orphan"})
	for name, tc := range map[string]struct {
		object map[string]string
		want   plan.Options
	}{
		"AllOfTheBinding":  {nil, plan.Options{ServerSide: true, IgnoredFields: ".spec.replicas", Orphan: true}},
		"HowOfTheObject":   {map[string]string{apply: "create-only"}, plan.Options{CreateOnly: true, Orphan: true}},
		"RemovalOfTheSame": {map[string]string{onRemoval: "delete"}, plan.Options{ServerSide: true, IgnoredFields: ".spec.replicas"}},
	} {
		if diff := cmp.Diff(tc.want, wish(tc.object).Over(binding).Options(plan.Options{})); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", name, diff)
		}
	}
}

// TestMerge: the order of Bindings does not matter, nor how often one counts.
func TestMerge(t *testing.T) {
	all := []plan.Options{
		{},
		{CreateOnly: true},
		{ServerSide: true},
		{ServerSide: true, Force: true},
		{Orphan: true},
		{ServerSide: true, IgnoredFields: ".a.b\n.a.d"},
		{ServerSide: true, IgnoredFields: ".a.c", Orphan: true},
	}
	for _, a := range all {
		for _, b := range all {
			ab := options.Merge(a, b)
			if ba := options.Merge(b, a); ab != ba {
				t.Errorf("%+v and %+v: %+v, and the other way round %+v", a, b, ab, ba)
			}
			if again := options.Merge(ab, a); again != ab {
				t.Errorf("%+v and %+v: %+v, and once more %+v", a, b, ab, again)
			}
			for _, c := range all {
				if x, y := options.Merge(ab, c), options.Merge(a, options.Merge(b, c)); x != y {
					t.Errorf("%+v, %+v, %+v: %+v or %+v", a, b, c, x, y)
				}
			}
		}
	}
	want := plan.Options{ServerSide: true, IgnoredFields: ".a.b\n.a.c\n.a.d", Orphan: true}
	if diff := cmp.Diff(want, options.Merge(all[5], all[6])); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAutoscaler(t *testing.T) {
	hpa := objref.Ref{Group: "autoscaling", Resource: "horizontalpodautoscalers", Namespace: "web", Name: "a"}
	if !options.IsAutoscaler(hpa) || options.IsAutoscaler(objref.Ref{Resource: "pods"}) {
		t.Error("IsAutoscaler() is wrong")
	}
	for raw, want := range map[string]string{
		`{"spec":{"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"nginx"}}}`:   "Deployment.apps web/nginx",
		`{"spec":{"scaleTargetRef":{"apiVersion":"v1","kind":"ReplicationController","name":"x"}}}`: "ReplicationController web/x",
		`{"spec":{}}`: "", `[]`: "",
	} {
		got := ""
		if target, ok := options.TargetOf(&transform.Object{Ref: hpa, JSON: []byte(raw)}); ok {
			got = target.Kind.String() + " " + target.Namespace + "/" + target.Name
		}
		if got != want {
			t.Errorf("TargetOf(%s) = %q, want %q", raw, got, want)
		}
	}
	for _, tc := range []struct{ in, want plan.Options }{
		{plan.Options{}, plan.Options{ServerSide: true, Force: true, IgnoredFields: ".spec.replicas"}},
		{plan.Options{ServerSide: true}, plan.Options{ServerSide: true, IgnoredFields: ".spec.replicas"}},
		{plan.Options{CreateOnly: true}, plan.Options{CreateOnly: true}},
	} {
		if got := options.Scaled(tc.in); got != tc.want {
			t.Errorf("Scaled(%+v) = %+v, want %+v", tc.in, got, tc.want)
		}
	}
	claim := objref.Ref{Resource: "persistentvolumeclaims", Namespace: "web", Name: "data"}
	if got := options.ForKind(claim); !got.ServerSide || !got.Force {
		t.Errorf("ForKind(claim) = %+v", got)
	}
	if got := options.ForKind(objref.New(schema.GroupResource{Resource: "configmaps"}, "web", "x")); got != (plan.Options{}) {
		t.Errorf("ForKind(ConfigMap) = %+v", got)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("server-side", ".spec.replicas, spec.x[0].y", "orphan")
	f.Fuzz(func(t *testing.T, how, paths, removal string) {
		wish, err := options.Parse(map[string]string{apply: how, ignore: paths, onRemoval: removal})
		if err != nil {
			return
		}
		o := wish.Options(plan.Options{})
		if o.IgnoredFields != "" && (!o.ServerSide || o.CreateOnly) {
			t.Errorf("%+v ignores fields without a server-side apply", o)
		}
		for path := range strings.SplitSeq(o.IgnoredFields, "\n") {
			if path != "" && (!strings.HasPrefix(path, ".") || strings.Count(path, ".") < 2) {
				t.Errorf("the path %q is none", path)
			}
		}
	})
}

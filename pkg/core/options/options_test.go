package options_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
		none     plan.Options // a server-side apply with force
		create   = plan.Options{CreateOnly: true}
		polite   = plan.Options{NoForce: true}
		ignoring = func(o plan.Options, paths ...string) plan.Options {
			o.IgnoredFields = strings.Join(paths, "\n")
			return o
		}
	)
	cases := map[string]struct {
		annotations map[string]string
		want        plan.Options
		wantErr     string
	}{
		"Nothing":    {nil, none, ""},
		"Update":     {map[string]string{apply: "update"}, plan.Options{Update: true}, ""},
		"ServerSide": {map[string]string{apply: "server-side"}, polite, ""},
		"Force":      {map[string]string{apply: " server-side-force\n"}, none, ""},
		"CreateOnly": {map[string]string{apply: "create-only"}, create, ""},
		"Orphan":     {map[string]string{onRemoval: "orphan"}, plan.Options{Orphan: true}, ""},
		"Delete":     {map[string]string{onRemoval: "delete"}, none, ""},
		"IgnoreFields": {
			map[string]string{ignore: ".spec.replicas, $.spec.template.metadata.labels\n.spec.replicas"},
			ignoring(none, ".spec.replicas", ".spec.template.metadata.labels"), "",
		},
		"IgnoreWithoutForce": {map[string]string{apply: "server-side", ignore: "spec.replicas"}, ignoring(polite, ".spec.replicas"), ""},
		"IgnoreNothing":      {map[string]string{ignore: " "}, none, ""},
		"UnknownApply": {
			map[string]string{apply: "ssa"},
			none,
			`metadata.annotations[starling.io/apply]: "ssa" must be one of update, server-side, server-side-force, create-only`,
		},
		"UnknownRemoval": {
			map[string]string{onRemoval: "keep"}, none, `metadata.annotations[starling.io/on-removal]: "keep" must be delete or orphan`,
		},
		"TopLevel": {
			map[string]string{ignore: ".data"},
			none,
			`metadata.annotations[starling.io/ignore-fields]: ".data" must be the path of a field inside a top-level field, such as .spec.replicas`,
		},
		"Element": {
			map[string]string{ignore: `.spec.template.spec.containers[0].image`},
			none,
			`metadata.annotations[starling.io/ignore-fields]: ".spec.template.spec.containers[0].image" is in a list: a cluster cannot apply an element without its required fields. Remove the path, or set the annotation starling.io/apply to create-only`,
		},
		"QuotedKey": {
			map[string]string{ignore: `.metadata.annotations['example.com/restarted']`},
			none,
			`metadata.annotations[starling.io/ignore-fields]: ".metadata.annotations['example.com/restarted']" names a key in quotes, which cannot be ignored alone; name the field that has the key`,
		},
		"Identity": {map[string]string{ignore: ".metadata.name"}, none, `metadata.annotations[starling.io/ignore-fields]: ".metadata.name" cannot be ignored, because it identifies the object; remove it from the list`},
		"IgnoreWithUpdate": {
			map[string]string{apply: "update", ignore: ".spec.replicas"},
			none,
			`metadata.annotations[starling.io/ignore-fields]: only server-side and server-side-force can ignore fields; remove the annotation starling.io/apply, or set it to one of these`,
		},
		"Several": {
			map[string]string{apply: "x", onRemoval: "y"},
			none,
			`metadata.annotations[starling.io/apply]: "x" must be one of update, server-side, server-side-force, create-only` + "\n" +
				`metadata.annotations[starling.io/on-removal]: "y" must be delete or orphan`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			requested, err := options.Parse(tc.annotations)
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
			if diff := cmp.Diff(tc.want, requested.Options()); diff != "" {
				t.Errorf("Options() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWithDefaults(t *testing.T) {
	parse := func(annotations map[string]string) options.Requested {
		r, err := options.Parse(annotations)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	binding := parse(map[string]string{apply: "server-side", ignore: ".spec.replicas", onRemoval: "orphan"})
	for name, tc := range map[string]struct {
		object map[string]string
		want   plan.Options
	}{
		"AllOfTheBinding":  {nil, plan.Options{NoForce: true, IgnoredFields: ".spec.replicas", Orphan: true}},
		"HowOfTheObject":   {map[string]string{apply: "create-only"}, plan.Options{CreateOnly: true, Orphan: true}},
		"RemovalOfTheSame": {map[string]string{onRemoval: "delete"}, plan.Options{NoForce: true, IgnoredFields: ".spec.replicas"}},
	} {
		if diff := cmp.Diff(tc.want, parse(tc.object).WithDefaults(binding).Options()); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", name, diff)
		}
	}
}

// TestMerge checks that the order of Bindings does not matter, and that repeating one changes
// nothing.
func TestMerge(t *testing.T) {
	all := []plan.Options{
		{},
		{CreateOnly: true},
		{NoForce: true},
		{Update: true},
		{Orphan: true},
		{NoForce: true, IgnoredFields: ".a.b\n.a.d"},
		{IgnoredFields: ".a.c", Orphan: true},
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
	want := plan.Options{NoForce: true, IgnoredFields: ".a.b\n.a.c\n.a.d", Orphan: true}
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
		{plan.Options{}, plan.Options{IgnoredFields: ".spec.replicas"}},
		{plan.Options{NoForce: true}, plan.Options{NoForce: true, IgnoredFields: ".spec.replicas"}},
		{plan.Options{CreateOnly: true}, plan.Options{CreateOnly: true}},
	} {
		if got := options.Scaled(tc.in); got != tc.want {
			t.Errorf("Scaled(%+v) = %+v, want %+v", tc.in, got, tc.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("server-side", ".spec.replicas, spec.x[0].y", "orphan")
	f.Fuzz(func(t *testing.T, how, paths, removal string) {
		requested, err := options.Parse(map[string]string{apply: how, ignore: paths, onRemoval: removal})
		if err != nil {
			return
		}
		o := requested.Options()
		if o.IgnoredFields != "" && (o.Update || o.CreateOnly) {
			t.Errorf("%+v ignores fields without a server-side apply", o)
		}
		for path := range strings.SplitSeq(o.IgnoredFields, "\n") {
			if path != "" && (!strings.HasPrefix(path, ".") || strings.Count(path, ".") < 2) {
				t.Errorf("the path %q is none", path)
			}
		}
	})
}

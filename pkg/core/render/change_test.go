package render_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/render"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// TestChangeOf: what a cluster with {a: 1, list: [{x: 1, y: 1}, {x: 2}]} changes.
func TestChangeOf(t *testing.T) {
	content := func(text string) transform.Object {
		object, err := transform.Pipeline{}.Apply(settings, decode(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: "+text))
		if err != nil {
			t.Fatal(err)
		}
		return object
	}
	const had = "{a: 1, list: [{x: 1, y: 1}, {x: 2}]}"
	cases := map[string]struct {
		gets       string
		with       plan.Options
		updates    bool
		ignored    string
		createOnly bool
	}{
		"Same":              {gets: had},
		"SameAndCreateOnly": {gets: had, with: plan.Options{CreateOnly: true}},
		"CreateOnly":        {gets: "{a: 2}", with: plan.Options{CreateOnly: true}, createOnly: true},
		"Other":             {gets: "{a: 2}", updates: true},
		"Ignored":           {gets: "{a: 2, list: [{x: 1, y: 1}, {x: 2}]}", with: plan.Options{IgnoredFields: ".data.a"}, ignored: ".data.a"},
		"IgnoredGoes":       {gets: "{list: [{x: 1, y: 1}, {x: 2}]}", with: plan.Options{IgnoredFields: ".data.a"}, ignored: ".data.a"},
		"IgnoredIsNotThere": {gets: had, with: plan.Options{IgnoredFields: ".data.b"}},
		"IgnoredBelowNoMap": {gets: "{a: 2, list: [{x: 1, y: 1}, {x: 2}]}", with: plan.Options{IgnoredFields: ".data.a.b"}, updates: true},
		"BesideIgnored":     {gets: "{a: 2, list: []}", with: plan.Options{IgnoredFields: ".data.a"}, updates: true, ignored: ".data.a"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := render.ChangeOf(content(had), content(tc.gets), tc.with)
			got := []any{c.Updates(), strings.Join(c.Ignored, " "), c.CreateOnly}
			if diff := cmp.Diff([]any{tc.updates, tc.ignored, tc.createOnly}, got); diff != "" {
				t.Errorf("updates, ignored, create-only (-want +got):\n%s", diff)
			}
		})
	}
}

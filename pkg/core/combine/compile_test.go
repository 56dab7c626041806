package combine

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

type (
	spec   = controlv1alpha1.StatusCollectorSpec
	named  = controlv1alpha1.NamedExpression
	field  = controlv1alpha1.NamedAggregator
	values = []controlv1alpha1.Value
)

func expr(text string) *controlv1alpha1.Expression { return new(controlv1alpha1.Expression(text)) }

func TestCompileReportsEveryMistake(t *testing.T) {
	for name, tc := range map[string]struct {
		spec spec
		want []string
	}{
		"Select":        {spec: spec{Select: []named{{Name: "a", Def: "inventory.name"}}}},
		"Aggregate":     {spec: spec{CombinedFields: []field{{Name: "n", Type: "COUNT"}}}},
		"Group":         {spec: spec{GroupBy: []named{{Name: "g", Def: "returned.status.phase"}}, CombinedFields: []field{{Name: "n", Type: "SUM", Subject: expr("1")}}}},
		"Nothing":       {spec: spec{}},
		"AllVariables":  {spec: spec{Filter: expr("obj.a == returned.status.b && inventory.labels.c == 'd' && propagation.lastReturnedUpdateTimestamp > timestamp('2026-01-01T00:00:00Z')")}},
		"MixedTypes":    {spec: spec{Select: []named{{Name: "a", Def: `{"a": 1, "b": ["x", obj.y, null]}`}}}},
		"KubernetesCEL": {spec: spec{Select: []named{{Name: "a", Def: `quantity("1Gi").isGreaterThan(quantity("1Mi")) && [1, 2].sum() == 3 && "abc".find("b") == "b" && isURL("x")`}}}},
		"SelectAndAggregate": {
			spec: spec{Select: []named{{Name: "a", Def: "1"}}, CombinedFields: []field{{Name: "n", Type: "COUNT"}}},
			want: []string{"groupBy and combinedFields must be empty if select is not"},
		},
		"SelectAndGroup": {
			spec: spec{Select: []named{{Name: "a", Def: "1"}}, GroupBy: []named{{Name: "g", Def: "1"}}},
			want: []string{"groupBy and combinedFields must be empty if select is not", "groupBy must be empty if combinedFields is"},
		},
		"GroupAlone": {
			spec: spec{GroupBy: []named{{Name: "g", Def: "1"}}},
			want: []string{"groupBy must be empty if combinedFields is"},
		},
		"DoNotParse": {
			spec: spec{Filter: expr("1 +"), Select: []named{{Name: "a", Def: "("}, {Name: "b", Def: ""}}},
			want: []string{
				"filter expression invalid: 1:4: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}",
				"select expression (a) invalid: 1:2: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}",
				"select expression (b) invalid: 1:1: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}",
			},
		},
		"DoNotCheck": {
			spec: spec{
				Filter:  expr("nobody"),
				GroupBy: []named{{Name: "g", Def: "1 + 'a'"}},
				CombinedFields: []field{
					{Name: "n", Type: "COUNT", Subject: expr("1")},
					{Name: "s", Type: "SUM"},
					{Name: "m", Type: "MIN", Subject: expr("oj.x")},
					{Name: "x", Type: "MEDIAN", Subject: expr("1")},
				},
			},
			want: []string{
				"filter expression invalid: 1:1: undeclared reference to 'nobody'",
				"groupBy expression (g) invalid: 1:3: found no matching overload for '_+_' applied to '(int, string)'",
				"combinedField expression (n) invalid: subject must be nil for COUNT type",
				"combinedField expression (s) invalid: subject must be set",
				"combinedField expression (m) subject invalid: 1:1: undeclared reference to 'oj'",
				`combinedField expression (x) invalid: type must be one of COUNT, SUM, AVG, MIN, MAX, is "MEDIAN"`,
			},
		},
		"WrongKinds": {
			spec: spec{Filter: expr("'yes'"), CombinedFields: []field{{Name: "s", Type: "SUM", Subject: expr("[1]")}, {Name: "m", Type: "MAX", Subject: expr("true")}}},
			want: []string{
				"filter expression invalid: must evaluate to true, false or null, evaluates to string",
				"combinedField expression (s) subject invalid: must evaluate to a number, evaluates to list(int)",
				"combinedField expression (m) subject invalid: must evaluate to a number, evaluates to bool",
			},
		},
		"Optional": {spec: spec{Filter: expr("returned.?status.ready"), CombinedFields: []field{{Name: "s", Type: "SUM", Subject: expr("returned.?status.replicas")}}}},
	} {
		t.Run(name, func(t *testing.T) {
			c, errs := Compile(&tc.spec)
			if diff := cmp.Diff(tc.want, errs); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if (c == nil) != (len(tc.want) > 0) {
				t.Errorf("returned a collector: %v", c != nil)
			}
		})
	}
}

func TestCompileFindsUsedVariables(t *testing.T) {
	for text, want := range map[string][2]bool{
		"objx.obj":                         {}, // does not compile
		"returned.status.obj":              {false, false},
		"'obj' + inventory.name":           {false, true},
		"obj.spec.replicas":                {true, false},
		"returned.status.all(x, obj == x)": {true, false},
		"has(obj.x) ? inventory : 1":       {}, // does not check: a map and an int
	} {
		c, errs := Compile(&spec{Select: []named{{Name: "a", Def: controlv1alpha1.Expression(text)}}})
		if c == nil {
			if want != [2]bool{} {
				t.Errorf("%s: %v", text, errs)
			}
			continue
		}
		if got := [2]bool{c.UsesObject(), c.UsesInventory()}; got != want {
			t.Errorf("%s uses object and inventory %v, want %v", text, got, want)
		}
	}
}

func FuzzCompile(f *testing.F) {
	for _, text := range []string{"1", "obj.a", "returned.status.x + 1", "[1,2].map(x, x)", "{'a': 1}", "inventory.name.matches('(')", "'\\xff'", "b'\\377'", "1.0/0.0", "returned.?status.?x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, errs := Compile(&spec{Select: []named{{Name: "a", Def: controlv1alpha1.Expression(text)}}})
		if (c == nil) == (len(errs) == 0) {
			t.Fatalf("collector %v, errors %v", c, errs)
		}
		for _, err := range errs {
			if !strings.HasPrefix(err, "select expression (a) invalid: ") || strings.ContainsAny(err, "\n\r") {
				t.Errorf("error %q", err)
			}
		}
		if c == nil {
			return
		}
		q := Question{
			Collectors: map[string]*Collector{"c": c}, Object: map[string]any{"a": int64(1)}, Clusters: []Cluster{{Name: "c1", Version: "1"}},
			Report: func(string) Report {
				return Report{Reported: true, Version: "1", Status: map[string]any{"x": int64(1)}}
			},
		}
		var table Table
		first, evaluations, _ := table.Answer(t.Context(), q)
		again, more, _ := table.Answer(t.Context(), q)
		if evaluations != 1 || more != 0 {
			t.Errorf("evaluated %d rows, then %d", evaluations, more)
		}
		if diff := cmp.Diff(first, again); diff != "" {
			t.Errorf("another answer (-first +again):\n%s", diff)
		}
		if rows := first[0].Rows; len(rows) != 1 || len(rows[0].Columns) != 1 || rows[0].Columns[0].Type == "" {
			t.Errorf("rows %v", rows)
		}
	})
}

package combine

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

func str(s string) controlv1alpha1.Value { return controlv1alpha1.Value{Type: "String", String: &s} }

func num(s string) controlv1alpha1.Value   { return controlv1alpha1.Value{Type: "Number", Number: &s} }
func boolean(b bool) controlv1alpha1.Value { return controlv1alpha1.Value{Type: "Bool", Bool: &b} }

func arr(s string) controlv1alpha1.Value {
	return controlv1alpha1.Value{Type: "Array", Array: &runtime.RawExtension{Raw: []byte(s)}}
}

func object(s string) controlv1alpha1.Value {
	return controlv1alpha1.Value{Type: "Object", Object: &runtime.RawExtension{Raw: []byte(s)}}
}

var null = controlv1alpha1.Value{Type: "Null"}

func row1(v ...controlv1alpha1.Value) controlv1alpha1.StatusCombinationRow {
	return controlv1alpha1.StatusCombinationRow{Columns: v}
}

func rowErr(cluster, column, text string) controlv1alpha1.RowError {
	return controlv1alpha1.RowError{WEC: controlv1alpha1.Destination{ClusterID: cluster}, ColumnName: column, Error: text}
}

func aggErr(column, text string) controlv1alpha1.AggregationError {
	return controlv1alpha1.AggregationError{ColumnName: column, Error: text}
}

var updatedAt = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// fleet answers questions about clusters, by their statuses: nil for one that has not reported, an
// empty map for one whose object has no status.
type fleet map[string]map[string]any

func (f fleet) question(t *testing.T, collectors map[string]spec) Question {
	t.Helper()
	return f.questionWithin(t, collectors, defaultLimits)
}

func (f fleet) questionWithin(t *testing.T, collectors map[string]spec, cost limits) Question {
	t.Helper()
	q := Question{Collectors: map[string]*Collector{}, Object: map[string]any{"spec": map[string]any{"replicas": int64(3)}}, ObjectVersion: "1"}
	for name := range collectors {
		s := collectors[name]
		c, errs := compileWithin(&s, cost)
		if c == nil {
			t.Fatalf("%s: %v", name, errs)
		}
		q.Collectors[name] = c
	}
	f.into(&q)
	return q
}

func (f fleet) into(q *Question) {
	q.Clusters = nil
	for i := range 100 {
		name := fmt.Sprintf("c%02d", i)
		if _, ok := f[name]; ok {
			q.Clusters = append(q.Clusters, Cluster{Name: name, Labels: map[string]string{"n": fmt.Sprint(i)}, Version: fmt.Sprint(f[name])})
		}
	}
	q.Report = func(cluster string) Report {
		status := f[cluster]
		if status == nil {
			return Report{Version: fmt.Sprint(status)}
		}
		r := Report{Reported: true, Version: fmt.Sprint(status), Status: status, Updated: updatedAt}
		if len(status) == 0 {
			r.Status = nil
		}
		return r
	}
}

func TestAnswer(t *testing.T) {
	three := fleet{"c01": {"n": int64(1), "p": "a"}, "c02": {"n": int64(2), "p": "b"}, "c03": {"n": int64(4), "p": "a"}}
	type combination = controlv1alpha1.NamedStatusCombination
	for name, tc := range map[string]struct {
		fleet fleet
		spec  spec
		want  combination
	}{
		"Select": {
			fleet: three, spec: spec{Select: []named{{Name: "c", Def: "inventory.name"}, {Name: "l", Def: "inventory.labels.n"}, {Name: "n", Def: "returned.status.n * obj.spec.replicas"}}},
			want: combination{ColumnNames: []string{"c", "l", "n"}, Rows: []controlv1alpha1.StatusCombinationRow{
				row1(str("c01"), str("1"), num("3")), row1(str("c02"), str("2"), num("6")), row1(str("c03"), str("3"), num("12")),
			}},
		},
		"EveryTypeOfValue": {
			fleet: fleet{"c01": {"i": int64(-7), "f": 1.5, "whole": 2.0, "s": "<x>", "b": true, "l": []any{int64(1), "a", nil, 2.5}, "m": map[string]any{"z": int64(1), "a": []any{}}, "none": nil}},
			spec: spec{Select: []named{
				{Name: "1", Def: "returned.status.i"},
				{Name: "2", Def: "returned.status.f"},
				{Name: "3", Def: "returned.status.whole"},
				{Name: "4", Def: "returned.status.s"},
				{Name: "5", Def: "returned.status.b"},
				{Name: "6", Def: "returned.status.l"},
				{Name: "7", Def: "returned.status.m"},
				{Name: "8", Def: "returned.status.none"},
				{Name: "9", Def: "propagation.lastReturnedUpdateTimestamp"},
				{Name: "10", Def: "duration('90s')"},
				{Name: "11", Def: "b'abc'"},
				{Name: "12", Def: "uint(18446744073709551615u)"},
				{Name: "13", Def: "1.0/0.0"},
				{Name: "14", Def: "type(1)"},
				{Name: "15", Def: "quantity('1Gi')"},
				{Name: "16", Def: "returned.status.?other"},
				{Name: "17", Def: "returned.status.?i"},
				{Name: "18", Def: "{1: {true: -1.0/0.0}}"},
				{Name: "19", Def: "url('https://a.example/b')"},
			}, Limit: 1},
			want: combination{
				ColumnNames: []string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17", "18", "19"},
				Rows: []controlv1alpha1.StatusCombinationRow{row1(
					num("-7"), num("1.5"), num("2"), str("<x>"), boolean(true), arr(`[1,"a",null,2.5]`), object(`{"a":[],"z":1}`), null,
					str("2026-01-02T03:04:05Z"), str("1m30s"), str("YWJj"), num("18446744073709551615"), num("+Inf"), str("int"), str("1Gi"),
					null, num("-7"), object(`{"1":{"true":"-Inf"}}`), str("https://a.example/b"),
				)},
			},
		},
		"NotReported": { // a row for each destination, also when nothing was reported
			fleet: fleet{"c01": nil, "c02": {}, "c03": {"x": int64(1)}},
			spec: spec{Select: []named{
				{Name: "s", Def: "returned.status"},
				{Name: "x", Def: "has(returned.status.x) ? returned.status.x : 0"},
				{Name: "t", Def: "propagation.lastReturnedUpdateTimestamp"},
				{Name: "r", Def: "returned.status.x"},
			}},
			want: combination{
				ColumnNames: []string{"s", "x", "t", "r"},
				Rows: []controlv1alpha1.StatusCombinationRow{
					row1(null, num("0"), null, str("no such key: x")), row1(null, num("0"), str("2026-01-02T03:04:05Z"), str("no such key: x")),
					row1(object(`{"x":1}`), num("1"), str("2026-01-02T03:04:05Z"), num("1")),
				},
				RowErrors: []controlv1alpha1.RowError{rowErr("c01", "r", "no such key: x (and 1 more cluster)")},
			},
		},
		"Filter": {
			fleet: three, spec: spec{Filter: expr("returned.status.n > 1"), Select: []named{{Name: "c", Def: "inventory.name"}}},
			want: combination{ColumnNames: []string{"c"}, Rows: []controlv1alpha1.StatusCombinationRow{row1(str("c02")), row1(str("c03"))}},
		},
		"NullFilterIsFalse": {
			fleet: fleet{"c01": {"ok": nil}, "c02": {"ok": true}, "c03": {"no": true}}, spec: spec{Filter: expr("returned.status.?ok"), Select: []named{{Name: "c", Def: "inventory.name"}}},
			want: combination{ColumnNames: []string{"c"}, Rows: []controlv1alpha1.StatusCombinationRow{row1(str("c02"))}},
		},
		"FilterErrorsInSelect": { // shown, and the rows stay
			fleet: fleet{"c01": {"ok": "yes"}, "c02": {"ok": true}, "c03": {}, "c04": {"ok": false}},
			spec:  spec{Filter: expr("returned.status.ok"), Select: []named{{Name: "c", Def: "inventory.name"}}},
			want: combination{
				ColumnNames: []string{"c"}, Rows: []controlv1alpha1.StatusCombinationRow{row1(str("c01")), row1(str("c02")), row1(str("c03"))},
				RowErrors: []controlv1alpha1.RowError{rowErr("c01", "filter", "the filter must evaluate to true, false or null, evaluates to string (and 1 more cluster)")},
			},
		},
		"FilterErrorsInAggregates": { // shown, and the clusters do not count
			fleet: fleet{"c01": {"ok": "yes"}, "c02": {"ok": true}, "c03": {}, "c04": {"ok": false}},
			spec:  spec{Filter: expr("returned.status.ok"), CombinedFields: []field{{Name: "n", Type: "COUNT"}}},
			want: combination{
				ColumnNames: []string{"n"}, Rows: []controlv1alpha1.StatusCombinationRow{row1(num("1"))},
				RowErrors: []controlv1alpha1.RowError{rowErr("c01", "filter", "the filter must evaluate to true, false or null, evaluates to string (and 1 more cluster)")},
			},
		},
		"EveryAggregate": {
			fleet: three, spec: spec{CombinedFields: []field{
				{Name: "count", Type: "COUNT"},
				{Name: "sum", Type: "SUM", Subject: expr("returned.status.n")},
				{Name: "avg", Type: "AVG", Subject: expr("returned.status.n")},
				{Name: "min", Type: "MIN", Subject: expr("returned.status.n")},
				{Name: "max", Type: "MAX", Subject: expr("returned.status.n")},
				{Name: "half", Type: "SUM", Subject: expr("double(returned.status.n) / 2.0")},
			}},
			want: combination{ColumnNames: []string{"count", "sum", "avg", "min", "max", "half"}, Rows: []controlv1alpha1.StatusCombinationRow{
				row1(num("3"), num("7"), num("2.3333333333333335"), num("1"), num("4"), num("3.5")),
			}},
		},
		"NothingToAggregate": {
			fleet: fleet{}, spec: spec{CombinedFields: []field{
				{Name: "count", Type: "COUNT"},
				{Name: "sum", Type: "SUM", Subject: expr("1")},
				{Name: "avg", Type: "AVG", Subject: expr("1")},
				{Name: "min", Type: "MIN", Subject: expr("1")},
				{Name: "max", Type: "MAX", Subject: expr("1")},
			}},
			want: combination{
				ColumnNames:       []string{"count", "sum", "avg", "min", "max"},
				Rows:              []controlv1alpha1.StatusCombinationRow{row1(num("0"), num("0"), num("NaN"), num("+Inf"), num("-Inf"))},
				AggregationErrors: []controlv1alpha1.AggregationError{aggErr("avg", "no values to average")},
			},
		},
		"NothingToGroup": {
			fleet: fleet{}, spec: spec{GroupBy: []named{{Name: "g", Def: "1"}}, CombinedFields: []field{{Name: "count", Type: "COUNT"}}},
			want: combination{ColumnNames: []string{"g", "count"}},
		},
		"NullsAreSkippedAndStringsRead": {
			fleet: fleet{"c01": {"n": nil}, "c02": {"n": "4"}, "c03": {"n": "1.5"}, "c04": {"n": int64(2)}},
			spec: spec{CombinedFields: []field{
				{Name: "sum", Type: "SUM", Subject: expr("returned.status.n")},
				{Name: "avg", Type: "AVG", Subject: expr("returned.status.n")},
				{Name: "min", Type: "MIN", Subject: expr("returned.status.n")},
				{Name: "max", Type: "MAX", Subject: expr("returned.status.n")},
				{Name: "count", Type: "COUNT"},
			}},
			want: combination{ColumnNames: []string{"sum", "avg", "min", "max", "count"}, Rows: []controlv1alpha1.StatusCombinationRow{
				row1(num("7.5"), num("1.875"), num("1.5"), num("4"), num("4")),
			}},
		},
		"SubjectsThatAreNoNumbers": {
			fleet: fleet{"c01": {"n": "many"}, "c02": {"n": int64(2)}, "c03": {"n": []any{int64(1)}}},
			spec:  spec{CombinedFields: []field{{Name: "sum", Type: "SUM", Subject: expr("returned.status.n")}, {Name: "count", Type: "COUNT"}}},
			want: combination{
				ColumnNames: []string{"sum", "count"}, Rows: []controlv1alpha1.StatusCombinationRow{row1(num("2"), num("3"))},
				AggregationErrors: []controlv1alpha1.AggregationError{aggErr("sum",
					`for WEC c01, failed to parse combinedField subject as a float: strconv.ParseFloat: parsing "many": invalid syntax (and 1 more cluster)`)},
			},
		},
		"ErrorsLeaveClustersOut": {
			fleet: fleet{"c01": {"n": int64(0)}, "c02": {"n": int64(2)}, "c03": nil, "c04": {"n": int64(0)}},
			spec: spec{
				GroupBy:        []named{{Name: "g", Def: "returned.status.n"}},
				CombinedFields: []field{{Name: "count", Type: "COUNT"}, {Name: "s", Type: "SUM", Subject: expr("10 / returned.status.n")}},
			},
			want: combination{
				ColumnNames: []string{"g", "count", "s"}, Rows: []controlv1alpha1.StatusCombinationRow{row1(num("2"), num("1"), num("5"))},
				RowErrors: []controlv1alpha1.RowError{rowErr("c03", "g", "no such key: n"), rowErr("c01", "s", "division by zero (and 2 more clusters)")},
			},
		},
		"GroupsOfEveryType": { // lists and maps may be values; equal numbers are equal
			fleet: fleet{
				"c01": {"g": []any{int64(1)}}, "c02": {"g": map[string]any{"a": int64(1), "b": nil}}, "c03": {"g": []any{int64(1)}}, "c04": {"g": map[string]any{"b": nil, "a": int64(1)}},
				"c05": {"g": int64(10)}, "c06": {"g": int64(9)}, "c07": {"g": 10.0}, "c08": {"g": "10"}, "c09": {"g": nil}, "c10": {"g": true}, "c11": {"g": false},
			},
			spec: spec{GroupBy: []named{{Name: "g", Def: "returned.status.g"}}, CombinedFields: []field{{Name: "n", Type: "COUNT"}}},
			want: combination{ColumnNames: []string{"g", "n"}, Rows: []controlv1alpha1.StatusCombinationRow{
				row1(null, num("1")), row1(boolean(false), num("1")), row1(boolean(true), num("1")), row1(num("9"), num("1")), row1(num("10"), num("2")),
				row1(str("10"), num("1")), row1(arr("[1]"), num("2")), row1(object(`{"a":1,"b":null}`), num("2")),
			}},
		},
		"Limit": {
			fleet: three, spec: spec{Select: []named{{Name: "c", Def: "inventory.name"}}, Limit: 2},
			want: combination{ColumnNames: []string{"c"}, Rows: []controlv1alpha1.StatusCombinationRow{row1(str("c01")), row1(str("c02"))}, OmittedRows: 1},
		},
		"LimitOfGroups": {
			fleet: three, spec: spec{GroupBy: []named{{Name: "p", Def: "returned.status.p"}}, CombinedFields: []field{{Name: "n", Type: "COUNT"}}, Limit: 1},
			want: combination{ColumnNames: []string{"p", "n"}, Rows: []controlv1alpha1.StatusCombinationRow{row1(str("a"), num("2"))}, OmittedRows: 1},
		},
		"SumsAreExact": {
			fleet: fleet{"c01": {"n": int64(math.MaxInt64 - 1)}, "c02": {"n": int64(1)}},
			spec:  spec{CombinedFields: []field{{Name: "s", Type: "SUM", Subject: expr("returned.status.n")}}},
			want:  combination{ColumnNames: []string{"s"}, Rows: []controlv1alpha1.StatusCombinationRow{row1(num("9223372036854775807"))}},
		},
		"SumsDoNotWrap": {
			fleet: fleet{"c01": {"n": int64(math.MaxInt64)}, "c02": {"n": int64(1)}},
			spec:  spec{CombinedFields: []field{{Name: "s", Type: "SUM", Subject: expr("returned.status.n")}}},
			want:  combination{ColumnNames: []string{"s"}, Rows: []controlv1alpha1.StatusCombinationRow{row1(num("9.223372036854776e+18"))}},
		},
		"MapsAreWalkedThroughInOrder": {
			fleet: fleet{"c01": {"m": map[string]any{"g": int64(7), "b": int64(2), "f": int64(6), "a": int64(1), "c": int64(3), "e": int64(5), "d": []any{map[string]any{"z": 1.0, "y": 2.0, "x": 3.0, "w": 4.0}}}}},
			spec: spec{Select: []named{
				{Name: "1", Def: "returned.status.m.map(k, k)"},
				{Name: "2", Def: "returned.status.m.d.map(m, m.map(k, k))"},
				{Name: "3", Def: "{9: 'i', 7: 'g', 8: 'h', 10: 'j'}.map(k, k)"},
				{Name: "4", Def: "returned.status.m.transformList(k, v, k)"},
				{Name: "5", Def: "optional.ofNonZeroValue(returned.status.m.filter(k, k == '')).hasValue()"},
				{Name: "6", Def: "inventory.map(k, k)"},
				{Name: "7", Def: "{true: 1, 2: 'x', 'a': null, false: 3}.map(k, string(k))"},
			}},
			want: combination{ColumnNames: []string{"1", "2", "3", "4", "5", "6", "7"}, Rows: []controlv1alpha1.StatusCombinationRow{row1(
				arr(`["a","b","c","d","e","f","g"]`), arr(`[["w","x","y","z"]]`), arr(`[7,8,9,10]`), arr(`["a","b","c","d","e","f","g"]`), boolean(false),
				arr(`["labels","name"]`), arr(`["false","true","2","a"]`),
			)}},
		},
		"NothingAsked": {
			fleet: fleet{"c01": {}}, spec: spec{},
			want: combination{ColumnNames: []string{}, Rows: []controlv1alpha1.StatusCombinationRow{row1()}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var table Table
			results, _, _ := table.Answer(t.Context(), tc.fleet.question(t, map[string]spec{"x": tc.spec}))
			tc.want.Name = "x"
			if diff := cmp.Diff([]combination{tc.want}, results, equateEmpty); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

var equateEmpty = cmp.Comparer(func(a, b controlv1alpha1.StatusCombinationRow) bool {
	return len(a.Columns) == len(b.Columns) && cmp.Equal(append(values{}, a.Columns...), append(values{}, b.Columns...))
})

// loops takes about 10^n steps.
func loops(n int) string {
	text := "true"
	for i := range n {
		text = fmt.Sprintf("[0,1,2,3,4,5,6,7,8,9].all(v%d, %s)", i, text)
	}
	return text
}

func TestCostIsBounded(t *testing.T) {
	f := fleet{}
	for i := range 60 {
		f[fmt.Sprintf("c%02d", i)] = map[string]any{"n": int64(i)}
	}
	collectors := map[string]spec{
		"endless":   {Select: []named{{Name: "c", Def: "inventory.name"}, {Name: "x", Def: controlv1alpha1.Expression(loops(3))}}, Limit: 100},
		"aggregate": {GroupBy: []named{{Name: "x", Def: controlv1alpha1.Expression(loops(3))}}, CombinedFields: []field{{Name: "n", Type: "COUNT"}}},
		"many":      {Filter: expr("inventory.name > 'c01' || " + loops(2)), Select: []named{{Name: "c", Def: "inventory.name"}}, Limit: 100},
		"cheap":     {Select: []named{{Name: "c", Def: "inventory.name"}}, Limit: 100},
	}
	var table Table
	results, count, _ := table.Answer(t.Context(), f.questionWithin(t, collectors, limits{evaluation: 1000, table: 10_000}))
	byName := map[string]controlv1alpha1.NamedStatusCombination{}
	for _, r := range results {
		byName[r.Name] = r
	}
	if got := byName["cheap"]; len(got.Rows) != 60 || len(got.RowErrors) != 0 {
		t.Errorf("the cheap one suffers: %v", got.RowErrors)
	}
	if got := byName["many"]; len(got.Rows) != 60 || len(got.RowErrors) != 0 {
		t.Errorf("one that is affordable suffers: %v", got.RowErrors)
	}
	endless := byName["endless"]
	const limit = "the evaluation costs more than the limit of 1000: use fewer elements, or fewer nested loops"
	if got := endless.Rows[0].Columns[1]; got.String == nil || *got.String != limit {
		t.Errorf("the first row holds %v", got)
	}
	if got := endless.Rows[59].Columns[1]; got.String == nil || !strings.HasPrefix(*got.String, "not evaluated: ") {
		t.Errorf("the last row holds %v", got)
	}
	if len(endless.Rows) != 60 || len(endless.RowErrors) != 2 || count > 11+11+60+60 {
		t.Errorf("%d rows, errors %v, %d evaluations", len(endless.Rows), endless.RowErrors, count)
	}
	if got := byName["aggregate"]; len(got.Rows) != 0 || len(got.RowErrors) != 2 || got.RowErrors[0].ColumnName != "filter" || got.RowErrors[1].Error != limit+" (and 10 more clusters)" {
		t.Errorf("aggregate: rows %v, errors %v", got.Rows, got.RowErrors)
	}
}

func TestResultsFitIntoOneObject(t *testing.T) {
	f := fleet{}
	for i := range 40 {
		f[fmt.Sprintf("c%02d", i)] = map[string]any{"n": strings.Repeat("x", 50_000)}
	}
	var table Table
	results, _, _ := table.Answer(t.Context(), f.question(t, map[string]spec{
		"large": {Select: []named{{Name: "s", Def: "returned.status"}}, Limit: 100},
		"small": {Select: []named{{Name: "c", Def: "inventory.name"}}, Limit: 100},
	}))
	if size := sizeOf(results); size > MaxSize+1000 {
		t.Errorf("the results have %d bytes", size)
	}
	large, small := results[0], results[1]
	if large.OmittedRows == 0 || int(large.OmittedRows)+len(large.Rows) != 40 || len(large.AggregationErrors) != 1 ||
		!strings.HasPrefix(large.AggregationErrors[0].Error, fmt.Sprintf("%d rows are left out", large.OmittedRows)) {
		t.Errorf("large: %d rows, %d omitted, %v", len(large.Rows), large.OmittedRows, large.AggregationErrors)
	}
	if len(small.Rows) != 40 || small.OmittedRows != 0 {
		t.Errorf("small: %d rows", len(small.Rows))
	}
}

// TestOneReportCostsItsRows: only rows whose inputs changed are evaluated again.
func TestOneReportCostsItsRows(t *testing.T) {
	f := fleet{}
	for i := range 50 {
		f[fmt.Sprintf("c%02d", i)] = map[string]any{"n": int64(i)}
	}
	q := f.question(t, map[string]spec{
		"status": {Select: []named{{Name: "n", Def: "returned.status.n"}}},
		"object": {Select: []named{{Name: "n", Def: "obj.spec.replicas"}}},
		"labels": {Select: []named{{Name: "n", Def: "inventory.labels.?n"}}},
	})
	var table Table
	step := func(want int, change func()) {
		t.Helper()
		change()
		if _, got, _ := table.Answer(t.Context(), q); got != want {
			t.Errorf("%d evaluations, want %d", got, want)
		}
	}
	step(150, func() {})
	step(0, func() {})
	step(3, func() { f["c07"] = map[string]any{"n": int64(70)}; f.into(&q) })
	step(50, func() { q.ObjectVersion = "2" })
	step(1, func() { q.Clusters[3].Labels = map[string]string{"n": "x"} })
	step(0, func() { delete(f, "c09"); f.into(&q); q.Clusters[3].Labels = map[string]string{"n": "x"} })
	step(3, func() { f["c09"] = nil; f.into(&q); q.Clusters[3].Labels = map[string]string{"n": "x"} })
	step(50, func() {
		q.Collectors["status"], _ = Compile(&spec{Select: []named{{Name: "m", Def: "returned.status.n"}}})
	})
	step(0, func() { delete(q.Collectors, "status") })
}

// TestValueThatIsMuchLargerThanItsCost: lists that hold one thing many times cost little, and as
// JSON they would take all memory there is. What is made many times costs as often.
func TestValueThatIsMuchLargerThanItsCost(t *testing.T) {
	const ten = "[0,1,2,3,4,5,6,7,8,9]"
	times := func(power int, what string) controlv1alpha1.Expression {
		for range power {
			what = ten + ".map(x" + fmt.Sprint(power) + ", " + what + ")"
			power--
		}
		return controlv1alpha1.Expression(what)
	}
	doubled := "[0]"
	for range 22 { // 4 million items
		doubled = "[" + doubled + "].map(x, x + x)[0]"
	}
	const (
		tooLarge = "the value has more than 512 KiB; select a part of it"
		tooDear  = "the evaluation costs more than the limit of 50000: use fewer elements, or fewer nested loops"
	)
	f := fleet{"c01": {"text": strings.Repeat("a", 10_000)}}
	for name, tc := range map[string]struct {
		def  controlv1alpha1.Expression
		want string
	}{
		"StatusAThousandTimes": {times(3, "returned.status"), tooLarge},
		"KeysAThousandTimes":   {times(3, "{returned.status.text: 1}"), tooDear},
		"BytesAThousandTimes":  {times(3, "bytes(returned.status.text)"), tooDear},
		"ManyNumbers":          {controlv1alpha1.Expression(doubled), tooDear},
		"StatusTenTimes":       {times(1, "returned.status"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			var table Table
			results, _, _ := table.Answer(t.Context(), f.question(t, map[string]spec{"sc": {Select: []named{{Name: "v", Def: tc.def}}}}))
			got := ""
			if errs := results[0].RowErrors; len(errs) > 0 {
				got = errs[0].Error
			}
			if got != tc.want {
				t.Errorf("row error %q, want %q", got, tc.want)
			}
		})
	}
}

// TestCachedValuesAreBounded: values are kept for all clusters, also for those that the limit
// leaves out.
func TestCachedValuesAreBounded(t *testing.T) {
	f := fleet{}
	for i := range 60 {
		f[fmt.Sprintf("c%02d", i)] = map[string]any{"text": strings.Repeat("a", 10_000)}
	}
	var table Table
	results, _, _ := table.Answer(t.Context(), f.questionWithin(t, map[string]spec{"sc": {Select: []named{{Name: "v", Def: "returned.status"}}}},
		limits{evaluation: 1000, table: 30_000}))
	errs := results[0].RowErrors
	if len(errs) != 1 || !strings.HasPrefix(errs[0].Error, "not evaluated: ") {
		t.Errorf("row errors %v, want one of clusters that are not evaluated", errs)
	}
}

// TestRowsAreBoundedBySize: whatever is selected, a table keeps at most a few MiB, the same rows
// whether it is made at once or bit by bit.
func TestRowsAreBoundedBySize(t *testing.T) {
	f := fleet{}
	for i := range 20 {
		f[fmt.Sprintf("c%02d", i)] = map[string]any{"text": strings.Repeat("a", 400<<10)}
	}
	columns := func(n int, def string) (list []named) {
		for i := range n {
			list = append(list, named{Name: fmt.Sprint(i), Def: controlv1alpha1.Expression(def)})
		}
		return list
	}
	for name, tc := range map[string]struct {
		spec spec
		want string
	}{
		"ManyColumns": {spec{Select: columns(64, "obj")}, overRow},
		"Groups":      {spec{GroupBy: columns(2, "returned.status"), CombinedFields: []field{{Name: "n", Type: "COUNT"}}, Limit: 1}, overSize},
		"Filtered":    {spec{Select: columns(2, "returned.status"), Limit: 100}, overSize},
	} {
		t.Run(name, func(t *testing.T) {
			var table Table
			q := f.question(t, map[string]spec{"sc": tc.spec})
			q.Object = map[string]any{"data": map[string]any{"text": strings.Repeat("a", 450<<10)}}
			results, _, _ := table.Answer(t.Context(), q)
			if size := table.Size(); size > maxTable+maxRow || size < 400<<10 {
				t.Errorf("%d bytes are kept", size)
			}
			errs := fmt.Sprint(results[0].RowErrors)
			if !strings.Contains(errs, tc.want) {
				t.Errorf("row errors %.300s, want %q", errs, tc.want)
			}
			again, _, _ := table.Answer(t.Context(), q) // from the cache, as far as there is one
			if !reflect.DeepEqual(again, results) {
				t.Error("other results from the cache")
			}
			table.Forget()
			if table.Size() != 0 {
				t.Errorf("%d bytes are kept after all was forgotten", table.Size())
			}
			if again, _, _ := table.Answer(t.Context(), q); !reflect.DeepEqual(again, results) {
				t.Error("other results without the cache")
			}
		})
	}
}

// TestUnknownCluster: the row of a cluster of which nothing is known stays as it was, whatever
// changes, and the others go on. The table says so.
func TestUnknownCluster(t *testing.T) {
	f := fleet{"c01": {"n": int64(1)}, "c02": {"n": int64(2)}}
	q := f.question(t, map[string]spec{
		"rows": {Select: []named{{Name: "n", Def: "returned.status.n + obj.spec.replicas"}}},
		"sum":  {CombinedFields: []field{{Name: "s", Type: "SUM", Subject: expr("returned.status.n")}, {Name: "c", Type: "COUNT"}}},
	})
	var table Table
	type shown struct{ rows, sum, errs string }
	shows := func(what string, want shown) {
		t.Helper()
		results, _, err := table.Answer(t.Context(), q)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		var got shown
		for _, r := range results[0].Rows {
			if v := r.Columns[0]; v.Number != nil {
				got.rows += " " + *v.Number
			} else {
				got.rows += " -"
			}
		}
		got.sum = *results[1].Rows[0].Columns[0].Number + " of " + *results[1].Rows[0].Columns[1].Number
		for _, e := range results[0].RowErrors {
			if e.ColumnName == "" {
				got.errs += e.WEC.ClusterID
			}
		}
		if got != want {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	change := func(name string, n int64) {
		f[name] = map[string]any{"n": n}
		f.into(&q)
	}
	unknown := func(at int) { q.Clusters[at].Unknown, q.Clusters[at].Version = true, "" }

	shows("all known", shown{" 4 5", "3 of 2", ""})
	change("c01", 7)
	unknown(1)
	shows("another cluster reports", shown{" 10 5", "9 of 2", "c02"})
	q.Stored, q.ObjectVersion, q.Object = true, "2", map[string]any{"spec": map[string]any{"replicas": int64(1)}}
	shows("the object changes", shown{" 8 5", "9 of 2", "c02"})
	q.Clusters[1].Unknown = false
	f.into(&q)
	shows("known again", shown{" 8 3", "9 of 2", ""})

	f["c03"] = map[string]any{"n": int64(5)}
	f.into(&q)
	unknown(2)
	shows("a new cluster of which nothing is known", shown{" 8 3 -", "9 of 2", "c03"})
	f.into(&q)
	shows("and then something", shown{" 8 3 6", "14 of 3", ""})
	delete(f, "c03")
	f.into(&q)
	shows("removed", shown{" 8 3", "9 of 2", ""})

	table.Forget()
	unknown(0)
	if _, _, err := table.Answer(t.Context(), q); !errors.Is(err, ErrUnknown) {
		t.Errorf("the row is only in what is stored: %v", err)
	}
	q.Stored = false
	shows("nothing is stored", shown{" - 3", "2 of 1", "c01"})
}

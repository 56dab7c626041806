package combine

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/common/types"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/test/golden"
)

// TestTexts lists what users read in status.errors of a StatusCollector, and in a CombinedStatus.
func TestTexts(t *testing.T) {
	var texts []golden.Text
	add := func(heading, text string) { texts = append(texts, golden.Text{Heading: heading, Text: text}) }

	one, number := controlv1alpha1.Expression("1"), controlv1alpha1.Expression("true")
	name := []named{{Name: "x", Def: "inventory.name"}}
	for _, s := range []spec{
		{Select: name, GroupBy: name},
		{GroupBy: name},
		{Filter: &one},
		{Select: []named{{Name: "x", Def: "inventry"}}},
		{CombinedFields: []controlv1alpha1.NamedAggregator{{Name: "n", Type: "COUNT", Subject: &one}, {Name: "s", Type: "SUM"}, {Name: "m", Type: "MEDIAN"}, {Name: "a", Type: "AVG", Subject: &number}}},
	} {
		_, errs := Compile(&s)
		for _, text := range errs {
			add("StatusCollector status.errors", text)
		}
	}

	f := fleet{"c01": {"n": "many"}, "c02": {"n": "few"}, "c03": {"n": []any{}}}
	lists := fleet{"c01": {"n": []any{}}}
	answerOf := func(f fleet, cost limits, specs map[string]spec) {
		var table Table
		results, _, _ := table.Answer(t.Context(), f.questionWithin(t, specs, cost))
		for _, r := range results {
			for _, e := range r.RowErrors {
				add("CombinedStatus rowErrors of "+e.WEC.ClusterID+", column "+e.ColumnName, e.Error)
			}
			for _, e := range r.AggregationErrors {
				add("CombinedStatus aggregationErrors", e.Error)
			}
		}
	}
	answer := func(cost limits, specs map[string]spec) { answerOf(f, cost, specs) }
	n, never := controlv1alpha1.Expression("returned.status.n"), controlv1alpha1.Expression("false")
	answer(defaultLimits, map[string]spec{
		"a": {CombinedFields: []controlv1alpha1.NamedAggregator{{Name: "sum", Type: "SUM", Subject: &n}}},
		"b": {CombinedFields: []controlv1alpha1.NamedAggregator{{Name: "avg", Type: "AVG", Subject: &n}}, Filter: &never},
		"c": {Filter: &n, Select: []named{{Name: "missing", Def: "returned.status.x"}}},
	})
	answer(limits{evaluation: 50, table: 1}, map[string]spec{
		"d": {Select: []named{{Name: "loop", Def: "[1,2,3,4,5,6,7,8,9].map(i, [1,2,3,4,5,6,7,8,9].map(j, i*j))"}}},
	})
	answer(limits{evaluation: 1000, table: 0}, map[string]spec{
		"e": {Select: []named{{Name: "name", Def: "inventory.name"}}},
		"f": {CombinedFields: []controlv1alpha1.NamedAggregator{{Name: "sum", Type: "SUM", Subject: &n}}},
	})
	answerOf(lists, defaultLimits, map[string]spec{
		"g": {CombinedFields: []controlv1alpha1.NamedAggregator{{Name: "sum", Type: "SUM", Subject: &n}}},
	})
	add("CombinedStatus rowErrors, a large value", (&writer{}).reserve(1).Error())
	if _, err := (&writer{left: maxValue}).jsonOf(types.Null(0), maxDepth+1); err != nil {
		add("CombinedStatus rowErrors, a nested value", err.Error())
	}
	large := []controlv1alpha1.NamedStatusCombination{{Rows: slices.Repeat([]controlv1alpha1.StatusCombinationRow{{
		Columns: []controlv1alpha1.Value{textOf(strings.Repeat("x", MaxSize/2))},
	}}, 2)}}
	for _, r := range fit(large, MaxSize) {
		add(fmt.Sprintf("CombinedStatus aggregationErrors, %d omitted", r.OmittedRows), r.AggregationErrors[0].Error)
	}
	golden.Texts(t, texts...)
}

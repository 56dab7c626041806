package status

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestPlan(t *testing.T) {
	type object = map[string]any
	type labels = map[string]string
	const singleton, multi, count = "managed-by.kubestellar.io/singletonstatus", "managed-by.kubestellar.io/multiwecstatus", "kubestellar.io/executing-count"
	label := func(values object) object { return object{"metadata": object{"labels": values}} }
	one, two := object{"a": int64(1)}, object{"a": int64(2)}
	for name, tc := range map[string]struct {
		resource  schema.GroupResource
		have      View
		decision  Decision
		refused   []string
		want      []Step
		wantAfter View
	}{
		"Unknown": {
			have: View{Labels: labels{singleton: "true"}, Status: one}, decision: Decision{Action: Keep},
			wantAfter: View{Labels: labels{singleton: "true"}, Status: one},
		},
		"KeepCounts": {
			have: View{Labels: labels{singleton: "true", count: "1"}, Status: one}, decision: Decision{Action: Keep, Known: true, Executing: "2"},
			want:      []Step{{Patch: label(object{count: "2"}), Reason: "count"}},
			wantAfter: View{Labels: labels{singleton: "true", count: "2"}, Status: one},
		},
		"CopyFirst": {
			decision: Decision{Action: Copy, Known: true, Executing: "1", Status: one},
			want: []Step{
				{Patch: label(object{singleton: "true", count: "1"}), Reason: "label"},
				{Status: true, Patch: object{"status": one}, Reason: "return"},
			},
			wantAfter: View{Labels: labels{singleton: "true", count: "1"}, Status: one},
		},
		"CopySame": {
			have:      View{Labels: labels{singleton: "true", count: "1"}, Status: one},
			decision:  Decision{Action: Copy, Known: true, Executing: "1", Status: one},
			wantAfter: View{Labels: labels{singleton: "true", count: "1"}, Status: one},
		},
		"CopyLabelLost": {
			have:      View{Status: one, Labels: labels{count: "1"}},
			decision:  Decision{Action: Copy, Known: true, Executing: "1", Status: one},
			want:      []Step{{Patch: label(object{singleton: "true"}), Reason: "label"}},
			wantAfter: View{Labels: labels{singleton: "true", count: "1"}, Status: one},
		},
		"CopyChangedAndVanished": {
			have:      View{Labels: labels{singleton: "true", count: "1"}, Status: object{"a": int64(1), "b": int64(2), "c": int64(3)}},
			decision:  Decision{Action: Copy, Known: true, Executing: "1", Status: object{"a": int64(1), "b": int64(5)}},
			want:      []Step{{Status: true, Patch: object{"status": object{"b": int64(5), "c": nil}}, Reason: "return"}},
			wantAfter: View{Labels: labels{singleton: "true", count: "1"}, Status: object{"a": int64(1), "b": int64(5)}},
		},
		"FromOneToSeveral": {
			have:     View{Labels: labels{singleton: "true", count: "1"}, Status: one},
			decision: Decision{Action: Combine, Known: true, Executing: "2", Status: two},
			want: []Step{
				{Patch: label(object{singleton: nil, multi: "true", count: "2"}), Reason: "label"},
				{Status: true, Patch: object{"status": two}, Reason: "return"},
			},
			wantAfter: View{Labels: labels{multi: "true", count: "2"}, Status: two},
		},
		"ClearForeign": {
			have: View{Status: one}, decision: Decision{Action: Clear, Known: true},
			wantAfter: View{Labels: labels{}, Status: one},
		},
		"ClearForeignAndCount": {
			have: View{Status: one}, decision: Decision{Action: Clear, Known: true, Executing: "3"},
			want:      []Step{{Patch: label(object{count: "3"}), Reason: "count"}},
			wantAfter: View{Labels: labels{count: "3"}, Status: one},
		},
		"Clear": {
			have: View{Labels: labels{multi: "true", count: "2"}, Status: one}, decision: Decision{Action: Clear, Known: true},
			want: []Step{
				{Status: true, Patch: object{"status": nil}, Reason: "clear"},
				{Patch: label(object{multi: nil, count: nil}), Reason: "unlabel"},
			},
			wantAfter: View{Labels: labels{}},
		},
		"ClearInterrupted": {
			have: View{Labels: labels{singleton: "true"}}, decision: Decision{Action: Clear, Known: true},
			want:      []Step{{Patch: label(object{singleton: nil}), Reason: "unlabel"}},
			wantAfter: View{Labels: labels{}},
		},
		"RefusedFieldsStay": {
			have:      View{Labels: labels{singleton: "true", count: "1"}, Status: object{"a": int64(1), "b": int64(2)}},
			decision:  Decision{Action: Copy, Known: true, Executing: "1", Status: object{"a": int64(3), "c": int64(4), "d": int64(5)}},
			refused:   []string{"b", "c"},
			want:      []Step{{Status: true, Patch: object{"status": object{"a": int64(3), "d": int64(5)}}, Reason: "return"}},
			wantAfter: View{Labels: labels{singleton: "true", count: "1"}, Status: object{"a": int64(3), "b": int64(2), "d": int64(5)}},
		},
		"CollisionCountStaysWhenCleared": {
			resource: deployments,
			have:     View{Labels: labels{singleton: "true"}, Status: object{"replicas": int64(1), "collisionCount": int64(2)}},
			decision: Decision{Action: Clear, Known: true},
			want: []Step{
				{Status: true, Patch: object{"status": object{"replicas": nil}}, Reason: "clear"},
				{Patch: label(object{singleton: nil}), Reason: "unlabel"},
			},
			wantAfter: View{Labels: labels{}, Status: object{"collisionCount": int64(2)}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			resource := tc.resource
			if resource.Empty() {
				resource = schema.GroupResource{Group: "test.example.com", Resource: "widgets"}
			}
			steps, after := Plan(resource, tc.have, tc.decision, tc.refused)
			if diff := cmp.Diff(tc.want, steps); diff != "" {
				t.Errorf("Plan (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantAfter, after); diff != "" {
				t.Errorf("after it (-want +got):\n%s", diff)
			}
			if again, _ := Plan(resource, after, tc.decision, tc.refused); len(again) > 0 {
				t.Errorf("planned again: %v", again)
			}
		})
	}
}

func TestStepEncode(t *testing.T) {
	for name, tc := range map[string]struct {
		step    Step
		version string
		want    string
	}{
		"Status":            {step: Step{Status: true, Patch: map[string]any{"status": nil}}, want: `{"status":null}`},
		"StatusWithVersion": {step: Step{Status: true, Patch: map[string]any{"status": nil}}, version: "7", want: `{"metadata":{"resourceVersion":"7"},"status":null}`},
		"LabelWithVersion": {
			step: Step{Patch: map[string]any{"metadata": map[string]any{"labels": map[string]any{"managed-by.kubestellar.io/singletonstatus": "true"}}}}, version: "7",
			want: `{"metadata":{"labels":{"managed-by.kubestellar.io/singletonstatus":"true"},"resourceVersion":"7"}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tc.step.Encode(tc.version)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Errorf("Encode (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMergePatch(t *testing.T) {
	for name, tc := range map[string]struct {
		before, after string
		want          string // "" for no change
	}{
		"Same":            {before: `{"a":1,"b":{"c":[1,2]}}`, after: `{"a":1,"b":{"c":[1,2]}}`},
		"Added":           {before: `{}`, after: `{"a":{"b":1}}`, want: `{"a":{"b":1}}`},
		"Removed":         {before: `{"a":1}`, after: `{}`, want: `{"a":null}`},
		"Inner":           {before: `{"a":{"b":1,"c":2}}`, after: `{"a":{"b":1,"c":3}}`, want: `{"a":{"c":3}}`},
		"ListIsReplaced":  {before: `{"a":[1,2]}`, after: `{"a":[2]}`, want: `{"a":[2]}`},
		"ObjectToScalar":  {before: `{"a":{"b":1}}`, after: `{"a":1}`, want: `{"a":1}`},
		"ScalarToObject":  {before: `{"a":1}`, after: `{"a":{"b":1}}`, want: `{"a":{"b":1}}`},
		"EmptyObject":     {before: `{}`, after: `{"a":{}}`, want: `{"a":{}}`},
		"EmptiedObject":   {before: `{"a":{"b":1}}`, after: `{"a":{}}`, want: `{"a":{"b":null}}`},
		"EmptyList":       {before: `{}`, after: `{"a":[]}`, want: `{"a":[]}`},
		"NullIsAbsent":    {before: `{"a":null}`, after: `{"b":null}`},
		"NullToValue":     {before: `{"a":null}`, after: `{"a":1}`, want: `{"a":1}`},
		"ValueToNull":     {before: `{"a":1}`, after: `{"a":null}`, want: `{"a":null}`},
		"NullInsideAList": {before: `{"a":[1]}`, after: `{"a":[null]}`, want: `{"a":[null]}`},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := parse(t, tc.before), parse(t, tc.after)
			patch, changed := MergePatch(before, after)
			if changed != (tc.want != "") {
				t.Errorf("MergePatch: changed %v, want %v", changed, tc.want != "")
			}
			if !changed {
				return
			}
			got, err := json.Marshal(patch)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Errorf("MergePatch (-want +got):\n%s", diff)
			}
			if rest, changed := MergePatch(apply(parse(t, tc.before), parse(t, string(got))), after); changed {
				t.Errorf("after the patch there is still a difference: %v", rest)
			}
		})
	}
}

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return object
}

// apply is the algorithm of RFC 7386, section 2.
func apply(target, patch map[string]any) map[string]any {
	if target == nil {
		target = map[string]any{}
	}
	for name, value := range patch {
		if value == nil {
			delete(target, name)
		} else if object, ok := value.(map[string]any); ok {
			inner, _ := target[name].(map[string]any)
			target[name] = apply(inner, object)
		} else {
			target[name] = value
		}
	}
	return target
}

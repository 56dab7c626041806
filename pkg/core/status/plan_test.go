package status

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPlan(t *testing.T) {
	type object = map[string]any
	label := func(value any) object {
		return object{"metadata": object{"labels": object{"managed-by.kubestellar.io/singletonstatus": value}}}
	}
	for name, tc := range map[string]struct {
		have     View
		decision Decision
		want     []Step
	}{
		"Keep": {
			have: View{Labelled: true, Status: object{"a": int64(1)}}, decision: Decision{Action: Keep},
		},
		"CopyFirst": {
			decision: Decision{Action: Copy, Status: object{"a": int64(1)}},
			want: []Step{
				{Patch: label("true"), Reason: "label"},
				{Status: true, Patch: object{"status": object{"a": int64(1)}}, Reason: "return"},
			},
		},
		"CopySame": {
			have:     View{Labelled: true, Status: object{"a": int64(1)}},
			decision: Decision{Action: Copy, Status: object{"a": int64(1)}},
		},
		"CopyLabelLost": {
			have:     View{Status: object{"a": int64(1)}},
			decision: Decision{Action: Copy, Status: object{"a": int64(1)}},
			want:     []Step{{Patch: label("true"), Reason: "label"}},
		},
		"CopyChangedAndVanished": {
			have:     View{Labelled: true, Status: object{"a": int64(1), "b": int64(2), "c": int64(3)}},
			decision: Decision{Action: Copy, Status: object{"a": int64(1), "b": int64(5)}},
			want:     []Step{{Status: true, Patch: object{"status": object{"b": int64(5), "c": nil}}, Reason: "return"}},
		},
		"ClearForeign": {
			have: View{Status: object{"a": int64(1)}}, decision: Decision{Action: Clear},
		},
		"Clear": {
			have: View{Labelled: true, Status: object{"a": int64(1)}}, decision: Decision{Action: Clear},
			want: []Step{
				{Status: true, Patch: object{"status": nil}, Reason: "clear"},
				{Patch: label(nil), Reason: "unlabel"},
			},
		},
		"ClearInterrupted": {
			have: View{Labelled: true}, decision: Decision{Action: Clear},
			want: []Step{{Patch: label(nil), Reason: "unlabel"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Plan(tc.have, tc.decision)); diff != "" {
				t.Errorf("Plan (-want +got):\n%s", diff)
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
			step: labelStep("true", ""), version: "7",
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

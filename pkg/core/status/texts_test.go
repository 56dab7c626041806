package status

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/starlinghq/starling/test/golden"
)

// TestTexts lists the messages of the conditions that status return adds to statuses, and the text
// of the annotation of a truncated WorkStatus.
func TestTexts(t *testing.T) {
	var texts []golden.Text
	ready := Reported{Cluster: "c1", Status: map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}}
	failed := Reported{Cluster: "c2", Status: map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "False", "message": "no quota"}}}}
	for _, tc := range []struct {
		reported []Reported
		silent   []string
	}{
		{[]Reported{ready}, []string{"c9"}},
		{[]Reported{ready}, strings.Split("c3 c4 c5 c6 c7 c8 c9", " ")},
		{[]Reported{ready, failed}, nil},
	} {
		conditions, _ := Aggregate(schema.GroupResource{Group: "example.com", Resource: "widgets"}, tc.reported, tc.silent)["conditions"].([]any)
		for _, c := range conditions {
			condition, _ := c.(map[string]any)
			reason, _ := condition["reason"].(string)
			message, _ := condition["message"].(string)
			texts = append(texts, golden.Text{Heading: strings.TrimSpace(typeOf(c) + " " + reason), Text: message})
		}
	}
	cuts := make([]Cut, 7)
	for i := range cuts {
		cuts[i] = Cut{Path: ".items[]." + strings.Repeat("x", i+1), Left: 407, Of: 1200, Unit: "bytes"}
	}
	for _, cut := range []Truncation{{1203719, MaxStatus, cuts[:1]}, {1203719, MaxStatus, cuts}} {
		texts = append(texts, golden.Text{Heading: ConditionTruncated + " " + ReasonStatusTooLarge, Text: cut.message()},
			golden.Text{Heading: "annotation starling.io/truncated", Text: cut.String()})
	}
	_, err := ParseExcluded([]string{"deployments"})
	if err == nil {
		t.Fatal("no error")
	}
	golden.Texts(t, append(texts, golden.Text{Heading: "flag --exclude-kinds", Text: err.Error()})...)
}

package agent

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/starlinghq/starling/test/golden"
)

func TestTexts(t *testing.T) {
	whole, err := keep(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "n", "namespace": "ns"},
		"status": map[string]any{"phase": "Running", "log": strings.Repeat("x", 1<<20), "events": strings.Repeat("y", 1<<10)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	less, err := whole.within(1000)
	if err != nil {
		t.Fatal(err)
	}
	_, incomplete := New(Config{})
	golden.Texts(t,
		golden.Text{Heading: "Annotation of a WorkStatus: a large status", Text: whole.truncated},
		golden.Text{Heading: "Annotation of a WorkStatus: the hub refuses that too", Text: less.truncated},
		golden.Text{Heading: "New without a cluster", Text: incomplete.Error()},
	)
}

package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
	"github.com/starlinghq/starling/test/golden"
)

// ignoring returns a Deployment of which fields are to be ignored.
func ignoring(t *testing.T, fields string) (plan.Object, error) {
	t.Helper()
	o, err := transform.Pipeline{}.Apply(nginx, map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": nginx.Name, "namespace": nginx.Namespace},
		"spec": map[string]any{"replicas": int64(5), "template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "c"}}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return plan.Object{Object: o, Known: true, Options: plan.Options{IgnoredFields: fields}}.Ignoring()
}

// TestTexts lists the texts of this package that users see: each in its place, with typical input.
func TestTexts(t *testing.T) {
	var b strings.Builder
	for _, text := range []string{"nginx", "Deployment.apps/web/nginx", "deployments.Apps/web/nginx", "configmaps/we.b/settings", "configmaps/web/"} {
		_, err := plan.ParseHold(text)
		fmt.Fprintf(&b, "Error of starling.io/hold=%s\n%v\n\n", text, err)
	}
	fmt.Fprintf(&b, "What is held, in condition Held\n%s\n", holdOf(settings, namespace, nginx))
	refused := plan.Item{Ref: nginx}
	refused.Stage.Refused = ".spec.selector.a\n.spec.selector.b"
	fmt.Fprintf(&b, "\nIgnored fields that are part of a larger value, after the object\n%s\n", refused.NotIgnored())
	_, err := ignoring(t, ".spec.template")
	fmt.Fprintf(&b, "\nAn ignored field that has a list of objects, after the object\n%s\n", err)
	golden.Compare(t, "texts", b.String())
}

package upgrade_test

import (
	"fmt"
	"testing"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/upgrade"
	"github.com/starlinghq/starling/test/golden"
)

// TestTexts lists the condition MergeConflicts and the errors of upgrades.
func TestTexts(t *testing.T) {
	files := func(value string, more ...string) kpt.Files {
		f := kpt.Files{"Kptfile": "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: web\n", "c.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\ndata:\n  a: " + value + "\n"}
		for i := 0; i+1 < len(more); i += 2 {
			f[more[i]] = more[i+1]
		}
		return f
	}
	var texts []golden.Text
	many := func(value string) []string {
		var list []string
		for i := range 14 {
			list = append(list, fmt.Sprintf("f%02d", i), value)
		}
		return list
	}
	for _, tc := range []struct {
		heading                  string
		strategy                 string
		original, updated, local kpt.Files
	}{
		{"a field changed on both sides", "resource-merge", files("x"), files("y"), files("z")},
		{"a file deleted locally", "resource-merge", files("x", "README", "1"), files("x", "README", "2"), files("x")},
		{"a file deleted upstream", "resource-merge", files("x", "README", "1"), files("x"), files("x", "README", "2")},
		{"many conflicts", "resource-merge", files("x", many("1")...), files("x", many("2")...), files("x", many("3")...)},
		{"fast-forward with local changes", "fast-forward", files("x"), files("x"), files("y", many("3")...)},
		{"an unknown strategy", "theirs", files("x"), files("x"), files("y")},
		{"a duplicate object", "resource-merge", files("x"), files("y"), files("z", "d.yaml", files("x")["c.yaml"]+"---\n"+files("x")["c.yaml"])},
		{"a duplicate field", "resource-merge", files("x"), files("y"), files("z\n  a: w")},
		{"invalid YAML on both sides", "resource-merge", files("x"), files("["), files("{")},
		{"a file that is a directory", "resource-merge", files("x"), files("x", "a", "1"), files("x", "a/b", "2")},
	} {
		upstream := &storev1alpha1.PackageRevision{}
		upstream.Namespace, upstream.Spec.RepositoryName, upstream.Spec.PackageName = "default", "catalog", "web"
		merged, err := upgrade.Merge(porchv1alpha1.PackageMergeStrategy(tc.strategy), tc.original, upstream, tc.updated, tc.local, nil)
		var condition *porchv1alpha1.Condition
		if err == nil {
			condition = merged.Conflicts()
		}
		text := golden.Text{Heading: tc.heading}
		switch {
		case err != nil:
			text.Text = "error: " + err.Error()
		case condition != nil:
			text.Text = fmt.Sprintf("%s=%s %s\n%s", condition.Type, condition.Status, condition.Reason, condition.Message)
		default:
			t.Fatalf("%s: no conflict", tc.heading)
		}
		texts = append(texts, text)
	}
	golden.Texts(t, texts...)
}

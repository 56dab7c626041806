package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/test/golden"
)

// TestTexts lists the texts of this package that users see: each in its place, with typical input.
func TestTexts(t *testing.T) {
	var b strings.Builder
	for _, text := range []string{"nginx", "Deployment.apps/web/nginx", "deployments.Apps/web/nginx", "configmaps/we.b/settings", "configmaps/web/"} {
		_, err := plan.ParseHold(text)
		fmt.Fprintf(&b, "Error of starling.io/hold=%s\n%v\n\n", text, err)
	}
	fmt.Fprintf(&b, "What is held, in condition Held\n%s\n", holdOf(settings, namespace, nginx))
	golden.Compare(t, "texts", b.String())
}

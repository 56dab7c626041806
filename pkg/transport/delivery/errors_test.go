package delivery

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/starlinghq/starling/pkg/core/plan"
)

func TestWriteErrorWithholdsWhatMayQuoteASecret(t *testing.T) {
	refused := fmt.Errorf("create work: %w", apierrors.NewBadRequest("bad: hunter2"))
	withSecret := &plan.Action{Verb: plan.Create, Name: "w", After: []plan.Entry{{Ref: settings}, {Ref: password}}}
	without := &plan.Action{Verb: plan.Create, Name: "w", After: []plan.Entry{{Ref: settings}}}
	if got := writeError(withSecret, refused); strings.Contains(got, "hunter2") || !strings.Contains(got, "BadRequest") {
		t.Errorf("writeError() = %q", got)
	}
	if got := writeError(without, refused); !strings.Contains(got, "hunter2") {
		t.Errorf("writeError() = %q", got)
	}
	if got := writeError(withSecret, errors.New("dial tcp: refused")); got != "dial tcp: refused" {
		t.Errorf("writeError() = %q", got)
	}
}

func TestTransient(t *testing.T) {
	for message, want := range map[string]bool{
		`namespaces "web" not found`:                       true,
		`the server doesn't have a resource type "Widget"`: true,
		`configmaps "x" is forbidden: unable to create new content in namespace web because it is being terminated`: true,
		`Internal error occurred: failed calling webhook "x": connect: connection refused`:                          true,
		`configmaps "x" not found`:               false,
		`Deployment.apps "x" is invalid: spec`:   false,
		`secrets is forbidden: User cannot list`: false,
	} {
		if got := (&plan.Item{Message: message}).Transient(); got != want {
			t.Errorf("Transient(%q) = %v, want %v", message, got, want)
		}
	}
}

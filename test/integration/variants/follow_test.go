package variants

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
)

// TestUpstreamIsFollowed: the upstream gets new revisions while the clone is a draft, while it is
// proposed, and when it is published. Edits by users stay. A restart writes nothing.
func TestUpstreamIsFollowed(t *testing.T) {
	e := newEnvironment(t)
	stop := e.run(t)
	v1 := e.publish(t, "catalog", "web", "v1", "", map[string]string{"a.yaml": configMap("a", "upstream", "one")})
	e.create(t, variantText("web", "package: web, revision: latest", "web", "packageContext: {data: {site: north}}"))
	e.ready(t, "web", v1, configv1alpha1.VariantDraft)
	first := e.only(t, "edge", "web", draft)
	if files := e.files(t, first.Name); !strings.Contains(files["package-context.yaml"], "site: north") || !strings.Contains(files["a.yaml"], "upstream: one") {
		t.Errorf("the clone: %v", files)
	}

	// An edit by hand, and a new upstream: one draft, with both.
	e.edit(t, first.Name, map[string]string{"hand.yaml": configMap("hand", "by", "hand")})
	v2 := e.publish(t, "catalog", "web", "v2", v1, map[string]string{"a.yaml": configMap("a", "upstream", "two")})
	e.ready(t, "web", v2, configv1alpha1.VariantDraft)
	if again := e.only(t, "edge", "web", draft); again.UID != first.UID {
		t.Errorf("the draft is another one: %s, was %s", again.Name, first.Name)
	}
	if files := e.files(t, first.Name); !strings.Contains(files["hand.yaml"], "by: hand") || !strings.Contains(files["a.yaml"], "upstream: two") {
		t.Errorf("merged: %v", files)
	}

	// While it is proposed, it waits.
	e.move(t, first.Name, proposed)
	v3 := e.publish(t, "catalog", "web", "v3", v2, map[string]string{"a.yaml": configMap("a", "upstream", "three")})
	if text := e.condition(t, "web", configv1alpha1.ConditionReady, configv1alpha1.ReasonWaitingForApproval); !strings.Contains(text, first.Name) {
		t.Errorf("waits: %s", text)
	}
	if files := e.files(t, first.Name); !strings.Contains(files["a.yaml"], "upstream: two") {
		t.Errorf("a proposed revision was changed: %v", files)
	}
	e.move(t, first.Name, published)
	e.ready(t, "web", v3, configv1alpha1.VariantDraft)
	second := e.only(t, "edge", "web", draft)
	if files := e.files(t, second.Name); !strings.Contains(files["hand.yaml"], "by: hand") || !strings.Contains(files["a.yaml"], "upstream: three") {
		t.Errorf("upgraded: %v", files)
	}

	// Spec changes, which is an edit of what is published.
	e.move(t, second.Name, published)
	e.ready(t, "web", v3, configv1alpha1.VariantPublished)
	e.replace(t, variantText("web", "package: web, revision: latest", "web", "packageContext: {data: {site: south}}"))
	e.ready(t, "web", v3, configv1alpha1.VariantDraft)
	if files := e.files(t, e.only(t, "edge", "web", draft).Name); !strings.Contains(files["package-context.yaml"], "site: south") {
		t.Errorf("edited: %v", files)
	}
	if n := len(e.list(t, "edge", "web")); n != 3 {
		t.Errorf("%d revisions, want 3", n)
	}

	e.quiet(t)
	stop()
	e.traffic.Reset()
	e.run(t)
	e.quiet(t)
	if all := e.traffic.Written(""); len(all) != 0 {
		t.Errorf("a restart writes %q", all)
	}
}

// TestGatesOfEarlierContent: when the controller changes the content of a draft, a gate that a user
// met must be met again. The gates of the upstream are not those of the package. The condition of
// the user is written once, by package-server: the controller does not write it again.
func TestGatesOfEarlierContent(t *testing.T) {
	e := newEnvironment(t)
	e.run(t)
	v1 := e.publish(t, "catalog", "web", "v1", "", map[string]string{"a.yaml": configMap("a", "upstream", "one")})
	e.create(t, variantText("web", "package: web, revision: latest", "web", "packageContext: {data: {site: north}}"))
	e.ready(t, "web", v1, configv1alpha1.VariantDraft)
	name := e.only(t, "edge", "web", draft).Name
	e.addGate(t, name, "Reviewed")
	e.quiet(t)

	v2 := e.draft(t, "catalog", "web", "v2", v1, map[string]string{"a.yaml": configMap("a", "upstream", "two")})
	e.addGate(t, v2, "SignedUpstream")
	e.move(t, v2, published)
	e.ready(t, "web", v2, configv1alpha1.VariantDraft)
	e.quiet(t)
	e.traffic.Reset()
	pr := e.only(t, "edge", "web", draft)
	conditions := map[string]porchv1alpha1.Condition{}
	for _, c := range pr.Status.Conditions {
		conditions[c.Type] = c
	}
	if c := conditions["Reviewed"]; c.Status != porchv1alpha1.ConditionUnknown || c.Reason != porchv1alpha1.ReasonContentChanged {
		t.Errorf("Reviewed is %+v", c)
	}
	if c := conditions[configv1alpha1.ConditionPVOperationsComplete]; c.Status != porchv1alpha1.ConditionTrue {
		t.Errorf("PVOperationsComplete is %+v", c)
	}
	var gates []string
	for _, gate := range pr.Spec.ReadinessGates {
		gates = append(gates, gate.ConditionType)
	}
	slices.Sort(gates)
	if diff := cmp.Diff([]string{configv1alpha1.ConditionPVOperationsComplete, porchv1alpha1.ConditionPipelinePassed, "Reviewed"}, gates); diff != "" {
		t.Errorf("gates (-want +got):\n%s", diff)
	}
	e.quiet(t)
	if all := e.traffic.Written(""); len(all) != 0 {
		t.Errorf("written again: %q", all)
	}
}

// addGate adds a gate to a draft, and meets it.
func (e *environment) addGate(t *testing.T, name, gate string) {
	t.Helper()
	patch := fmt.Sprintf(`[{"op":"add","path":"/spec/readinessGates/-","value":{"conditionType":%q}},{"op":"add","path":"/status/conditions/-","value":{"type":%q,"status":"True","reason":"Done"}}]`, gate, gate)
	if _, err := e.revisions().Patch(t.Context(), name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

package delivery

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/starlinghq/starling/pkg/core/plan"
)

func TestConflictTexts(t *testing.T) {
	theirs := plan.Owner{WDS: plan.WDS{UID: "2", Name: "two"}, Binding: "web", State: plan.OwnerPending}
	nameless := plan.Owner{WDS: plan.WDS{UID: "2"}, Work: &plan.Work{Name: "w"}, State: plan.OwnerClaimed}
	claims, disputes := conflictTexts([]plan.Conflict{{Ref: web, With: theirs}, {Ref: settings, With: nameless}, {Ref: settings, With: theirs, Ours: true}})
	leaving, failures := leavingTexts([]plan.HandOver{
		{Ref: settings, To: theirs},
		{Ref: web, To: plan.Owner{Binding: "b", Source: "package default/edge/web"}, Waits: true},
		{Ref: password, To: plan.Owner{Binding: "b"}, Failed: &plan.Item{Ref: password, Reason: "AppliedManifestFailed", Message: "s3cret"}},
	})
	want := [][]string{
		{
			`configmaps web/settings: WDS "2" (work w) is next to deliver this object, with different content; this Binding does not deliver it: ` + wayOut,
			`namespaces web: WDS "two" (Binding "web") delivers this object, with different content; this Binding does not deliver it: ` + wayOut,
		},
		{`configmaps web/settings: WDS "two" (Binding "web") wants to deliver this object too, with different content; this Binding delivers it: ` + wayOut},
		{
			`configmaps web/settings is being handed over to WDS "two" (Binding "web")`,
			`namespaces web stays until package default/edge/web of this WDS (Binding "b") has delivered it`,
			`secrets web/password is being handed over to Binding "b"`,
		},
		{`secrets web/password: cannot be handed over to Binding "b": AppliedManifestFailed (text withheld: the object is a Secret)`},
	}
	if diff := cmp.Diff(want, [][]string{claims, disputes, leaving, failures}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestBoundSortsAndCuts(t *testing.T) {
	var texts []string
	for i := range 40 {
		texts = append(texts, fmt.Sprintf("%02d", 39-i), "00")
	}
	got := Bound(texts)
	if len(got) != MaxTexts+1 || got[0] != "00" || got[1] != "01" || got[MaxTexts] != "… and 8 more" {
		t.Errorf("Bound() = %q", got)
	}
	if Bound(nil) != nil {
		t.Error("Bound(nil) is not nil")
	}
}

package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
)

func TestHolds(t *testing.T) {
	t.Parallel()
	crd := objref.Ref{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Name: "buckets.example.org"}
	settings := objref.Ref{Resource: "configmaps", Namespace: "web", Name: "settings"}
	text := plan.EncodeHolds([]plan.TransactionHold{
		plan.NewTransactionHold("tx-a", []objref.Ref{crd}, nil),
		plan.NewTransactionHold("tx-b", []objref.Ref{settings, settings}, []string{"west", "east"}),
	})
	const want = `[{"transaction":"tx-a","objects":["customresourcedefinitions.apiextensions.k8s.io//buckets.example.org"]},` +
		`{"transaction":"tx-b","objects":["configmaps/web/settings"],"clusters":["east","west"]}]`
	if diff := cmp.Diff(want, text); diff != "" {
		t.Fatal(diff)
	}
	holds, err := plan.ParseHolds(text)
	if err != nil {
		t.Fatal(err)
	}
	user, err := plan.ParseHold("secrets/web/key")
	if err != nil {
		t.Fatal(err)
	}
	for mailbox, want := range map[string]string{
		"east":  "configmaps/web/settings, customresourcedefinitions.apiextensions.k8s.io//buckets.example.org, secrets/web/key",
		"north": "customresourcedefinitions.apiextensions.k8s.io//buckets.example.org, secrets/web/key",
	} {
		got := user.Union(holds.At(mailbox))
		if parsed, err := plan.ParseHold(want); err != nil || !got.Equal(parsed) {
			t.Errorf("%s: %s, want %s (%v)", mailbox, got, want, err)
		}
	}
	if user.Union(plan.Hold{}).String() != "secrets/web/key" || !(plan.Hold{}).Union(plan.HoldAll()).Holds(crd) {
		t.Error("a union with nothing, or with everything, is wrong")
	}
	same, _ := plan.ParseHolds(text)
	fewer, _ := plan.ParseHolds(plan.EncodeHolds(holds.List()[:1]))
	if !holds.Equal(same) || holds.Equal(fewer) || fewer.Equal(holds) || !holds.Any() || (plan.Holds{}).Any() {
		t.Error("Equal or Any is wrong")
	}
	for _, invalid := range []string{"", "{}", `[{"transaction":"a","objects":["x"]}]`} {
		if holds, err := plan.ParseHolds(invalid); err == nil || !holds.At("east").Holds(settings) {
			t.Errorf("%q: error %v; it must hold everything", invalid, err)
		}
	}
	for _, tc := range []struct {
		mailbox string
		ref     objref.Ref
		want    string
	}{{"east", settings, "tx-b"}, {"north", settings, ""}, {"north", crd, "tx-a"}, {"east", objref.Ref{Resource: "secrets", Name: "x"}, ""}} {
		if got := holds.Holder(tc.mailbox, tc.ref); got != tc.want {
			t.Errorf("%s is held in %s by %q, want %q", tc.ref, tc.mailbox, got, tc.want)
		}
	}
	if plan.EncodeHolds(nil) != "" {
		t.Error("no holds are no annotation")
	}
}

package plan_test

import (
	"fmt"
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
		plan.NewTransactionHold(plan.Holder{Transaction: "tx-a"}, []objref.Ref{crd}, nil),
		plan.NewTransactionHold(plan.Holder{Transaction: "tx-b", UID: "u"}, []objref.Ref{settings, settings}, []string{"west", "east"}),
	})
	const want = `[{"transaction":"tx-a","objects":["customresourcedefinitions.apiextensions.k8s.io//buckets.example.org"]},` +
		`{"transaction":"tx-b","uid":"u","objects":["configmaps/web/settings"],"clusters":["east","west"]}]`
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
		if got := holds.Holder(tc.mailbox, tc.ref).Transaction; got != tc.want {
			t.Errorf("%s is held in %s by %q, want %q", tc.ref, tc.mailbox, got, tc.want)
		}
	}
	if plan.EncodeHolds(nil) != "" {
		t.Error("no holds are no annotation")
	}
}

// TestManyHolds: what a package with thousands of CustomResourceDefinitions holds fits into the
// annotations of a Binding. A transport that cannot decompress it holds everything.
func TestManyHolds(t *testing.T) {
	t.Parallel()
	var refs []objref.Ref
	for i := range 5000 {
		refs = append(refs, objref.Ref{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Name: fmt.Sprintf("things%d.service%d.aws.example.org", i, i%97)})
	}
	list := []plan.TransactionHold{plan.NewTransactionHold(plan.Holder{Transaction: "tx-a", UID: "u"}, refs, nil)}
	text := plan.EncodeHolds(list)
	if len(text) > 200<<10 {
		t.Errorf("%d bytes", len(text))
	}
	got, err := plan.DecodeHolds(text)
	if diff := cmp.Diff(list, got); err != nil || diff != "" {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	for _, invalid := range []string{text[:len(text)-8], "gzip:", "gzip:x", text[len("gzip:"):]} {
		if holds, err := plan.ParseHolds(invalid); err == nil || !holds.At("east").Holds(refs[0]) {
			t.Errorf("%.20q: error %v; it must hold everything", invalid, err)
		}
	}
}

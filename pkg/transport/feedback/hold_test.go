package feedback

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/transport/placement"
)

// TestHeldForTransactions: the condition Held names Transactions, beside what the user holds.
func TestHeldForTransactions(t *testing.T) {
	t.Parallel()
	crd := objref.Ref{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Name: "buckets.example.org"}
	settings := objref.Ref{Resource: "configmaps", Namespace: "web", Name: "settings"}
	holds, err := plan.ParseHolds(plan.EncodeHolds([]plan.TransactionHold{
		plan.NewTransactionHold(plan.Holder{Transaction: "tx-a"}, []objref.Ref{crd, settings}, nil), plan.NewTransactionHold(plan.Holder{Transaction: "tx-b"}, []objref.Ref{crd}, []string{"east", "west"}),
	}))
	if err != nil {
		t.Fatal(err)
	}
	const ofTransactions = "annotation pkg.crossplane.io/held-objects of Binding transactions.pkg.crossplane.io"
	const both = "2 objects are held for transaction tx-a until it ends: configmaps/web/settings, customresourcedefinitions.apiextensions.k8s.io//buckets.example.org; " +
		"1 object is held for transaction tx-b on clusters east, west, where it would break something: customresourcedefinitions.apiextensions.k8s.io//buckets.example.org"
	cases := map[string]struct {
		annotations    map[string]string
		transactions   plan.Holds
		held           []objref.Ref
		want, withhold string
	}{
		"Nothing":      {nil, plan.Holds{}, nil, "", "annotation starling.io/hold"},
		"Transactions": {nil, holds, nil, "True Held: " + both, ofTransactions},
		"UserToo": {
			map[string]string{controlv1alpha1.AnnotationHold: "configmaps/web/settings"},
			holds,
			[]objref.Ref{settings},
			"True Held: 1 object is held by annotation starling.io/hold: configmaps web/settings; " + both,
			"annotation starling.io/hold, and " + ofTransactions,
		},
		"UserHoldsNothingThere": {
			map[string]string{controlv1alpha1.AnnotationHold: "configmaps/web/settings"},
			plan.Holds{},
			nil,
			"False NothingHeld: annotation starling.io/hold matches no object that the Binding lists or has delivered", "annotation starling.io/hold",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			binding := &controlv1alpha1.Binding{ObjectMeta: metav1.ObjectMeta{Annotations: tc.annotations}}
			h := holdOf(&placement.Placement{Annotations: placement.AnnotationsOf(binding), Held: tc.transactions}, tc.held)
			got := ""
			if c := h.condition(); c != nil {
				got = string(c.Status) + " " + c.Reason + ": " + c.Message
			}
			if diff := cmp.Diff([]string{tc.want, tc.withhold}, []string{got, h.annotations()}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

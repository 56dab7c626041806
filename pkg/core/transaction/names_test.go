package transaction_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/starlinghq/starling/pkg/core/transaction"
)

// TestName has the vectors of the contract.
func TestName(t *testing.T) {
	provider := transaction.Version{APIVersion: "pkg.crossplane.io/v1", Kind: "Provider", Name: "provider-aws", Generation: 1}
	second := provider
	second.Generation = 2
	moved := provider
	moved.Digest = strings.Repeat("ab", 32)
	activated := provider
	activated.Activation = "provider-aws-0123456789ab/gen-2"
	long := provider
	long.Name = strings.Repeat("a.b-", 63)
	names := map[string]bool{}
	for _, tc := range []struct{ got, want string }{
		{transaction.Name(provider), "tx-provider-aws-9eca9e58"},
		{transaction.Name(second), "tx-provider-aws-1ce06184"},
		{transaction.Name(moved), ""},
		{transaction.Name(activated), ""},
		{transaction.NameAfterRecreation(provider, "uid-2"), ""},
		{transaction.Name(long), ""},
		{transaction.NameAfterRecreation(long, "uid-2"), ""},
	} {
		if tc.want != "" && tc.got != tc.want {
			t.Errorf("name %q, want %q", tc.got, tc.want)
		}
		if names[tc.got] {
			t.Errorf("name %q is not unique", tc.got)
		}
		names[tc.got] = true
		if problems := append(validation.IsDNS1123Subdomain(tc.got), validation.IsValidLabelValue(tc.got)...); len(problems) > 0 {
			t.Errorf("name %q: %q", tc.got, problems)
		}
	}
}

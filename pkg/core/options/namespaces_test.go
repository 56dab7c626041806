package options_test

import (
	"testing"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/options"
)

func TestNeverDeleted(t *testing.T) {
	for ref, want := range map[objref.Ref]bool{
		{Resource: "namespaces", Name: "kube-system"}:                       true,
		{Resource: "namespaces", Name: "open-cluster-management-agent"}:     true,
		{Resource: "namespaces", Name: "kube-prometheus"}:                   false,
		{Resource: "configmaps", Namespace: "kube-system", Name: "x"}:       false,
		{Group: "example.com", Resource: "namespaces", Name: "kube-system"}: false,
	} {
		if got := options.NeverDeleted(ref); got != want {
			t.Errorf("%s: %t, want %t", ref, got, want)
		}
	}
}

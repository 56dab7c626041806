package status

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/starlinghq/starling/pkg/core/objref"
)

func TestReportName(t *testing.T) {
	long := strings.Repeat("x", 253)
	refs := map[string]objref.Ref{
		"Namespaced":       {Group: "apps", Resource: "deployments", Namespace: "web", Name: "nginx"},
		"OtherNamespace":   {Group: "apps", Resource: "deployments", Namespace: "shop", Name: "nginx"},
		"OtherGroup":       {Group: "example.com", Resource: "deployments", Namespace: "web", Name: "nginx"},
		"ClusterScoped":    {Resource: "namespaces", Name: "web"},
		"RBACName":         {Group: "rbac.authorization.k8s.io", Resource: "clusterroles", Name: "system:controller:X"},
		"OtherRBACName":    {Group: "rbac.authorization.k8s.io", Resource: "clusterroles", Name: "system-controller-X"},
		"LongName":         {Resource: "services", Namespace: "web", Name: long},
		"OtherLongName":    {Resource: "services", Namespace: "web", Name: long[:252] + "y"},
		"ShiftedSeparator": {Group: "apps", Resource: "deployments", Namespace: "we", Name: "bnginx"},
		"OnlyOddCharacter": {Resource: "roles", Namespace: "web", Name: "::"},
	}
	seen := map[string]string{}
	for name, ref := range refs {
		got := ReportName(ref)
		if got != ReportName(ref) {
			t.Errorf("%s: not the same name twice", name)
		}
		if other, taken := seen[got]; taken {
			t.Errorf("%s and %s share the name %q", name, other, got)
		}
		seen[got] = name
		if problems := validation.IsDNS1123Label(got); len(problems) > 0 {
			t.Errorf("%s: name %q: %v", name, got, problems)
		}
	}
	if got, want := ReportName(refs["Namespaced"]), "deployments-nginx-"; !strings.HasPrefix(got, want) {
		t.Errorf("ReportName = %q, want prefix %q", got, want)
	}
}

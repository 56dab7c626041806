package status

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestParseExcluded(t *testing.T) {
	for name, tc := range map[string]struct {
		kinds                  []string
		wantResources, wantErr string
	}{
		"Default": {
			kinds: DefaultExcludeKinds(),
			wantResources: "clusterrolebindings.rbac.authorization.k8s.io clusterroles.rbac.authorization.k8s.io configmaps " +
				"rolebindings.rbac.authorization.k8s.io roles.rbac.authorization.k8s.io secrets serviceaccounts",
		},
		"None":     {},
		"Plurals":  {kinds: []string{"Ingress.networking.k8s.io", "NetworkPolicy.networking.k8s.io"}, wantResources: "ingresses.networking.k8s.io networkpolicies.networking.k8s.io"},
		"Spaces":   {kinds: []string{" Job.batch "}, wantResources: "jobs.batch"},
		"Resource": {kinds: []string{"secrets"}, wantErr: `kind "secrets"`},
		"Empty":    {kinds: []string{""}, wantErr: `kind ""`},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := ParseExcluded(tc.kinds)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("error %v, want %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := map[schema.GroupResource]struct{}{}
			for text := range strings.FieldsSeq(tc.wantResources) {
				want[schema.ParseGroupResource(text)] = struct{}{}
			}
			if diff := cmp.Diff(want, e.resources); diff != "" {
				t.Errorf("excluded resources (-want +got):\n%s", diff)
			}
			for _, kind := range tc.kinds {
				if !e.Kind(schema.ParseGroupKind(strings.TrimSpace(kind))) {
					t.Errorf("kind %s is not excluded", kind)
				}
			}
		})
	}
}

func TestReports(t *testing.T) {
	for text, want := range map[string]bool{
		"deployments.apps": true, "jobs.batch": true, "pods": true, "services": true, "namespaces": true, "persistentvolumeclaims": true,
		"customresourcedefinitions.apiextensions.k8s.io": true, "widgets.example.com": true, "configmaps.example.com": true,
		"configmaps": false, "secrets": false, "serviceaccounts": false, "endpoints": false, "networkpolicies.networking.k8s.io": false,
		"ingresses.networking.k8s.io": true, "priorityclasses.scheduling.k8s.io": false, "roles.rbac.authorization.k8s.io": false,
	} {
		if got := (Excluded{}).Reports(schema.ParseGroupResource(text)); got != want {
			t.Errorf("Reports(%s) = %t, want %t", text, got, want)
		}
	}
	// A kind that agents exclude by default needs no report.
	excluded, err := ParseExcluded(DefaultExcludeKinds())
	if err != nil {
		t.Fatal(err)
	}
	for gr := range excluded.resources {
		if (Excluded{}).Reports(gr) {
			t.Errorf("%s is excluded, and expected", gr)
		}
	}
	// The same holds for a kind that a flag excludes.
	if excluded, err = ParseExcluded([]string{"Widget.example.com"}); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"widgets.example.com": false, "widgets": true, "deployments.apps": true, "secrets": false} {
		if got := excluded.Reports(schema.ParseGroupResource(text)); got != want {
			t.Errorf("without Widgets, Reports(%s) = %t, want %t", text, got, want)
		}
	}
}

package cli

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
)

func TestVariants(t *testing.T) {
	variant := func(name, repository, state, waits string, revisions []string, conditions ...metav1.Condition) configv1alpha1.PackageVariant {
		pv := configv1alpha1.PackageVariant{ObjectMeta: metav1.ObjectMeta{Name: name}}
		pv.Spec.Downstream = &configv1alpha1.Downstream{Repo: repository, Package: "web"}
		pv.Status.State, pv.Status.WaitsFor, pv.Status.Conditions = configv1alpha1.VariantState(state), waits, conditions
		for _, r := range revisions {
			pv.Status.DownstreamTargets = append(pv.Status.DownstreamTargets, configv1alpha1.DownstreamTarget{Name: r})
		}
		if state != "" {
			pv.Status.Upstream = &configv1alpha1.UpstreamStatus{Name: "catalog.web.v1"}
		}
		return pv
	}
	ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue}
	variants := []configv1alpha1.PackageVariant{
		variant("s-c-web", "c", "Published", "", []string{"c.web.v1"}, ready, metav1.Condition{Type: "Applied", Status: metav1.ConditionTrue},
			metav1.Condition{Type: "Healthy", Status: metav1.ConditionFalse, Reason: "Unhealthy", Message: "Deployment web is not available"}),
		variant("s-a-web", "a", "Draft", "a human, to propose a.web.v1", []string{"a.web.v1", "a.web.v2"}, ready),
		variant("s-b-web", "b", "", "", nil, metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "DownstreamExists", Message: "it is another's"}),
		variant("s-d-web", "d", "Published", "", []string{"d.web.v1"}, ready),
	}
	variants[3].DeletionTimestamp = &metav1.Time{}
	set := &configv1alpha2.PackageVariantSet{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
	set.Status.Problems = []configv1alpha2.Problem{
		{Target: "PackageVariant s-b-web", Message: "b/web: DownstreamExists: it is another's"},
		{Target: "spec.targets[0]: e/web", Message: "repository \"e\" could not be loaded: no such Repository in this namespace"},
	}
	set.Status.MoreProblems = 3
	for name, tc := range map[string]struct {
		wide     bool
		variants []configv1alpha1.PackageVariant
		want     string
	}{
		"Table": {false, variants, `REPOSITORY   PACKAGE   STATE       REVISION            READY   WAITS FOR
a            web       Draft       a.web.v1,a.web.v2   True    a human, to propose a.web.v1
b            web       <none>      <none>              False   DownstreamExists: it is another's
c            web       Published   c.web.v1            True    Unhealthy: Deployment web is not available
d            web       Deleting    d.web.v1            True    

spec.targets[0]: e/web: repository "e" could not be loaded: no such Repository in this namespace
… and up to 3 more
`},
		//nolint:dupword // two columns with the same text
		"Wide": {true, variants[:1], `REPOSITORY   PACKAGE   STATE       REVISION   READY   APPLIED   HEALTHY   UPSTREAM         PACKAGEVARIANT   WAITS FOR
c            web       Published   c.web.v1   True    True      False     catalog.web.v1   s-c-web          Unhealthy: Deployment web is not available

PackageVariant s-b-web: b/web: DownstreamExists: it is another's
spec.targets[0]: e/web: repository "e" could not be loaded: no such Repository in this namespace
… and up to 3 more
`},
		"None": {false, nil, `PackageVariantSet s has no variants.

PackageVariant s-b-web: b/web: DownstreamExists: it is another's
spec.targets[0]: e/web: repository "e" could not be loaded: no such Repository in this namespace
… and up to 3 more
`},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := describeVariants(set, tc.variants).print(&out, tc.wide); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, out.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

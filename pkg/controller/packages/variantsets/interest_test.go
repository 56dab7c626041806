package variantsets

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
	"github.com/starlinghq/starling/pkg/core/packages/variant"
)

func interestIn(t *testing.T, targets string) *interest {
	t.Helper()
	spec := &configv1alpha2.PackageVariantSetSpec{}
	if err := yaml.UnmarshalStrict([]byte("{upstream: {repo: up, package: foo}, targets: "+targets+"}"), spec); err != nil {
		t.Fatal(err)
	}
	return interestOf(spec)
}

// TestInterestInRepositories: a Repository that a set can ask for is of interest, and no other.
func TestInterestInRepositories(t *testing.T) {
	prod := &configv1alpha1.Repository{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"env": "prod"}}}
	test := &configv1alpha1.Repository{ObjectMeta: metav1.ObjectMeta{Name: "b", Labels: map[string]string{"env": "test"}}}
	for name, tc := range map[string]struct {
		targets        string
		inProd, inTest bool
	}{
		"Listed":     {"[{repositories: [{name: a}]}]", true, false},
		"Selected":   {"[{repositorySelector: {matchLabels: {env: test}}}]", false, true},
		"All":        {"[{repositorySelector: {}}]", true, true},
		"Named":      {"[{repositories: [{name: c}], template: {downstream: {repo: b}}}]", false, true},
		"Computed":   {"[{repositories: [{name: c}], template: {downstream: {repoExpr: target.repo}}}]", true, true},
		"OfObjects":  {"[{objectSelector: {apiVersion: v1, kind: ConfigMap}}]", true, true},
		"AnyOfThem":  {"[{repositories: [{name: c}]}, {repositorySelector: {matchLabels: {env: prod}}}]", true, false},
		"OfNobody":   {"[{repositories: [{name: c}]}]", false, false},
		"WrongAtAll": {"[{repositorySelector: {matchExpressions: [{key: a, operator: What}]}}]", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			i := interestIn(t, tc.targets)
			if gotProd, gotTest := i.asksFor(prod), i.asksFor(test); gotProd != tc.inProd || gotTest != tc.inTest || i.asksFor(nil) {
				t.Errorf("got %t and %t, want %t and %t", gotProd, gotTest, tc.inProd, tc.inTest)
			}
		})
	}
}

func TestInterestInObjects(t *testing.T) {
	i := interestIn(t, "[{objectSelector: {apiVersion: example.com/v1, kind: Team, matchLabels: {role: dev}}}, {objectSelector: {apiVersion: example.com/v2, kind: Team, name: ops}}]")
	team := schema.GroupKind{Group: "example.com", Kind: "Team"}
	for _, tc := range []struct {
		kind schema.GroupKind
		name string
		role string
		want bool
	}{
		{team, "a", "dev", true},
		{team, "a", "other", false},
		{team, "ops", "other", true},
		{schema.GroupKind{Group: "other.com", Kind: "Team"}, "a", "dev", false},
	} {
		if got := i.selects(tc.kind, &variant.Metadata{Name: tc.name, Labels: map[string]string{"role": tc.role}}); got != tc.want {
			t.Errorf("%s %s (%s): got %t", tc.kind, tc.name, tc.role, got)
		}
	}
	if i.selects(team, nil) {
		t.Error("nothing is selected")
	}
}

// TestSameProgress: what sets do not show wakes none.
func TestSameProgress(t *testing.T) {
	status := func(change ...func(*configv1alpha1.PackageVariantStatus)) *configv1alpha1.PackageVariantStatus {
		s := &configv1alpha1.PackageVariantStatus{State: configv1alpha1.VariantDraft, Conditions: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue}}}
		for _, f := range change {
			f(s)
		}
		return s
	}
	for name, tc := range map[string]struct {
		change func(*configv1alpha1.PackageVariantStatus)
		want   bool
	}{
		"Settled": {func(s *configv1alpha1.PackageVariantStatus) { s.Settled, s.ObservedGeneration = "x", 7 }, true},
		"Delivered": {func(s *configv1alpha1.PackageVariantStatus) {
			s.Conditions = append(s.Conditions, metav1.Condition{Type: "Delivered"})
		}, true},
		"State":   {func(s *configv1alpha1.PackageVariantStatus) { s.State = configv1alpha1.VariantPublished }, false},
		"Message": {func(s *configv1alpha1.PackageVariantStatus) { s.Conditions[0].Message = "x" }, false},
		"Applied": {func(s *configv1alpha1.PackageVariantStatus) {
			s.Conditions = append(s.Conditions, metav1.Condition{Type: "Applied"})
		}, false},
		"OfThePresentSpec": {func(s *configv1alpha1.PackageVariantStatus) { s.Conditions[0].ObservedGeneration = 2 }, false},
		"NotReady":         {func(s *configv1alpha1.PackageVariantStatus) { s.Conditions = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := sameProgress(status(), status(tc.change)); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

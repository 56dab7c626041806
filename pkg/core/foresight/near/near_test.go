package near_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/starlinghq/starling/pkg/core/foresight/near"
)

func TestSelector(t *testing.T) {
	t.Parallel()
	labels := []map[string]string{{"environment": "prod", "region": "eu"}, {"environment": "test", "tier": "edge"}, nil}
	in := func(key string, values ...string) metav1.LabelSelector {
		return metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: metav1.LabelSelectorOpIn, Values: values}}}
	}
	is := func(pairs ...string) metav1.LabelSelector {
		set := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			set[pairs[i]] = pairs[i+1]
		}
		return metav1.LabelSelector{MatchLabels: set}
	}
	for name, tc := range map[string]struct {
		selector metav1.LabelSelector
		want     string
	}{
		"Matches":       {is("environment", "prod"), ""},
		"All":           {metav1.LabelSelector{}, ""},
		"MisspeltKey":   {is("envrnment", "prod"), "no cluster has the label envrnment; near: environment"},
		"OtherCase":     {is("Region", "eu"), "no cluster has the label Region; near: region"},
		"UnknownKey":    {is("team", "a"), "no cluster has the label team"},
		"MisspeltValue": {is("environment", "pord"), "no cluster has the label environment=pord; near: environment=prod"},
		"NearValue":     {is("environment", "prods"), "no cluster has the label environment=prods; near: environment=prod"},
		"OneOf":         {in("environment", "tests", "stage"), "no cluster has the label environment=tests|stage; near: environment=test"},
		"NotTogether":   {is("environment", "test", "region", "eu"), "no cluster has all labels of environment=test,region=eu"},
		"Exists": {
			metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "teir", Operator: metav1.LabelSelectorOpExists}}},
			"no cluster has the label teir; near: tier",
		},
		"Excluded": {
			metav1.LabelSelector{
				MatchLabels:      map[string]string{"tier": "edge"},
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "environment", Operator: metav1.LabelSelectorOpDoesNotExist}},
			}, "no cluster has all labels of !environment,tier=edge",
		},
		"Invalid": {in("environment"), ""},
	} {
		if got := near.Selector("cluster", &tc.selector, labels); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	if got := near.Selector("cluster", &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}, nil); got != "no cluster has the label a" {
		t.Errorf("without clusters: %q", got)
	}
}

func TestName(t *testing.T) {
	t.Parallel()
	names := []string{"shop", "default"}
	for name, want := range map[string]string{"shop": "", "shops": "there is no Namespace shops; near: shop", "other": "there is no Namespace other"} {
		if got := near.Name("Namespace", name, names); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

package cli

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/starlinghq/starling/pkg/core/binding"
	"github.com/starlinghq/starling/pkg/core/foresight/forecast"
	"github.com/starlinghq/starling/pkg/core/foresight/packages"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/plugin"
	"github.com/starlinghq/starling/test/golden"
)

// somePlan returns a plan that has one of everything.
func somePlan() *Plan {
	settings := objref.Ref{Resource: "configmaps", Namespace: "shop", Name: "settings"}
	secret := objref.Ref{Resource: "secrets", Namespace: "shop", Name: "password"}
	namespace := objref.Ref{Resource: "namespaces", Name: "shop"}
	content := func(color string) map[string]any {
		return map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "settings", "namespace": "shop"},
			"data": map[string]any{"color": color},
		}
	}
	p := &Plan{
		Forecast: forecast.Forecast{
			Policies: []forecast.Policy{
				{Name: "edge", Gained: []string{"c3"}, Lost: []string{"c4", "c5"}, ObjectsGained: []objref.Ref{settings}, ObjectsLost: []objref.Ref{secret}, Refused: []string{"c9 is not accepted"}},
				{Name: "all", Mistakes: []string{"spec.downsync[0]: Required value"}},
				{Name: "big", Blocked: &binding.Loss{Clusters: []string{"c1", "c2"}, Of: 2, Token: "0123"}},
			},
			Groups: []forecast.Group{
				{Clusters: []string{"c1", "c2"}, Works: 1, Bytes: 2048, Items: []forecast.Item{
					{Verb: forecast.Update, Ref: settings, Kind: "ConfigMap", Before: content("red"), After: content("blue"), Fields: []forecast.Field{{Path: ".data.color", Before: "red", After: "blue"}}},
					{Verb: forecast.Update, Ref: secret, Kind: "Secret", Fields: []forecast.Field{{Path: ".data.key", Before: "(removed)", After: "(removed)"}}},
				}, Unavailable: []string{"c2 is not available"}},
				{Clusters: []string{"c3"}, Works: 2, Bytes: 100, Items: []forecast.Item{
					{Verb: forecast.Create, Ref: settings, Kind: "ConfigMap", After: content("blue"), Conflict: true, Why: `WDS "b" delivers it with different content; the first of the two is delivered`},
					{Verb: forecast.Keep, Ref: secret, Kind: "Secret", Why: "cannot be delivered: it is wrong"},
					{Verb: forecast.Release, Ref: namespace, Kind: "Namespace"},
				}, Warnings: []string{`no policy delivers Namespace "shop": the clusters need one (1 object)`}},
				{Clusters: []string{"c3"}, Package: "default/c3/web", Works: 1, Bytes: 100, Items: []forecast.Item{{Verb: forecast.Delete, Ref: settings, Kind: "ConfigMap"}}},
			},
		},
		Approvals: []forecast.Approval{
			{
				Package: "default/c3/web", Revisions: []forecast.ApprovedRevision{{Name: "c3.web.v2", Version: "2"}, {Name: "c3.web.v3", Refused: "it is a Draft"}},
				Binding: "c3-web-0123", Cluster: "c3", Before: "1", After: "2", Problems: []string{"a.yaml: document 1: is not an object"},
			},
			{Package: "default/c4/web", Revisions: []forecast.ApprovedRevision{{Name: "c4.web.v1", Version: "1"}}, Binding: "c4-web-0123", Cluster: "c4", After: "1"},
			{Package: "default/catalog/web", Revisions: []forecast.ApprovedRevision{{Name: "catalog.web.v1", Version: "1"}}, Why: "Repository catalog is no cluster repository"},
		},
		Sets: []packages.Set{
			{Namespace: "default", Variants: []packages.Variant{{Verb: forecast.Create, Name: "own", Package: "c1/own", Problem: "package c1/own already has revisions"}}},
			{
				Namespace: "default", Name: "web", TargetsGained: []string{"c3/web"}, TargetsLost: []string{"c1/web"}, Drafts: []string{"c3.web.x"},
				Variants: []packages.Variant{
					{Verb: forecast.Delete, Name: "web-c1-web", Package: "c1/web", Steps: []string{"propose deletion c1.web.v1"}},
					{Name: "web-c2-web", Package: "c2/web", Steps: []string{"merge catalog.web.v2 into c2.web.v0, and mutate it"}},
					{Verb: forecast.Create, Name: "web-c3-web", Package: "c3/web", Steps: []string{"create c3.web.x"}},
				},
			},
			{Namespace: "default", Name: "wrong", Mistake: "spec.targets is required", Blocked: "blocked: this change would delete 2 of 2 PackageVariants", Unknown: "which objects it selects"},
		},
		Notes: []string{"events shop/x is no workload: nothing of it is delivered to clusters"}, Unknown: []string{"the clusters of ITS its2: forbidden"},
	}
	p.total()
	return p
}

// TestTexts: the help, errors that need no server, and all forms of output.
func TestTexts(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	var texts []golden.Text
	for _, args := range [][]string{
		{"--help"},
		{},
		{"-f", "a.yaml", "--fail-on=all"},
		{"--label", "c1=site=edge"},
		{"--label", "cluster/c1=site"},
		{"--label", "cluster/c1"},
		{"-f", "a.yaml", "-o", "table"},
		{"--delete", "configmap/a"},
		{"a"},
	} {
		var out bytes.Buffer
		cmd := NewPlanCommand(genericclioptions.NewConfigFlags(false), genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &out})
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		cmd.SetArgs(args)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		plugin.Report(&out, cmd.ExecuteContext(t.Context()))
		texts = append(texts, golden.Text{Heading: "plan " + strings.Join(args, " "), Text: out.String()})
	}
	for _, format := range []string{"", "wide", "diff", "name", "json", "yaml"} {
		var out bytes.Buffer
		if err := somePlan().print(&out, format); err != nil {
			t.Fatal(err)
		}
		texts = append(texts, golden.Text{Heading: "output " + format, Text: out.String()})
	}
	var out bytes.Buffer
	if err := (&Plan{}).print(&out, ""); err != nil {
		t.Fatal(err)
	}
	texts = append(texts, golden.Text{Heading: "nothing changes", Text: out.String()})
	for _, what := range []string{failOnRemoval, failOnConflict, failOnError} {
		texts = append(texts, golden.Text{Heading: "fail on " + what, Text: somePlan().has(what)})
		if why := (&Plan{}).has(what); why != "" {
			t.Errorf("nothing changes, and fails on %s: %s", what, why)
		}
	}
	golden.Texts(t, texts...)
}

package destination_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/pkg/core/customize"
	"github.com/starlinghq/starling/pkg/core/destination"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/options"
)

// crd returns buckets.example.org with versions, each with a name and the fields of its spec, which
// are strings: "v1:region,size". A field with "!" is required. The last version is stored.
func crd(labels string, versions ...string) *destination.CRD {
	out := &destination.CRD{}
	out.Name, out.Labels = "buckets.example.org", parse(labels)
	out.UID, out.ResourceVersion = "1", "1"
	out.Spec.Group, out.Spec.Scope = "example.org", apiextensionsv1.ClusterScoped
	out.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: "buckets", Singular: "bucket", Kind: "Bucket", ListKind: "BucketList"}
	for i, version := range versions {
		name, fields, _ := strings.Cut(version, ":")
		spec := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{}}
		for field := range strings.SplitSeq(fields, ",") {
			field, required := strings.CutSuffix(field, "!")
			spec.Properties[field] = apiextensionsv1.JSONSchemaProps{Type: "string"}
			if required {
				spec.Required = append(spec.Required, field)
			}
		}
		out.Spec.Versions = append(out.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: name, Served: true, Storage: i == len(versions)-1,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": spec},
			}},
		})
		if i == len(versions)-1 {
			out.Status.StoredVersions = []string{name}
		}
	}
	return out
}

// parse parses labels: "a=b,c=d".
func parse(text string) map[string]string {
	labels := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		if key, value, ok := strings.Cut(pair, "="); ok {
			labels[key] = value
		}
	}
	return labels
}

var bucketRef = objref.Ref{Group: "example.org", Resource: "buckets", Name: "mine"}

func ref(name string) objref.Ref {
	return objref.Ref{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Name: name}
}

// object returns the bucket "mine" of a version, with a spec: "region=eu".
func object(t testing.TB, version, labels, spec string) *destination.Object {
	t.Helper()
	fields := map[string]any{}
	for key, value := range parse(spec) {
		fields[key] = value
	}
	content := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.org/" + version, "kind": "Bucket", "metadata": map[string]any{"name": "mine"}, "spec": fields,
	}}
	content.SetLabels(parse(labels))
	o, err := destination.NewObject(bucketRef, content)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func definition(t testing.TB, c *destination.CRD) *destination.Object {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c)
	if err != nil {
		t.Fatal(err)
	}
	o, err := destination.NewObject(ref(c.Name), &unstructured.Unstructured{Object: content})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// policy returns a policy that carries objects with a label to clusters with a label.
func policy(t testing.TB, name, objects, clusters string) destination.Policy {
	t.Helper()
	compiled, mistakes := match.Compile(&controlv1alpha1.BindingPolicySpec{
		ClusterSelectors: []metav1.LabelSelector{{MatchLabels: parse(clusters)}},
		Downsync: []controlv1alpha1.DownsyncPolicyClause{{DownsyncObjectTest: controlv1alpha1.DownsyncObjectTest{
			ObjectSelectors: []metav1.LabelSelector{{MatchLabels: parse(objects)}},
		}}},
	})
	if len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	return destination.Policy{Name: name, Compiled: compiled}
}

// keeping returns a policy with the annotation that clusters keep what leaves.
func keeping(t testing.TB, p destination.Policy) destination.Policy {
	t.Helper()
	p.OnRemoval = onRemoval(t, "orphan")
	return p
}

func onRemoval(t testing.TB, value string) options.Requested {
	t.Helper()
	requested, err := options.Parse(map[string]string{controlv1alpha1.AnnotationOnRemoval: value})
	if err != nil {
		t.Fatal(err)
	}
	return requested
}

func evaluate(t testing.TB, in *destination.Input) *destination.Result {
	t.Helper()
	result, err := destination.Evaluate(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

const pkg = "registry.example.org/org/s3"

func TestEvaluate(t *testing.T) {
	t.Parallel()
	const app = "app=a"
	v1, v2 := crd(app, "v1:region"), crd(app, "v1:size")
	east := func(change ...func(*destination.Cluster)) destination.Cluster {
		c := destination.Cluster{Name: "east", Labels: parse("env=prod"), Kubernetes: "v1.31.2-gke.1", Stored: map[string][]string{"buckets.example.org": {"v1"}}}
		for _, f := range change {
			f(&c)
		}
		return c
	}
	unreported := func(c *destination.Cluster) { c.Stored = nil }
	foreign := func(objects ...*destination.Object) func(*destination.Cluster) {
		return func(c *destination.Cluster) {
			for _, o := range objects {
				c.Foreign = append(c.Foreign, destination.Foreign{Space: "other", Object: o})
			}
		}
	}
	both := []destination.Policy{policy(t, "all", app, "env=prod")}
	own := []*destination.Object{object(t, "v1", app, "region=eu")}
	cases := map[string]struct {
		in       destination.Input
		reason   string
		message  string
		warnings []string
		bindings []destination.BindingChange
	}{
		"Created": {
			in: destination.Input{Changes: []destination.Change{{Package: pkg, After: v1}}, Policies: both, Clusters: []destination.Cluster{east()}},
			bindings: []destination.BindingChange{
				{Policy: "all", Arrive: []objref.Ref{ref("buckets.example.org")}, Clusters: []string{"east"}},
			},
		},
		"NotSelected": {
			in: destination.Input{
				Changes: []destination.Change{{Package: pkg, After: crd("app=b", "v1:region")}}, Policies: both, Clusters: []destination.Cluster{east()},
			},
		},
		"Updated": {
			in: destination.Input{Changes: []destination.Change{{Package: pkg, Before: v1, After: crd(app, "v1:region,size")}}, Policies: both, Clusters: []destination.Cluster{east()}, Resources: own},
			bindings: []destination.BindingChange{
				{Policy: "all", Change: []objref.Ref{ref("buckets.example.org")}, Clusters: []string{"east"}},
			},
		},
		"BreaksAnObject": {
			in:     destination.Input{Changes: []destination.Change{{Package: pkg, Before: v1, After: v2}}, Policies: both, Clusters: []destination.Cluster{east()}, Resources: own},
			reason: "SchemaIncompatible", message: "cluster east: buckets.example.org v1: spec.region is removed (1 object: mine)",
		},
		"BreaksAnObjectThatIsNotBoundThere": {
			in: destination.Input{
				Changes: []destination.Change{{Package: pkg, Before: v1, After: v2}}, Clusters: []destination.Cluster{east()},
				Policies: both, Resources: []*destination.Object{object(t, "v1", "app=b", "region=eu")},
			},
		},
		"BreaksAnObjectOfAnotherSpace": {
			in: destination.Input{
				Changes: []destination.Change{{Package: pkg, Before: v1, After: v2}}, Policies: both, Clusters: []destination.Cluster{east(foreign(object(t, "v1", "", "region=eu")))},
			},
			reason: "SchemaIncompatible", message: "cluster east: buckets.example.org v1: spec.region is removed (1 object: mine)",
		},
		"Accepted": {
			in: destination.Input{
				Changes: []destination.Change{{Package: pkg, Before: v1, After: v2}}, Policies: both, Clusters: []destination.Cluster{east()}, Resources: own,
				Accepted: map[string]bool{"buckets.example.org": true},
			},
		},
		"StoredVersionRemoved": {
			in: destination.Input{
				Changes: []destination.Change{{Package: pkg, Before: crd(app, "v1:region", "v2:region"), After: crd(app, "v2:region")}}, Policies: both, Clusters: []destination.Cluster{east()},
			},
			reason: "SchemaIncompatible", message: "cluster east: buckets.example.org: version v1 is removed, but objects may be stored in it; migrate them and remove it from status.storedVersions first",
		},
		"StoredVersionsAreNotKnown": {
			in: destination.Input{
				Changes: []destination.Change{{Package: pkg, Before: crd(app, "v1:region"), After: crd(app, "v2:region")}}, Policies: both, Clusters: []destination.Cluster{east(unreported)},
			},
			warnings: []string{"cluster east: buckets.example.org: version v1 is removed, but objects may be stored in it; migrate them and remove it from status.storedVersions first; which versions the cluster stores is not known"},
		},
		"Held": {
			in: destination.Input{
				Changes: []destination.Change{{Package: pkg, Before: v2, After: v2}}, Policies: both, Resources: own,
				Clusters: []destination.Cluster{east(func(c *destination.Cluster) { c.Held = map[string]bool{"buckets.example.org": true} })},
			},
			reason: "SchemaIncompatible", message: "cluster east: buckets.example.org v1: spec.region is not in the schema and would be lost (1 object: mine)",
		},
		"HeldWithAStoredVersion": {
			in: destination.Input{
				Changes: []destination.Change{{Package: pkg, Before: crd(app, "v2:region"), After: crd(app, "v2:region")}}, Policies: both,
				Clusters: []destination.Cluster{east(func(c *destination.Cluster) { c.Held = map[string]bool{"buckets.example.org": true} })},
			},
			reason: "SchemaIncompatible", message: "cluster east: buckets.example.org: version v1 is removed, but objects may be stored in it",
		},
		"NothingChanges": {
			in: destination.Input{Changes: []destination.Change{{Package: pkg, Before: v2, After: v2}}, Policies: both, Resources: own, Clusters: []destination.Cluster{east()}},
		},
		"Deleted": {
			in: destination.Input{Changes: []destination.Change{{Package: pkg, Before: v1, OnRemoval: onRemoval(t, "orphan")}}, Policies: both, Clusters: []destination.Cluster{east()}},
			bindings: []destination.BindingChange{
				{Policy: "all", Leave: []objref.Ref{ref("buckets.example.org")}, Clusters: []string{"east"}},
			},
			warnings: []string{"cluster east: CRD buckets.example.org stays there, also with objects that no Binding delivers; whether there are such is not known"},
		},
		"DeletedOnAClusterThatHasNotReported": {
			in:       destination.Input{Changes: []destination.Change{{Package: pkg, Before: v1, OnRemoval: onRemoval(t, "orphan")}}, Policies: both, Clusters: []destination.Cluster{east(unreported)}},
			warnings: []string{"cluster east: CRD buckets.example.org stays there, also with objects that no Binding delivers; the CRD has not been reported from there"},
		},
		"DeletedAndKeptByThePolicy": {
			in: destination.Input{
				Changes: []destination.Change{{Package: pkg, Before: v1, Takes: true}}, Clusters: []destination.Cluster{east(), {Name: "west", Labels: parse("env=test")}},
				Policies: []destination.Policy{both[0], keeping(t, policy(t, "keeps", app, "env=prod")), policy(t, "test", app, "env=test")},
			},
			warnings: []string{
				"cluster west: CRD buckets.example.org is deleted there, also with objects that no Binding delivers; the CRD has not been reported from there",
				"cluster east: CRD buckets.example.org stays there, also with objects that no Binding delivers; whether there are such is not known",
			},
		},
		"DeletedAsTheCRDRequests": {
			in: destination.Input{
				Changes: []destination.Change{{Package: pkg, Before: v1, OnRemoval: onRemoval(t, "delete")}}, Clusters: []destination.Cluster{east()},
				Policies: []destination.Policy{keeping(t, policy(t, "keeps", app, "env=prod"))},
			},
			warnings: []string{"cluster east: CRD buckets.example.org is deleted there, also with objects that no Binding delivers; whether there are such is not known"},
		},
		"DeletedAndKeptByAPolicyOfOthers": {
			in: destination.Input{
				Changes: []destination.Change{{Package: pkg, Before: v1}}, Clusters: []destination.Cluster{east()},
				Policies: []destination.Policy{both[0], keeping(t, policy(t, "keeps", "app=b", "env=prod"))},
			},
			warnings: []string{"cluster east: CRD buckets.example.org is deleted there, also with objects that no Binding delivers; whether there are such is not known"},
		},
		"DeletedAndNeeded": {
			in:     destination.Input{Changes: []destination.Change{{Package: pkg, Before: v1}}, Policies: both, Clusters: []destination.Cluster{east()}, Resources: own},
			reason: "MissingDependency", message: "cluster east: CRD buckets.example.org would be removed, but 1 object of buckets.example.org (mine) needs it",
		},
		"DeletedWithItsObjects": {
			in:       destination.Input{Changes: []destination.Change{{Package: pkg, Before: v1, Takes: true}}, Policies: both, Clusters: []destination.Cluster{east()}, Resources: own},
			warnings: []string{"cluster east: CRD buckets.example.org is deleted there, also with objects that no Binding delivers; whether there are such is not known"},
		},
		"Relabelled": {
			in:       destination.Input{Changes: []destination.Change{{Package: pkg, Before: v1, After: crd("app=b", "v1:region")}}, Policies: both, Clusters: []destination.Cluster{east()}},
			warnings: []string{"cluster east: CRD buckets.example.org is deleted there, also with objects that no Binding delivers; whether there are such is not known"},
		},
		"DeletedAndNeededByAnotherSpace": {
			in: destination.Input{
				Changes: []destination.Change{{Package: pkg, Before: v1, Takes: true}}, Policies: both, Clusters: []destination.Cluster{east(foreign(object(t, "v1", "", "region=eu")))},
			},
			reason: "MissingDependency", message: `cluster east: CRD buckets.example.org would be removed, but 1 object of buckets.example.org (mine of workload definition space "other") needs it`,
		},
		"DeletedAndKeptByAnotherSpace": {
			in: destination.Input{
				Changes: []destination.Change{{Package: pkg, Before: v1}}, Policies: both, Clusters: []destination.Cluster{east(foreign(definition(t, v1)))}, Resources: own,
			},
		},
		"RelabelledAndNeeded": {
			in:     destination.Input{Changes: []destination.Change{{Package: pkg, Before: v1, After: crd("app=b", "v1:region")}}, Policies: both, Clusters: []destination.Cluster{east()}, Resources: own},
			reason: "MissingDependency", message: "cluster east: CRD buckets.example.org would be removed, but 1 object of buckets.example.org (mine) needs it",
		},
		"Conflict": {
			in:     destination.Input{Changes: []destination.Change{{Package: pkg, After: v1}}, Policies: both, Clusters: []destination.Cluster{east(foreign(definition(t, v2)))}},
			reason: "CRDConflict", message: `cluster east: workload definition space "other" delivers CRD buckets.example.org with different content`,
		},
		"SameContent": {
			in: destination.Input{Changes: []destination.Change{{Package: pkg, After: v1}}, Policies: both, Clusters: []destination.Cluster{east(foreign(definition(t, crd("x=y", "v1:region"))))}},
		},
		"NobodyDeliversTheCRD": {
			in: destination.Input{
				Changes: []destination.Change{{Package: pkg, Before: crd("", "v1:region"), After: crd("", "v1:region,size")}}, Policies: both, Clusters: []destination.Cluster{east(unreported)}, Resources: own,
			},
			warnings: []string{"cluster east: it is not known whether there is a CRD buckets.example.org, which 1 object of buckets.example.org (mine) needs; no Binding delivers it"},
		},
		"Kubernetes": {
			in: destination.Input{
				Changes: []destination.Change{{Package: pkg, After: v1}}, Policies: both, Clusters: []destination.Cluster{east()},
				Packages: map[string]destination.Package{pkg: {Version: "v1.0.0", Kubernetes: ">=1.32"}},
			},
			reason: "VersionConflict", message: "cluster east: package " + pkg + " requires Kubernetes >=1.32, not v1.31.2-gke.1",
		},
		"KubernetesOfADistribution": {
			in: destination.Input{
				Changes: []destination.Change{{Package: pkg, After: v1}}, Policies: both, Clusters: []destination.Cluster{east()},
				Packages: map[string]destination.Package{pkg: {Version: "v1.0.0", Kubernetes: ">=1.31"}},
			},
		},
		"KubernetesIsNotKnown": {
			in: destination.Input{
				Changes: []destination.Change{{Package: pkg, After: v1}}, Policies: both, Clusters: []destination.Cluster{east(func(c *destination.Cluster) { c.Kubernetes = "" })},
				Packages: map[string]destination.Package{pkg: {Version: "v1.0.0", Kubernetes: ">=1.31"}},
			},
			warnings: []string{"cluster east: package " + pkg + " requires Kubernetes >=1.31; the version of the cluster is not known"},
		},
		"PackageOfAnotherSpace": {
			in: destination.Input{
				Changes: []destination.Change{{Package: pkg, After: v1}}, Policies: both,
				Clusters: []destination.Cluster{east(func(c *destination.Cluster) {
					c.Packages = []pkgv1beta1.LockPackage{{Name: "config-1", Source: "x/y", Dependencies: []pkgv1beta1.Dependency{{Package: pkg, Constraints: "<1.0.0"}}}}
				})},
				Packages: map[string]destination.Package{pkg: {Version: "v1.0.0"}},
			},
			reason: "VersionConflict", message: "cluster east: package config-1 of another workload definition space requires " + pkg + " <1.0.0, not v1.0.0",
		},
		"ListedByAPolicyThatCannotBeUnderstood": {
			in: destination.Input{
				Changes: []destination.Change{{Package: pkg, Before: crd("", "v1:region")}}, Clusters: []destination.Cluster{east()}, Resources: own,
				Policies: []destination.Policy{{Name: "frozen", Objects: map[objref.Ref]bool{ref("buckets.example.org"): true, bucketRef: true}, Clusters: map[string]bool{"east": true}}},
			},
			reason: "MissingDependency", message: "cluster east: CRD buckets.example.org would be removed, but 1 object of buckets.example.org (mine) needs it",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := evaluate(t, &tc.in)
			failure := result.Failure()
			switch {
			case failure == nil && tc.reason != "":
				t.Errorf("no failure, want %s", tc.reason)
			case failure != nil && (failure.Reason != tc.reason || failure.Message != tc.message):
				t.Errorf("failure %s: %s\nwant %s: %s", failure.Reason, failure.Message, tc.reason, tc.message)
			}
			if diff := cmp.Diff(tc.warnings, result.Warnings()); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tc.bindings, result.Bindings); tc.bindings != nil && diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestMessageNamesClusters: one message for many clusters names ten of them.
func TestMessageNamesClusters(t *testing.T) {
	t.Parallel()
	in := &destination.Input{
		Changes: []destination.Change{{Package: pkg, Before: crd("app=a", "v1:region")}}, Policies: []destination.Policy{policy(t, "all", "app=a", "")},
		Resources: []*destination.Object{object(t, "v1", "app=a", "")},
	}
	for n := range 12 {
		in.Clusters = append(in.Clusters, destination.Cluster{Name: fmt.Sprintf("c%02d", n)})
	}
	want := "clusters c00, c01, c02, c03, c04, c05, c06, c07, c08, c09 … and 2 more: CRD buckets.example.org would be removed, but 1 object of buckets.example.org (mine) needs it"
	if got := evaluate(t, in).Failure(); got == nil || got.Message != want {
		t.Errorf("failure %v, want %s", got, want)
	}
}

// TestWhatAClusterHasAfterwards: packages are where their CRDs are.
func TestWhatAClusterHasAfterwards(t *testing.T) {
	t.Parallel()
	in := &destination.Input{
		Changes:   []destination.Change{{Package: pkg, After: crd("app=a", "v1:region")}},
		Unchanged: []destination.Owned{{Package: "x/family", Name: "accounts.example.org", Labels: parse("app=a,tier=1")}},
		Policies:  []destination.Policy{policy(t, "all", "app=a", "env=prod"), policy(t, "tier", "tier=1", "env=test")},
		Clusters: []destination.Cluster{
			{Name: "east", Labels: parse("env=prod")}, {Name: "lab", Labels: parse("env=test")}, {Name: "idle"},
		},
	}
	want := []destination.Destination{{
		Cluster: "east", Changed: []objref.Ref{ref("buckets.example.org")},
		CRDs: []objref.Ref{ref("accounts.example.org"), ref("buckets.example.org")}, Packages: []string{pkg, "x/family"},
	}}
	slices.Sort(want[0].Packages)
	got := evaluate(t, in).Destinations
	for i := range got {
		got[i].Situation = ""
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestUpdateThatChangesNoCRD: the clusters that have a package are destinations of its update.
func TestUpdateThatChangesNoCRD(t *testing.T) {
	t.Parallel()
	in := &destination.Input{
		Unchanged: []destination.Owned{{Package: pkg, Name: "buckets.example.org", Labels: parse("app=a")}},
		Policies:  []destination.Policy{policy(t, "all", "app=a", "env=prod")},
		Clusters:  []destination.Cluster{{Name: "east", Labels: parse("env=prod"), Kubernetes: "v1.30.0"}, {Name: "idle"}},
		Packages:  map[string]destination.Package{pkg: {Version: "v1.0.1", Kubernetes: ">=1.31"}},
	}
	result := evaluate(t, in)
	if failure := result.Failure(); failure == nil || failure.Message != "cluster east: package "+pkg+" requires Kubernetes >=1.31, not v1.30.0" {
		t.Errorf("failure %v", failure)
	}
	if len(result.Destinations) != 1 || result.Destinations[0].Cluster != "east" {
		t.Errorf("destinations %+v", result.Destinations)
	}
}

// random returns an Input with several clusters, few of which differ.
func random(t testing.TB, r *rand.Rand) *destination.Input {
	t.Helper()
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	schemas := []string{"v1:region", "v1:size", "v1:region,size", "v1:size!", "v2:region", "v1:region v2:region"}
	newCRD := func() *destination.CRD {
		if r.IntN(6) == 0 {
			return nil
		}
		return crd(pick("app=a", "app=b", "app=a,tier=1"), strings.Fields(pick(schemas...))...)
	}
	in := &destination.Input{Packages: map[string]destination.Package{pkg: {Version: pick("v1.0.0", "v2.0.0"), Kubernetes: pick("", ">=1.30", "nonsense")}}}
	change := destination.Change{Package: pkg, Before: newCRD(), After: newCRD(), Takes: r.IntN(8) == 0}
	if change.Before == nil && change.After == nil {
		change.After = crd("app=a", "v1:region")
	}
	in.Changes = []destination.Change{change}
	for n := range 1 + r.IntN(3) {
		in.Policies = append(in.Policies, policy(t, fmt.Sprint("p", n), pick("app=a", "app=b", "tier=1"), pick("env=prod", "env=test", "")))
	}
	for n := range r.IntN(3) {
		o := object(t, pick("v1", "v2"), pick("app=a", "app=b"), pick("region=eu", "size=1", ""))
		o.Ref.Name = fmt.Sprint("b", n)
		in.Resources = append(in.Resources, o)
		if r.IntN(3) == 0 {
			in.Resources[n] = deliver(bucket(o.Ref.Name, pick("app=a", "app=b"), pick("region={{.region}}", "size={{.size}}")), removing())
		}
	}
	for n := range 8 {
		c := destination.Cluster{Name: fmt.Sprint("c", n), Labels: parse(pick("env=prod", "env=test")), Kubernetes: pick("", "v1.29.0", "v1.31.0")}
		if r.IntN(2) == 0 {
			c.Properties = customize.NewProperties(c.Name, parse(pick("region=eu", "size=1", "region=us,size=2")))
		}
		if r.IntN(2) == 0 {
			c.Stored = map[string][]string{"buckets.example.org": {pick("v1", "v2")}}
		}
		if r.IntN(4) == 0 {
			c.Foreign = append(c.Foreign, destination.Foreign{Space: "other", Object: definition(t, crd("", strings.Fields(pick(schemas...))...))})
		}
		if r.IntN(4) == 0 {
			c.Foreign = append(c.Foreign, destination.Foreign{Space: "other", Object: object(t, "v1", "", pick("region=eu", "size=1"))})
		}
		if r.IntN(4) == 0 {
			c.Packages = []pkgv1beta1.LockPackage{{Name: "x-1", Source: "x/y", Dependencies: []pkgv1beta1.Dependency{{Package: pkg, Constraints: pick("<2", ">=2")}}}}
		}
		in.Clusters = append(in.Clusters, c)
	}
	return in
}

// TestGroupsAreJudgedAsSingleClusters: that clusters share a verdict changes no verdict.
func TestGroupsAreJudgedAsSingleClusters(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	failing, shared := 0, 0
	for range 400 {
		in := random(t, r)
		grouped := evaluate(t, in)
		var single []destination.Destination
		for _, c := range in.Clusters {
			alone := *in
			alone.Clusters = []destination.Cluster{c}
			single = append(single, evaluate(t, &alone).Destinations...)
		}
		if diff := cmp.Diff(single, grouped.Destinations); diff != "" {
			t.Fatal(diff)
		}
		situations := map[string]bool{}
		for _, d := range grouped.Destinations {
			situations[d.Situation] = true
		}
		if len(situations) != grouped.Situations {
			t.Fatalf("%d validations of %d situations", grouped.Situations, len(situations))
		}
		failing += len(grouped.Failing())
		shared += len(grouped.Destinations) - grouped.Situations
	}
	if failing < 100 || shared < 100 {
		t.Errorf("%d destinations fail and %d share a verdict: the inputs test too little", failing, shared)
	}
}

// thousand returns 1,000 clusters in five situations.
func thousand(t testing.TB) *destination.Input {
	t.Helper()
	in := &destination.Input{Policies: []destination.Policy{policy(t, "all", "app=a", "env=prod")}}
	for n := range 30 {
		before, after := crd("app=a", "v1:region", "v2:region"), crd("app=a", "v1:region,size", "v2:region,size")
		for _, c := range []*destination.CRD{before, after} {
			c.Spec.Names.Plural = fmt.Sprintf("buckets%d", n)
			c.Name = c.Spec.Names.Plural + ".example.org"
		}
		in.Changes = append(in.Changes, destination.Change{Package: pkg, Before: before, After: after})
		for k := range 10 {
			o := object(t, "v1", "app=a", "region=eu")
			o.Ref.Resource, o.Ref.Name = before.Spec.Names.Plural, fmt.Sprint("b", k)
			in.Resources = append(in.Resources, o)
		}
	}
	for n := range 1000 {
		c := destination.Cluster{Name: fmt.Sprintf("c%04d", n), Labels: parse("env=prod"), Stored: map[string][]string{}}
		for _, change := range in.Changes {
			c.Stored[change.Before.Name] = [][]string{{"v1"}, {"v2"}, {"v1", "v2"}, nil, {"v2", "v1"}}[n%5]
		}
		in.Clusters = append(in.Clusters, c)
	}
	return in
}

// TestThousandDestinations: cost follows situations, not clusters.
func TestThousandDestinations(t *testing.T) {
	result := evaluate(t, thousand(t))
	if result.Situations != 5 || len(result.Destinations) != 1000 {
		t.Errorf("%d validations for %d destinations, want 5 for 1000", result.Situations, len(result.Destinations))
	}
}

func BenchmarkThousandDestinations(b *testing.B) {
	in := thousand(b)
	for b.Loop() {
		evaluate(b, in)
	}
}

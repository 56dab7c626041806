package foresight

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/controller/packages/bindings"
	"github.com/starlinghq/starling/pkg/controller/packages/clusterrepositories"
	"github.com/starlinghq/starling/pkg/controller/packages/variants"
	"github.com/starlinghq/starling/pkg/controller/packages/variantsets"
	"github.com/starlinghq/starling/pkg/foresight/cli"
	"github.com/starlinghq/starling/pkg/packages/informers"
	"github.com/starlinghq/starling/pkg/writer"
	"github.com/starlinghq/starling/test/testenv"
)

const packagesNamespace = "default"

// newPackagesHub returns a hub with a package-server and the controllers of Repositories and
// Bindings of packages.
func newPackagesHub(t *testing.T) *hub {
	t.Helper()
	fleet := testenv.Start(t, testenv.Options{Spaces: []string{"its1", "wds1"}, Packages: true})
	prepare(t, fleet)
	h := newHubOf(t, fleet).in(packagesNamespace)
	watch := must[*informers.Informers](t)(informers.New(h.wds.Config))
	ofPackages := must[*informers.Bindings](t)(informers.NewBindings(h.wds.Config))
	write := must[*writer.Writer](t)(writer.New(h.wds.Config, "wds1", "test"))
	read := must[*informers.Reader](t)(informers.NewReader(h.wds.Config))
	found := clusters.New(clusters.ITS{Name: "its1", Connect: func(context.Context) (clusters.Source, error) { return clusters.NewSource(h.its.Config) }})
	repositories := must[*clusterrepositories.Controller](t)(clusterrepositories.New(clusterrepositories.Config{
		Watch: watch, Inventory: found, Namespaces: []string{packagesNamespace}, Writer: write, Empty: read.Empty, Clock: clock.RealClock{},
	}))
	deployed := must[*bindings.Controller](t)(bindings.New(bindings.Config{
		Watch: watch, Bindings: ofPackages, Inventory: found, Namespaces: []string{packagesNamespace}, Writer: write, Reader: read,
		Events: events.NewFakeRecorder(10_000), Clock: clock.RealClock{},
	}))
	sets := must[*variantsets.Controller](t)(variantsets.New(variantsets.Config{WDS: h.wds.Config, WDSName: "wds1", Watch: watch, Clusters: found}))
	followers := must[*variants.Controller](t)(variants.New(variants.Config{WDS: h.wds.Config, WDSName: "wds1", Watch: watch, Events: events.NewFakeRecorder(10_000)}))
	testenv.Run(t, watch.Run, func(ctx context.Context) error { ofPackages.Informer.RunWithContext(ctx); return nil }, found.Run,
		testenv.Workers(repositories.Run, 2), testenv.Workers(deployed.Run, 2), testenv.Workers(sets.Run, 2), testenv.Workers(followers.Run, 2))
	testenv.Ready(t, repositories.Ready, deployed.Ready, sets.Ready, followers.Ready)
	return h
}

func (h *hub) revisions() dynamic.ResourceInterface {
	return h.wds.Client.Resource(porchv1alpha1.ResourcePackageRevisions).Namespace(packagesNamespace)
}

// draft creates a draft of a package that has these files besides those of its source.
func (h *hub) draft(t *testing.T, repository, workspace, source string, files map[string]any) (name string) {
	t.Helper()
	task := map[string]any{"type": "init", "init": map[string]any{}}
	if source != "" {
		task = map[string]any{"type": "edit", "edit": map[string]any{"sourceRef": map[string]any{"name": source}}}
	}
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "porch.kpt.dev/v1alpha1", "kind": "PackageRevision",
		"spec": map[string]any{"repository": repository, "packageName": "web", "workspaceName": workspace, "tasks": []any{task}},
	}}
	made := must[*unstructured.Unstructured](t)(h.revisions().Create(t.Context(), o, metav1.CreateOptions{}))
	resources := h.wds.Client.Resource(porchv1alpha1.ResourcePackageRevisionResources).Namespace(packagesNamespace)
	content := must[*unstructured.Unstructured](t)(resources.Get(t.Context(), made.GetName(), metav1.GetOptions{}))
	all, _, _ := unstructured.NestedMap(content.Object, "spec", "resources")
	for file, text := range files {
		if all[file] = text; text == nil {
			delete(all, file)
		}
	}
	if err := unstructured.SetNestedMap(content.Object, all, "spec", "resources"); err != nil {
		t.Fatal(err)
	}
	must[*unstructured.Unstructured](t)(resources.Update(t.Context(), content, metav1.UpdateOptions{}))
	return made.GetName()
}

// move changes the lifecycle of a revision.
func (h *hub) move(t *testing.T, name, lifecycle string, subresources ...string) {
	t.Helper()
	o := must[*unstructured.Unstructured](t)(h.revisions().Get(t.Context(), name, metav1.GetOptions{}))
	if err := unstructured.SetNestedField(o.Object, lifecycle, "spec", "lifecycle"); err != nil {
		t.Fatal(err)
	}
	must[*unstructured.Unstructured](t)(h.revisions().Update(t.Context(), o, metav1.UpdateOptions{}, subresources...))
}

// cluster creates a cluster, and waits for its Repository.
func (h *hub) cluster(t *testing.T, name, site string) {
	t.Helper()
	h.its.Apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: "+name+"}}")
	h.its.Apply(t, "{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: "+name+", labels: {site: "+site+"}}, spec: {hubAcceptsClient: true}}")
	repositories := h.wds.Client.Resource(configv1alpha1.Repositories).Namespace(packagesNamespace)
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		return testenv.Get[configv1alpha1.Repository](t, repositories, name) != nil, "cluster " + name + " has no Repository"
	})
}

// TestApprovalIsWhatHappens plans approvals and makes each of them then: the mailbox of the cluster
// changes just as the plan said, and the revision gets the number of the plan.
func TestApprovalIsWhatHappens(t *testing.T) {
	h := newPackagesHub(t)
	h.cluster(t, "c1", "edge")
	h.wds.Apply(t, "{apiVersion: config.porch.kpt.dev/v1alpha1, kind: Repository, metadata: {name: catalog, namespace: default}, spec: {}}")
	config := "{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: web}, data: {color: %s}}\n"
	before := h.draft(t, "c1", "v1", "", map[string]any{
		"namespace.yaml": "{apiVersion: v1, kind: Namespace, metadata: {name: web}}\n", "a.yaml": fmt.Sprintf(config, "a", "red"), "b.yaml": fmt.Sprintf(config, "b", "red"),
	})
	h.refuses(t, before, "only Proposed packages can be approved")
	h.approve(t, before, "1", map[string]string{"c1 Namespace web": "create", "c1 ConfigMap web/a": "create", "c1 ConfigMap web/b": "create"})
	next := h.draft(t, "c1", "v2", before, map[string]any{"a.yaml": fmt.Sprintf(config, "a", "blue"), "b.yaml": nil, "c.yaml": fmt.Sprintf(config, "c", "red")})
	h.approve(t, next, "2", map[string]string{"c1 ConfigMap web/a": "update", "c1 ConfigMap web/b": "delete", "c1 ConfigMap web/c": "create"})
	h.approve(t, h.draft(t, "c1", "v3", next, map[string]any{"README.md": "nothing else"}), "3", map[string]string{})
	h.approve(t, h.draft(t, "catalog", "v1", "", map[string]any{"a.yaml": fmt.Sprintf(config, "d", "red")}), "1", map[string]string{})

	gated := h.draft(t, "c1", "v4", next, nil)
	h.move(t, gated, "Proposed")
	h.wds.Patch(t, storev1alpha1.PackageRevisions, packagesNamespace, gated, `{"spec":{"readinessGates":[{"conditionType":"example.org/Tested"}]}}`)
	h.refuses(t, gated, "readiness gates that are not met: example.org/Tested (no such condition)")
	h.showsNothingUnread(t, h.draft(t, "c1", "secret", next, map[string]any{"a.yaml": fmt.Sprintf(config, "a", "geheim")}))

	// An object that a policy delivers to the cluster is in conflict with the one of the package.
	settings := fmt.Sprintf(settingsText, "red")
	h.applyAll(t, "{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {app: shop}}}\n---\n"+settings+"\n---\n"+edge)
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		_, is := h.delivered(t)["c1 ConfigMap shop/settings"]
		return is, "the policy delivers nothing"
	})
	contested := h.draft(t, "c1", "v5", next, map[string]any{"settings.yaml": strings.ReplaceAll(settings, "red", "blue")})
	h.move(t, contested, "Proposed")
	plan, _ := h.plan(t, "--approve", contested)
	if plan.Total.Conflicts != 1 || len(plan.Groups) != 1 || !strings.HasPrefix(plan.Groups[0].Items[0].Why, `Binding "edge" delivers it with different content`) {
		t.Errorf("want a conflict with the policy: %+v", plan)
	}
	if out, code := h.run(t, "--approve", "none"); code != 1 || out != "" {
		t.Errorf("a revision that does not exist: exit code %d, output %q", code, out)
	}
}

// showsNothingUnread expects that a user who may read revisions, and not what is in them, sees that
// an approval would be delivered, that this user may not approve, and no content.
func (h *hub) showsNothingUnread(t *testing.T, revision string) {
	t.Helper()
	h.wds.Apply(t, `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: ann}, rules: [
		{apiGroups: [control.kubestellar.io], resources: ["*"], verbs: [get, list]},
		{apiGroups: [porch.kpt.dev], resources: [packagerevisions], verbs: [get, list]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: ann}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: ann},
	subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ann}]}`)
	h.move(t, revision, "Proposed")
	ann := *h
	ann.user = "ann"
	plan, code := ann.plan(t, "--approve", revision)
	if code != 3 || len(plan.Approvals) != 1 || plan.Approvals[0].After != "4" || plan.Approvals[0].Before != "3" || len(plan.Groups)+len(plan.Sets) > 0 {
		t.Errorf("exit code %d, want that revision 4 is delivered, and no objects: %+v", code, plan)
	}
	if want := "you may not approve " + revision; len(plan.Notes) != 2 || !strings.HasPrefix(plan.Notes[0], want) || !strings.HasPrefix(plan.Notes[1], "not read, and without effect on this change: ") {
		t.Errorf("notes %q, want %q", plan.Notes, want)
	}
	for _, want := range []string{
		"what changes in cluster c1: you may not get packagerevisionresources", "what happens to PackageVariants of namespace default: you may not list packagevariantsets",
	} {
		if !slices.ContainsFunc(plan.Unknown, func(unknown string) bool { return strings.HasPrefix(unknown, want) }) {
			t.Errorf("unknown %q, want %q", plan.Unknown, want)
		}
	}
	if out, _ := ann.run(t, "--approve", revision, "-o", "wide"); strings.Contains(out, "geheim") {
		t.Errorf("content that may not be read: %s", out)
	}
}

// refuses expects that a plan says that an approval is refused.
func (h *hub) refuses(t *testing.T, revision, why string) {
	t.Helper()
	plan, code := h.plan(t, "--approve", revision)
	if code != 0 || len(plan.Approvals) != 1 || !strings.Contains(plan.Approvals[0].Revisions[0].Refused, why) || len(plan.Groups) > 0 {
		t.Errorf("exit code %d, want an approval that is refused with %q: %+v", code, why, plan)
	}
	if _, code := h.run(t, "--approve", revision, "--fail-on=error"); code != 1 {
		t.Errorf("exit code %d with --fail-on=error, want 1", code)
	}
}

// approve proposes a revision, plans its approval, which is to change copies like this, and
// approves it.
func (h *hub) approve(t *testing.T, revision, version string, want map[string]string) {
	t.Helper()
	h.move(t, revision, "Proposed")
	before := h.delivered(t)
	plan, code := h.plan(t, "--approve", revision)
	if diff := cmp.Diff(want, forecast(plan)); diff != "" || code != 2 {
		t.Fatalf("%s: exit code %d, the plan (-want +got):\n%s", revision, code, diff)
	}
	if len(plan.Approvals) != 1 || plan.Approvals[0].Revisions[0].Version != version || len(plan.Unknown)+len(plan.Notes) > 0 {
		t.Errorf("%s: approvals %+v, unknown %q, notes %q", revision, plan.Approvals, plan.Unknown, plan.Notes)
	}
	h.move(t, revision, "Published", "approval")
	made := testenv.Get[porchv1alpha1.PackageRevision](t, h.revisions(), revision)
	if fmt.Sprint(made.Spec.Revision) != version {
		t.Errorf("%s: revision %d, want %s", revision, made.Spec.Revision, version)
	}
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		diff := cmp.Diff(want, testenv.Changed(before, h.delivered(t)))
		return diff == "", fmt.Sprintf("%s: the plan (-), what happened (+):\n%s", revision, diff)
	})
}

// packages describes the PackageVariants, whether they are up to date, and the revisions with their
// lifecycles.
func (h *hub) packages(t *testing.T) (found map[string]string, settled bool) {
	t.Helper()
	found, settled = map[string]string{}, true
	for _, pv := range testenv.List[configv1alpha1.PackageVariant](t, h.wds.Client.Resource(configv1alpha1.PackageVariants).Namespace(packagesNamespace), metav1.ListOptions{}) {
		found["PackageVariant "+pv.Name] = ""
		settled = settled && meta.IsStatusConditionTrue(pv.Status.Conditions, configv1alpha1.ConditionReady)
	}
	for _, r := range testenv.List[porchv1alpha1.PackageRevision](t, h.revisions(), metav1.ListOptions{}) {
		found["PackageRevision "+r.Name] = string(r.Spec.Lifecycle)
	}
	return found, settled
}

// drafted returns what a plan says of sets, in the same form: verbs of PackageVariants, and new
// drafts.
func drafted(plan *cli.Plan) map[string]string {
	found := map[string]string{}
	for i := range plan.Sets {
		for _, v := range plan.Sets[i].Variants {
			if v.Verb == "create" || v.Verb == "delete" {
				found["PackageVariant "+v.Name] = string(v.Verb)
			}
		}
		for _, draft := range plan.Sets[i].Drafts {
			found["PackageRevision "+draft] = "create"
		}
	}
	return found
}

// TestSetsAreWhatHappens plans changes of a set, of what it selects, and of its upstream, and makes
// each of them then: there are the PackageVariants and drafts of the plan.
func TestSetsAreWhatHappens(t *testing.T) {
	h := newPackagesHub(t)
	h.cluster(t, "c1", "edge")
	h.cluster(t, "c2", "core")
	h.wds.Apply(t, "{apiVersion: config.porch.kpt.dev/v1alpha1, kind: Repository, metadata: {name: catalog, namespace: default}, spec: {}}")
	publish := func(name string) {
		h.move(t, name, "Proposed")
		h.move(t, name, "Published", "approval")
	}
	first := h.draft(t, "catalog", "v1", "", map[string]any{"a.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: web}, data: {color: red}}\n"})
	publish(first)
	set := `{apiVersion: config.porch.kpt.dev/v1alpha2, kind: PackageVariantSet, metadata: {name: web, namespace: default}, spec: {
		upstream: {repo: catalog, package: web, revision: latest}, targets: [%s]}}`
	apply := func(text string) func() ([]string, func()) {
		return func() ([]string, func()) { return []string{"-f", file(t, text)}, func() { h.applyAll(t, text) } }
	}
	steps := []struct {
		name   string
		change func() (args []string, do func())
		want   int
	}{
		{"ASet", apply(fmt.Sprintf(set, "{repositorySelector: {matchLabels: {site: edge}}}")), 2},
		{"TheSameAgain", apply(fmt.Sprintf(set, "{repositorySelector: {matchLabels: {site: edge}}}")), 0},
		{"ALabelOfACluster", func() ([]string, func()) {
			return []string{"--label", "cluster/c2=site=edge"}, func() { h.its.Patch(t, managedClusters, "", "c2", `{"metadata":{"labels":{"site":"edge"}}}`) }
		}, 2},
		{"AnApprovalOfTheUpstream", func() ([]string, func()) { // the package of c1 is published, that of c2 is a draft
			for _, r := range testenv.List[porchv1alpha1.PackageRevision](t, h.revisions(), metav1.ListOptions{FieldSelector: "spec.repository=c1"}) {
				publish(r.Name)
			}
			h.settle(t)
			next := h.draft(t, "catalog", "v2", first, map[string]any{"b.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: web}, data: {color: red}}\n"})
			h.move(t, next, "Proposed")
			return []string{"--approve", next}, func() { h.move(t, next, "Published", "approval") }
		}, 1},
		{"AMistake", apply(fmt.Sprintf(set, "{repositories: [{name: c1}, {name: ''}]}")), 0},
		{"AnotherTarget", apply(fmt.Sprintf(set, "{repositories: [{name: c1}]}")), 1},
		{"TheSetIsDeleted", func() ([]string, func()) {
			return []string{"--delete", "packagevariantset/web"}, func() { h.wds.Delete(t, configv1alpha2.PackageVariantSets, packagesNamespace, "web") }
		}, 1},
	}
	for _, step := range steps {
		h.settle(t)
		args, do := step.change()
		before, _ := h.packages(t)
		plan, _ := h.plan(t, args...)
		want := drafted(plan)
		if len(want) != step.want || len(plan.Unknown) > 0 {
			t.Fatalf("%s: want %d changes, and nothing unknown: %v, unknown %q, sets %+v", step.name, step.want, want, plan.Unknown, plan.Sets)
		}
		do()
		testenv.Eventually(t, testenv.Patience, func() (bool, string) {
			after, _ := h.packages(t)
			got := map[string]string{}
			for name := range after {
				if _, had := before[name]; !had {
					got[name] = "create"
				}
			}
			for name := range before {
				if _, has := after[name]; !has && strings.HasPrefix(name, "PackageVariant ") {
					got[name] = "delete"
				}
			}
			diff := cmp.Diff(want, got)
			return diff == "", fmt.Sprintf("%s: the plan (-), what happened (+):\n%s", step.name, diff)
		})
	}
}

// settle waits until all PackageVariants are up to date.
func (h *hub) settle(t *testing.T) {
	t.Helper()
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		found, settled := h.packages(t)
		return settled, fmt.Sprintf("some PackageVariants are not up to date: %v", found)
	})
}

package variants

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/test/testenv"
)

// lifecycles waits until the revisions of a package are at these points, sorted by their names'
// order of creation not mattering.
func (e *environment) lifecycles(t *testing.T, pkg string, want map[porchv1alpha1.PackageRevisionLifecycle]int) map[string]*porchv1alpha1.PackageRevision {
	t.Helper()
	var all map[string]*porchv1alpha1.PackageRevision
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		all = e.list(t, "edge", pkg)
		got := map[porchv1alpha1.PackageRevisionLifecycle]int{}
		for _, pr := range all {
			got[pr.Spec.Lifecycle]++
		}
		return fmt.Sprint(got) == fmt.Sprint(want), fmt.Sprintf("%s has %v, want %v", pkg, got, want)
	})
	return all
}

func (e *environment) delete(t *testing.T, name string) {
	t.Helper()
	e.deleteAs(t, name, metav1.DeletePropagationBackground)
}

func (e *environment) deleteAs(t *testing.T, name string, propagation metav1.DeletionPropagation) {
	t.Helper()
	if err := e.variants().Delete(t.Context(), name, metav1.DeleteOptions{PropagationPolicy: &propagation}); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		obj, err := e.variants().Get(t.Context(), name, metav1.GetOptions{})
		if err == nil {
			return false, fmt.Sprintf("%s is still there: %v", name, obj.Object["status"])
		}
		return apierrors.IsNotFound(err), err.Error()
	})
}

func owners(all map[string]*porchv1alpha1.PackageRevision) string {
	var names []string
	for _, pr := range all {
		for _, o := range pr.OwnerReferences {
			names = append(names, o.Name)
		}
	}
	return strings.Join(names, ",")
}

// TestDeletion: what becomes of a package with its PackageVariant, by policy; and that one of the
// same name takes back what the other proposed for deletion.
func TestDeletion(t *testing.T) {
	e := newEnvironment(t)
	e.run(t)
	v1 := e.publish(t, "catalog", "web", "v1", "", map[string]string{"a.yaml": configMap("a", "upstream", "one")})
	for _, policy := range []string{"delete", "orphan"} {
		e.create(t, variantText(policy, "package: web, revision: latest", policy, "deletionPolicy: "+policy))
		e.ready(t, policy, v1, configv1alpha1.VariantDraft)
		e.move(t, e.only(t, "edge", policy, draft).Name, published)
	}
	v2 := e.publish(t, "catalog", "web", "v2", v1, map[string]string{"a.yaml": configMap("a", "upstream", "two")})
	for _, policy := range []string{"delete", "orphan"} {
		e.ready(t, policy, v2, configv1alpha1.VariantDraft)
		e.delete(t, policy)
	}
	left := e.lifecycles(t, "delete", map[porchv1alpha1.PackageRevisionLifecycle]int{deletion: 1})
	if o := owners(left); o != "" {
		t.Errorf("what is proposed for deletion is owned by %s, and would go without being asked", o)
	}
	left = e.lifecycles(t, "orphan", map[porchv1alpha1.PackageRevisionLifecycle]int{published: 1, draft: 1})
	if o := owners(left); o != "" {
		t.Errorf("orphans are owned by %s", o)
	}

	// Again.
	e.create(t, variantText("delete", "package: web, revision: latest", "delete", ""))
	e.ready(t, "delete", v2, configv1alpha1.VariantDraft)
	back := e.lifecycles(t, "delete", map[porchv1alpha1.PackageRevisionLifecycle]int{published: 1, draft: 1})
	if o := owners(back); o != "delete,delete" {
		t.Errorf("owners: %s", o)
	}
	// The orphans are another's, until they are adopted.
	e.create(t, variantText("orphan", "package: web, revision: latest", "orphan", ""))
	if text := e.condition(t, "orphan", configv1alpha1.ConditionReady, configv1alpha1.ReasonDownstreamExists); !strings.Contains(text, "adoptExisting") {
		t.Errorf("what to do: %s", text)
	}
	e.replace(t, variantText("orphan", "package: web, revision: latest", "orphan", "adoptionPolicy: adoptExisting, labels: {adopted: yes-it-is}"))
	e.ready(t, "orphan", v2, configv1alpha1.VariantDraft)
	for name, pr := range e.lifecycles(t, "orphan", map[porchv1alpha1.PackageRevisionLifecycle]int{published: 1, draft: 1}) {
		if owners(map[string]*porchv1alpha1.PackageRevision{"": pr}) != "orphan" || pr.Labels["adopted"] != "" {
			t.Errorf("%s is not adopted, or has labels for new drafts: %v %v", name, pr.OwnerReferences, pr.Labels)
		}
	}

	// Another downstream: the new one comes, then the policy deals with the old one.
	e.replace(t, variantText("orphan", "package: web, revision: latest", "moved", "adoptionPolicy: adoptExisting, deletionPolicy: delete"))
	e.ready(t, "orphan", v2, configv1alpha1.VariantDraft)
	e.lifecycles(t, "moved", map[porchv1alpha1.PackageRevisionLifecycle]int{draft: 1})
	e.lifecycles(t, "orphan", map[porchv1alpha1.PackageRevisionLifecycle]int{deletion: 1})
}

// TestDeletionKeepsWhatPeopleWrote: a draft with the content of a person stays, for a
// PackageVariant of the same name. With --cascade=orphan everything stays as it is.
func TestDeletionKeepsWhatPeopleWrote(t *testing.T) {
	e := newEnvironment(t)
	e.run(t)
	v1 := e.publish(t, "catalog", "web", "v1", "", map[string]string{"a.yaml": configMap("a", "upstream", "one")})
	for _, name := range []string{"edited", "orphan"} {
		e.create(t, variantText(name, "package: web, revision: latest", name, ""))
		e.ready(t, name, v1, configv1alpha1.VariantDraft)
		e.move(t, e.only(t, "edge", name, draft).Name, published)
	}
	v2 := e.publish(t, "catalog", "web", "v2", v1, map[string]string{"a.yaml": configMap("a", "upstream", "two")})
	for _, name := range []string{"edited", "orphan"} {
		e.ready(t, name, v2, configv1alpha1.VariantDraft)
	}
	edited := e.only(t, "edge", "edited", draft).Name
	e.edit(t, edited, map[string]string{"mine.txt": "by hand"})
	e.ready(t, "edited", v2, configv1alpha1.VariantDraft)

	e.delete(t, "edited")
	left := e.lifecycles(t, "edited", map[porchv1alpha1.PackageRevisionLifecycle]int{deletion: 1, draft: 1})
	if o := owners(left); o != "" {
		t.Errorf("owned by %s", o)
	}
	e.create(t, variantText("edited", "package: web, revision: latest", "edited", ""))
	e.ready(t, "edited", v2, configv1alpha1.VariantDraft)
	back := e.lifecycles(t, "edited", map[porchv1alpha1.PackageRevisionLifecycle]int{published: 1, draft: 1})
	if o := owners(back); o != "edited,edited" || e.files(t, edited)["mine.txt"] != "by hand" {
		t.Errorf("owned by %s; %v", o, e.files(t, edited))
	}

	e.deleteAs(t, "orphan", metav1.DeletePropagationOrphan)
	orphans := e.lifecycles(t, "orphan", map[porchv1alpha1.PackageRevisionLifecycle]int{published: 1, draft: 1})
	if o := owners(orphans); o != "" {
		t.Errorf("orphans are owned by %s", o)
	}
}

// TestTwoPackageVariantsOfOnePackage: the second one reports that the package belongs to the first,
// and gets it when the first is deleted.
func TestTwoPackageVariantsOfOnePackage(t *testing.T) {
	e := newEnvironment(t)
	e.run(t)
	v1 := e.publish(t, "catalog", "web", "v1", "", nil)
	e.create(t, variantText("first", "package: web, revision: 1", "web", ""))
	e.ready(t, "first", v1, configv1alpha1.VariantDraft)
	e.create(t, variantText("second", "package: web, revision: 1", "web", "adoptionPolicy: adoptExisting"))
	if text := e.condition(t, "second", configv1alpha1.ConditionReady, configv1alpha1.ReasonDownstreamExists); !strings.Contains(text, "first") {
		t.Errorf("whose is it: %s", text)
	}
	e.delete(t, "first")
	e.ready(t, "second", v1, configv1alpha1.VariantDraft)
	if o := owners(e.list(t, "edge", "web")); o != "second" {
		t.Errorf("owners: %s", o)
	}
}

// TestUpstreamByTag: a package follows a tag that is moved. A tag without a revision is reported.
func TestUpstreamByTag(t *testing.T) {
	e := newEnvironment(t)
	e.run(t)
	tag := func(name, value string) {
		if _, err := e.revisions().Patch(t.Context(), name, "application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"labels":{"tag.starling.io/stable":%s}}}`, value), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	v1 := e.publish(t, "catalog", "web", "v1", "", map[string]string{"a.yaml": configMap("a", "upstream", "one")})
	v2 := e.publish(t, "catalog", "web", "v2", v1, map[string]string{"a.yaml": configMap("a", "upstream", "two")})
	e.create(t, variantText("web", "package: web, tag: stable", "web", ""))
	if text := e.condition(t, "web", configv1alpha1.ConditionStalled, configv1alpha1.ReasonUpstreamNotFound); !strings.Contains(text, "stable") {
		t.Errorf("what is missing: %s", text)
	}
	tag(v1, `"yes"`)
	e.ready(t, "web", v1, configv1alpha1.VariantDraft)
	tag(v2, `"yes"`)
	tag(v1, "null")
	e.ready(t, "web", v2, configv1alpha1.VariantDraft)
	if files := e.files(t, e.only(t, "edge", "web", draft).Name); !strings.Contains(files["a.yaml"], "two") {
		t.Errorf("files: %v", files)
	}
}

// TestUpstreamDeleted: a package stays when its upstream is deleted, and reports it.
func TestUpstreamDeleted(t *testing.T) {
	e := newEnvironment(t)
	e.run(t)
	v1 := e.publish(t, "catalog", "web", "v1", "", nil)
	e.create(t, variantText("early", "package: absent, revision: 1", "early", ""))
	e.condition(t, "early", configv1alpha1.ConditionStalled, configv1alpha1.ReasonUpstreamNotFound)
	name := e.draft(t, "catalog", "absent", "v1", "", nil)
	e.replace(t, variantText("early", "package: absent, workspaceName: v1", "early", ""))
	e.condition(t, "early", configv1alpha1.ConditionStalled, configv1alpha1.ReasonUpstreamNotPublished)
	e.move(t, name, published)
	e.ready(t, "early", name, configv1alpha1.VariantDraft)

	e.create(t, variantText("web", "package: web, revision: latest", "web", ""))
	e.ready(t, "web", v1, configv1alpha1.VariantDraft)
	down := e.only(t, "edge", "web", draft)
	e.move(t, v1, deletion)
	err := e.revisions().Delete(t.Context(), v1, metav1.DeleteOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), down.Name) {
		t.Errorf("an upstream that is used is deleted: %v", err)
	}
	// Its owner insists: what was made goes its own way, and then the upstream goes.
	e.edit(t, down.Name, map[string]string{"Kptfile": withoutUpstream(t, e.files(t, down.Name)["Kptfile"])})
	if err := e.revisions().Delete(t.Context(), v1, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e.condition(t, "web", configv1alpha1.ConditionStalled, configv1alpha1.ReasonUpstreamNotFound)
	if again := e.only(t, "edge", "web", draft); again.UID != down.UID {
		t.Errorf("the draft is another")
	}
	e.quiet(t)
	e.traffic.Reset()
	e.quiet(t)
	if all := e.traffic.Written(""); len(all) > 0 {
		t.Errorf("it writes on and on: %q", all)
	}
}

// withoutUpstream returns a Kptfile without its upstream.
func withoutUpstream(t *testing.T, text string) string {
	t.Helper()
	from, to := strings.Index(text, "\nupstream:"), strings.Index(text, "\nstatus:")
	if from < 0 || to < from {
		t.Fatalf("no upstream in\n%s", text)
	}
	return text[:from] + text[to:]
}

// TestInjectedObjects: an object that changes is injected again, into a draft, or into a new draft
// of a published revision; a proposed revision waits. Kinds may be added and deleted. Objects of
// other namespaces, cluster-scoped objects and Secrets are not read.
func TestInjectedObjects(t *testing.T) {
	e := newEnvironment(t)
	e.run(t)
	point := func(apiVersion, kind string) map[string]string {
		return map[string]string{"point.yaml": fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata:\n  name: point\n  annotations: {kpt.dev/config-injection: required}\nspec: {}\n", apiVersion, kind)}
	}
	crd := func(group, kind, scope string) string {
		plural := strings.ToLower(kind) + "s"
		if kind == "ClusterSettings" {
			plural = "clustersettings"
		}
		return fmt.Sprintf(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: %[1]s.%[2]s}, spec: {group: %[2]s, scope: %[4]s,
			names: {kind: %[3]s, plural: %[1]s}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}`,
			plural, group, kind, scope)
	}
	v1 := e.publish(t, "catalog", "web", "v1", "", point("inject.example.com/v1", "Endpoint"))
	e.create(t, variantText("web", "package: web, revision: 1", "web", "injectors: [{name: north}]"))
	e.ready(t, "web", v1, configv1alpha1.VariantDraft)
	down := e.only(t, "edge", "web", draft)
	gate := func(name, status, text string) {
		t.Helper()
		testenv.Eventually(t, testenv.Patience, func() (bool, string) {
			obj, err := e.revisions().Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return false, err.Error()
			}
			for _, c := range testenv.Into[porchv1alpha1.PackageRevision](t, obj).Status.Conditions {
				if strings.HasPrefix(c.Type, "config.injection.") && strings.HasSuffix(c.Type, ".point") {
					return string(c.Status) == status && strings.Contains(c.Message, text), fmt.Sprintf("%v; want %s: %s", c, status, text)
				}
			}
			return false, "no condition of an injection point"
		})
	}
	contains := func(name, text string) {
		t.Helper()
		testenv.Eventually(t, testenv.Patience, func() (bool, string) {
			got := e.files(t, name)["point.yaml"]
			return strings.Contains(got, text), got
		})
	}
	gate(down.Name, "False", "no in-cluster resources of type inject.example.com/v1.Endpoint")
	e.create(t, crd("inject.example.com", "Endpoint", "Namespaced"))
	t.Cleanup(func() { testenv.DeleteKind(t, e.client, "endpoints.inject.example.com") })
	gate(down.Name, "False", "no resource matched")
	e.create(t, "{apiVersion: inject.example.com/v1, kind: Endpoint, metadata: {name: north}, spec: {ip: 10.0.0.1}}")
	gate(down.Name, "True", "north")
	contains(down.Name, "ip: 10.0.0.1")
	e.replace(t, "{apiVersion: inject.example.com/v1, kind: Endpoint, metadata: {name: north}, spec: {ip: 10.0.0.2}}")
	contains(down.Name, "ip: 10.0.0.2")
	e.ready(t, "web", v1, configv1alpha1.VariantDraft)

	e.move(t, down.Name, proposed)
	e.replace(t, "{apiVersion: inject.example.com/v1, kind: Endpoint, metadata: {name: north}, spec: {ip: 10.0.0.3}}")
	e.condition(t, "web", configv1alpha1.ConditionReady, configv1alpha1.ReasonWaitingForApproval)
	e.move(t, down.Name, published)
	e.ready(t, "web", v1, configv1alpha1.VariantDraft)
	next := e.only(t, "edge", "web", draft)
	contains(next.Name, "ip: 10.0.0.3")
	contains(down.Name, "ip: 10.0.0.2")

	// The object goes, and then its kind: what was injected stays, and the gate is closed.
	if err := e.of(testenv.Parse(t, "{apiVersion: inject.example.com/v1, kind: Endpoint, metadata: {name: north}}")).Delete(t.Context(), "north", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	gate(next.Name, "False", "no resource matched")
	contains(next.Name, "ip: 10.0.0.3")
	testenv.DeleteKind(t, e.client, "endpoints.inject.example.com")
	gate(next.Name, "False", "no in-cluster resources of type")

	// What may not be read.
	e.create(t, crd("inject.example.com", "ClusterSettings", "Cluster"))
	t.Cleanup(func() { testenv.DeleteKind(t, e.client, "clustersettings.inject.example.com") })
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		obj := testenv.Parse(t, "{apiVersion: inject.example.com/v1, kind: ClusterSettings, metadata: {name: global}, spec: {password: hush}}")
		_, err := e.of(obj).Create(t.Context(), obj, metav1.CreateOptions{})
		return err == nil, fmt.Sprint(err)
	})
	e.create(t, "{apiVersion: v1, kind: Secret, metadata: {name: global}, stringData: {password: hush}}")
	e.create(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: global}, data: {a: b}}")
	for pkg, files := range map[string]map[string]string{"settings": point("inject.example.com/v1", "ClusterSettings"), "secret": point("v1", "Secret")} {
		files["rest.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: rest\n  annotations: {kpt.dev/config-injection: optional}\n"
		upstream := e.publish(t, "catalog", pkg, "v1", "", files)
		e.create(t, variantText(pkg, "package: "+pkg+", revision: 1", pkg, "injectors: [{name: global}]"))
		e.ready(t, pkg, upstream, configv1alpha1.VariantDraft)
		made := e.only(t, "edge", pkg, draft)
		for _, c := range made.Status.Conditions {
			if c.Type == configv1alpha1.ConditionPVOperationsComplete && c.Status != porchv1alpha1.ConditionTrue {
				t.Errorf("%s: %v", pkg, c)
			}
		}
		gate(made.Name, "False", "are not injected: ")
		if files := asText(t, e.files(t, made.Name)); strings.Contains(files, "hush") || !strings.Contains(files, "kpt.dev/injected-resource-name: 'global'") {
			t.Errorf("%s: %s", pkg, files)
		}
	}
}

// TestInvalidPackageVariant: all errors are reported at once, each with its field. A corrected
// object works.
func TestInvalidPackageVariant(t *testing.T) {
	e := newEnvironment(t)
	e.run(t)
	v1 := e.publish(t, "catalog", "web", "v1", "", nil)
	e.create(t, `{apiVersion: config.porch.kpt.dev/v1alpha1, kind: PackageVariant, metadata: {name: wrong, annotations: {approval.nephio.org/policy: sometimes}}, spec: {
		upstream: {repo: catalog, revision: vX, tag: "a b"}, downstream: {package: "Up/per"}, adoptionPolicy: maybe, deletionPolicy: perhaps,
		packageContext: {data: {name: x, "no key": "y"}, removeKeys: [package-path]}, injectors: [{name: ""}], labels: {"bad key": x},
		pipeline: {mutators: [{exec: /bin/sh}, {}]}}}`)
	text := e.condition(t, "wrong", configv1alpha1.ConditionStalled, configv1alpha1.ReasonValidationError)
	for _, field := range []string{
		"missing required field spec.upstream.package", "missing required field spec.downstream.repo", "spec.downstream.package: Invalid value",
		"spec.adoptionPolicy field can only be", "spec.deletionPolicy can only be", `must not contain the key "name"`, "packageContext.data: Invalid value",
		`must not contain the key "package-path"`, "spec.injectors[0].name must not be empty", "spec.upstream.revision: Invalid value", "spec.upstream.tag",
		"spec.labels", "spec.pipeline.mutators[0].exec: Forbidden", "spec.pipeline.mutators[1].image must not be empty",
		"metadata.annotations[approval.nephio.org/policy]: Unsupported value",
	} {
		if !strings.Contains(text, field) {
			t.Errorf("%q is not in\n%s", field, text)
		}
	}
	e.create(t, `{apiVersion: config.porch.kpt.dev/v1alpha1, kind: PackageVariant, metadata: {name: nowhere}, spec: {
		upstream: {repo: catalog, package: web, revision: 1}, downstream: {repo: nowhere, package: web}}}`)
	if text := e.condition(t, "nowhere", configv1alpha1.ConditionReady, configv1alpha1.ReasonError); !strings.Contains(text, `repository "nowhere"`) {
		t.Errorf("no Repository: %s", text)
	}
	e.create(t, "{apiVersion: config.porch.kpt.dev/v1alpha1, kind: Repository, metadata: {name: nowhere}}")
	e.ready(t, "nowhere", v1, configv1alpha1.VariantDraft)
}

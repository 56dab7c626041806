package variants

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/controller/packages/variantsets"
	"github.com/starlinghq/starling/pkg/packages/informers"
	"github.com/starlinghq/starling/test/testenv"
)

// as returns a client of a user who has ClusterRoles in the test's namespace, and no other right.
func (e *environment) as(t *testing.T, user string, roles ...string) dynamic.Interface {
	t.Helper()
	for i, role := range roles {
		e.create(t, fmt.Sprintf(`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: %s-%d},
			roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %q}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %s}]}`, user, i, role, user))
	}
	config := rest.CopyConfig(e.config)
	config.Impersonate.UserName = user
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		_, err := client.Resource(configv1alpha1.PackageVariants).Namespace(e.namespace).List(t.Context(), metav1.ListOptions{})
		return err == nil, fmt.Sprint("the role has no effect yet: ", err)
	})
	return client
}

// runSets runs the controller of PackageVariantSets until the test ends.
func (e *environment) runSets(t *testing.T) {
	t.Helper()
	watch, err := informers.New(e.controllers)
	if err != nil {
		t.Fatal(err)
	}
	none := clusters.New()
	controller, err := variantsets.New(variantsets.Config{WDS: e.controllers, WDSName: wds, Watch: watch, Clusters: none})
	if err != nil {
		t.Fatal(err)
	}
	testenv.Run(t, watch.Run, none.Run, testenv.Workers(controller.Run, 2))
	testenv.Ready(t, controller.Ready)
}

// TestAuthorsOfSetsPublishNothing: who may write PackageVariantSets, and not approve, gets nothing
// published through PackageVariants that an approver has given an approval policy.
func TestAuthorsOfSetsPublishNothing(t *testing.T) {
	e := newEnvironment(t)
	e.run(t)
	e.runSets(t)
	good := e.publish(t, "catalog", "good", "v1", "", map[string]string{"a.yaml": configMap("a", "content", "good")})
	e.publish(t, "catalog", "evil", "v1", "", map[string]string{"a.yaml": configMap("a", "content", "evil")})
	mallory := e.as(t, "mallory", "starling:package-variant-author")
	lead := e.as(t, "lead", "starling:package-variant-author", "starling:package-reviewer")
	testenv.Allowed(t, e.config, true, "lead", e.approval())
	variants := func(client dynamic.Interface) dynamic.ResourceInterface {
		return client.Resource(configv1alpha1.PackageVariants).Namespace(e.namespace)
	}
	set := func(name, upstream, downstream string) *configv1alpha2.PackageVariantSet {
		t.Helper()
		obj, err := mallory.Resource(configv1alpha2.PackageVariantSets).Namespace(e.namespace).Create(t.Context(), testenv.Parse(t, fmt.Sprintf(
			"{apiVersion: config.porch.kpt.dev/v1alpha2, kind: PackageVariantSet, metadata: {name: %s}, spec: {upstream: {repo: catalog, package: %s, revision: 1}, targets: [{repositories: [{name: edge, packageNames: [%s]}]}]}}",
			name, upstream, downstream)), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return testenv.Into[configv1alpha2.PackageVariantSet](t, obj)
	}
	change := func(client dynamic.Interface, name, text string) error {
		_, err := variants(client).Patch(t.Context(), name, types.MergePatchType, []byte(text), metav1.PatchOptions{})
		return err
	}
	refused := func(what string, err error) {
		t.Helper()
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "packagerevisions/approval") {
			t.Errorf("%s: %v", what, err)
		}
	}
	problem := func(set, text string) {
		t.Helper()
		testenv.Eventually(t, testenv.Patience, func() (bool, string) {
			s := testenv.Get[configv1alpha2.PackageVariantSet](t, e.client.Resource(configv1alpha2.PackageVariantSets).Namespace(e.namespace), set)
			for _, p := range s.Status.Problems {
				if strings.Contains(p.Message, text) {
					return true, ""
				}
			}
			return false, asText(t, s.Status)
		})
	}
	// unharmed checks that a package has only what the lead has approved.
	unharmed := func(pkg string) {
		t.Helper()
		for name, pr := range e.list(t, "edge", pkg) {
			if pr.Spec.Lifecycle != published || strings.Contains(e.files(t, name)["a.yaml"], "evil") {
				t.Errorf("%s is %s:\n%s", name, pr.Spec.Lifecycle, e.files(t, name)["a.yaml"])
			}
		}
	}

	const labelled = "config.porch.kpt.dev/packagevariantset"
	for _, text := range []string{withApprovalPolicy("labelled", "always", "package: good, revision: 1", ""), withApprovalPolicy("named-edge-by-name", "always", "package: good, revision: 1", "")} {
		obj := testenv.Parse(t, strings.Replace(text, "package: named-edge-by-name", "package: by-name", 1))
		if _, err := variants(lead).Create(t.Context(), obj, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		e.ready(t, obj.GetName(), good, configv1alpha1.VariantPublished)
	}

	// The label, or the owner, makes a PackageVariant that of a set.
	theirs := set("labels", "evil", "labelled")
	problem("labels", "package edge/labelled already belongs to PackageVariant labelled")
	owner := fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"config.porch.kpt.dev/v1alpha2","kind":"PackageVariantSet","name":"labels","uid":%q,"controller":true}]}}`, theirs.UID)
	refused("label", change(mallory, "labelled", fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, labelled, theirs.UID)))
	refused("owner", change(mallory, "labelled", owner))
	if err := change(e.client, "labelled", fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, labelled, theirs.UID)); err != nil {
		t.Fatal(err)
	}
	e.quiet(t)
	unharmed("labelled")
	if err := mallory.Resource(configv1alpha2.PackageVariantSets).Namespace(e.namespace).Delete(t.Context(), "labels", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e.quiet(t)
	unharmed("labelled")

	// A set adopts a PackageVariant that has the name it would give.
	set("named", "evil", "by-name")
	problem("named", "PackageVariant named-edge-by-name has an approval policy of its own in metadata.annotations")
	e.quiet(t)
	unharmed("by-name")

	// The lead trusts what a set has made. Its author changes the template.
	set("trusted", "good", "trusted")
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		_, err := e.variants().Get(t.Context(), "trusted-edge-trusted", metav1.GetOptions{})
		return err == nil, fmt.Sprint(err)
	})
	e.ready(t, "trusted-edge-trusted", good, configv1alpha1.VariantDraft)
	if err := change(lead, "trusted-edge-trusted", `{"metadata":{"annotations":{"approval.nephio.org/policy":"always"}}}`); err != nil {
		t.Fatal(err)
	}
	if _, err := mallory.Resource(configv1alpha2.PackageVariantSets).Namespace(e.namespace).Patch(t.Context(), "trusted", types.MergePatchType,
		[]byte(`{"spec":{"upstream":{"package":"evil"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	problem("trusted", "PackageVariant trusted-edge-trusted has an approval policy of its own in metadata.annotations")
	// The set is gone, the PackageVariant stays. What it has is what the lead has seen.
	orphan := metav1.DeletePropagationOrphan
	if err := mallory.Resource(configv1alpha2.PackageVariantSets).Namespace(e.namespace).Delete(t.Context(), "trusted", metav1.DeleteOptions{PropagationPolicy: &orphan}); err != nil {
		t.Fatal(err)
	}
	e.ready(t, "trusted-edge-trusted", good, configv1alpha1.VariantPublished)
	if left := e.variant(t, "trusted-edge-trusted").OwnerReferences; len(left) > 0 {
		t.Errorf("owners %v", left)
	}
	unharmed("trusted")
}

// TestPreparedDraftsAreNotApproved: a draft that the controller has written for a spec without an
// approval policy is not approved by the policy of another PackageVariant that gets it. The
// controller creates it again.
func TestPreparedDraftsAreNotApproved(t *testing.T) {
	e := newEnvironment(t)
	e.run(t)
	good := e.publish(t, "catalog", "good", "v1", "", map[string]string{"a.yaml": configMap("a", "content", "good")})
	client := e.as(t, "mallory", "starling:package-variant-author", "starling:package-author")
	revisions := client.Resource(porchv1alpha1.ResourcePackageRevisions).Namespace(e.namespace)
	variants := client.Resource(configv1alpha1.PackageVariants).Namespace(e.namespace)
	patch := func(name, text string) {
		t.Helper()
		testenv.Eventually(t, testenv.Patience, func() (bool, string) { // the controller writes, too
			_, err := revisions.Patch(t.Context(), name, types.MergePatchType, []byte(text), metav1.PatchOptions{})
			return err == nil, fmt.Sprint(err)
		})
	}
	const evil = "pipeline: {mutators: [{image: search-replace, configMap: {by-path: data.content, put-value: evil}}]}"
	// prepared creates a PackageVariant of mallory, and returns the draft that it has.
	prepared := func(name, downstream, more string) string {
		t.Helper()
		if _, err := variants.Create(t.Context(), testenv.Parse(t, variantText(name, "package: good, revision: 1", downstream, evil+more)), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		var found string
		testenv.Eventually(t, testenv.Patience, func() (bool, string) {
			for revision, pr := range e.list(t, "edge", downstream) {
				if pr.Spec.Lifecycle == draft && strings.Contains(e.files(t, revision)["a.yaml"], "evil") {
					found = revision
				}
			}
			return found != "", "there is no draft"
		})
		return found
	}
	owner := func(name string) string {
		return fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"config.porch.kpt.dev/v1alpha1","kind":"PackageVariant","name":%q,"uid":%q,"controller":true}]}}`, name, e.variant(t, name).UID)
	}
	unharmed := func(pkg string) {
		t.Helper()
		e.quiet(t)
		for name, pr := range e.list(t, "edge", pkg) {
			if pr.Spec.Lifecycle.Published() && strings.Contains(e.files(t, name)["a.yaml"], "evil") {
				t.Errorf("%s is published:\n%s", name, e.files(t, name)["a.yaml"])
			}
		}
	}

	t.Run("GivenAnotherOwner", func(t *testing.T) {
		e.create(t, withApprovalPolicy("leads", "always", "package: good, revision: 1", ""))
		e.ready(t, "leads", good, configv1alpha1.VariantPublished)
		first := e.only(t, "edge", "leads", published).Name
		if _, err := variants.Create(t.Context(), testenv.Parse(t, variantText("given", "package: good, revision: 1", "leads", evil)), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		patch(first, owner("given"))
		var second string
		testenv.Eventually(t, testenv.Patience, func() (bool, string) {
			for name, pr := range e.list(t, "edge", "leads") {
				if pr.Spec.Lifecycle == draft && strings.Contains(e.files(t, name)["a.yaml"], "evil") {
					second = name
				}
			}
			return second != "", "there is no draft"
		})
		patch(second, owner("leads"))
		unharmed("leads")
	})
	t.Run("Adopted", func(t *testing.T) {
		prepared("orphans", "adopted", ", deletionPolicy: orphan")
		e.delete(t, "orphans")
		e.create(t, withApprovalPolicy("adopted", "always", "package: good, revision: 1", "adoptionPolicy: adoptExisting"))
		e.ready(t, "adopted", good, configv1alpha1.VariantPublished)
		unharmed("adopted")
	})
	t.Run("SaidToBeReleased", func(t *testing.T) {
		name := prepared("released", "later", ", deletionPolicy: orphan")
		e.delete(t, "released")
		patch(name, `{"metadata":{"annotations":{"starling.io/released-by":"later"}}}`)
		e.create(t, withApprovalPolicy("later", "always", "package: good, revision: 1", ""))
		e.ready(t, "later", good, configv1alpha1.VariantPublished)
		unharmed("later")
	})
	t.Run("Marked", func(t *testing.T) {
		name := prepared("unmarked", "marked", "")
		_, err := revisions.Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"starling.io/policy-of":"x"}}}`), metav1.PatchOptions{})
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "metadata.annotations[starling.io/policy-of]: only the controller of PackageVariants") {
			t.Errorf("mark: %v", err)
		}
	})
}

// TestControllerWritesForSetsOnly: the controller, which may approve, is refused by the API server
// what would publish the content of a set's author by the right of another user.
func TestControllerWritesForSetsOnly(t *testing.T) {
	e := newEnvironment(t)
	controller, err := dynamic.NewForConfig(e.controllers)
	if err != nil {
		t.Fatal(err)
	}
	const policy = "approval.nephio.org/policy"
	set := e.create(t, "{apiVersion: config.porch.kpt.dev/v1alpha2, kind: PackageVariantSet, metadata: {name: s}, spec: {upstream: {repo: catalog, package: web, revision: 1}, targets: [{repositories: [{name: edge}]}]}}").GetUID()
	for name, metadata := range map[string]string{
		"metadata": `annotations: {approval.nephio.org/policy: always}`,
		"none":     ``,
		"spec":     `labels: {in: spec}`,
		"member":   fmt.Sprintf(`ownerReferences: [{apiVersion: config.porch.kpt.dev/v1alpha2, kind: PackageVariantSet, name: s, uid: %s, controller: true}]`, set),
	} {
		more := ""
		if name == "spec" || name == "member" {
			more = "annotations: {approval.nephio.org/policy: always}"
		}
		e.create(t, strings.Replace(variantText(name, "package: web, revision: 1", name, more), "metadata: {name: "+name+"}", "metadata: {name: "+name+", "+metadata+"}", 1))
	}
	patch := func(ctx context.Context, name, text string) error {
		_, err := controller.Resource(configv1alpha1.PackageVariants).Namespace(e.namespace).Patch(ctx, name, types.MergePatchType, []byte(text),
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	// RBAC lets it update, not patch: the patches of this test are about admission.
	e.create(t, fmt.Sprintf(`{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: patches}, rules: [{apiGroups: [%s], resources: [packagevariants], verbs: [patch]}]}`, configv1alpha1.GroupName))
	e.create(t, fmt.Sprintf(`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: patches}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: patches},
		subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: %q}]}`, e.controllers.Impersonate.UserName))
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		err := patch(t.Context(), "none", `{"metadata":{"finalizers":["config.porch.kpt.dev/packagevariants"]}}`)
		return err == nil, fmt.Sprint(err)
	})
	const (
		other      = `{"spec":{"upstream":{"package":"other"}}}`
		finalizer  = `{"metadata":{"finalizers":["config.porch.kpt.dev/packagevariants"]}}`
		owned      = `{"metadata":{"ownerReferences":[{"apiVersion":"config.porch.kpt.dev/v1alpha2","kind":"PackageVariantSet","name":"%s","uid":"%s","controller":true}]}%s}`
		withPolicy = `,"spec":{"annotations":{"approval.nephio.org/policy":"always"}}`
	)
	for what, tc := range map[string]struct {
		name, patch string
		allowed     bool
	}{
		"finalizer of one with a policy":          {"metadata", finalizer, true},
		"spec of one with a policy":               {"metadata", other, false},
		"spec of one with a policy in its spec":   {"spec", other, false},
		"spec of one without":                     {"none", other, true},
		"spec of one of a set":                    {"member", other, true},
		"removal of the set's policy":             {"member", `{"spec":{"annotations":null}}`, true},
		"adoption of one with a policy":           {"metadata", fmt.Sprintf(owned, "s", "s", ""), false},
		"adoption of one with a policy in spec":   {"spec", fmt.Sprintf(owned, "s", "s", ""), false},
		"adoption of one without":                 {"none", fmt.Sprintf(owned, "s", "s", withPolicy), true},
		"adoption from another set":               {"member", fmt.Sprintf(owned, "t", "t", `,"spec":{"upstream":{"package":"other"}}`), false},
		"a policy without a set":                  {"none", `{"spec":{"annotations":{"approval.nephio.org/policy":"always"}}}`, false},
		"a policy of the PackageVariant itself":   {"none", `{"metadata":{"annotations":{"approval.nephio.org/policy":"always"}}}`, false},
		"removal of one of PackageVariant itself": {"metadata", `{"metadata":{"annotations":{"approval.nephio.org/policy":null}}}`, false},
	} {
		testenv.Eventually(t, testenv.Patience, func() (bool, string) { // a policy takes a moment to be known to the API server
			err := patch(t.Context(), tc.name, tc.patch)
			ok := err == nil && tc.allowed || apierrors.IsForbidden(err) && strings.Contains(err.Error(), policy) && !tc.allowed
			return ok, fmt.Sprintf("%s: %v", what, err)
		})
	}
}

// TestTagsAreApprovals: what moves a tag needs the right to approve: a PackageVariant that follows
// it, and has an approval policy, publishes what it selects.
func TestTagsAreApprovals(t *testing.T) {
	e := newEnvironment(t)
	v1 := e.publish(t, "catalog", "web", "v1", "", nil)
	mallory := e.author(t, "mallory").revisions()
	lead := e.as(t, "lead", "starling:package-author", "starling:package-reviewer").Resource(porchv1alpha1.ResourcePackageRevisions).Namespace(e.namespace)
	label := func(client dynamic.ResourceInterface, name, text string) error {
		_, err := client.Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"labels":`+text+`}}`), metav1.PatchOptions{})
		return err
	}
	refused := func(what string, err error) {
		t.Helper()
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `metadata.labels[tag.starling.io/stable]: only a user who may update packagerevisions/approval`) {
			t.Errorf("%s: %v", what, err)
		}
	}
	allowed := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	const stable = `{"tag.starling.io/stable":"yes"}`
	refused("tag", label(mallory, v1, stable))
	allowed("another label", label(mallory, v1, `{"team":"web"}`))
	allowed("tag, by who may approve", label(lead, v1, stable))
	allowed("the value, which has no meaning", label(mallory, v1, `{"tag.starling.io/stable":"no"}`))
	refused("removal", label(mallory, v1, `{"tag.starling.io/stable":null}`))
	draftOf := func(labels string) error {
		_, err := mallory.Create(t.Context(), testenv.Parse(t, fmt.Sprintf(`{apiVersion: porch.kpt.dev/v1alpha1, kind: PackageRevision, metadata: {labels: %s}, spec: {
			repository: catalog, packageName: web, workspaceName: v2, tasks: [{type: edit, edit: {sourceRef: {name: %s}}}]}}`, labels, v1)), metav1.CreateOptions{})
		return err
	}
	refused("a draft with a tag", draftOf("{tag.starling.io/stable: ''}"))
	allowed("a draft", draftOf("{}"))
	refused("a tag of a draft", label(mallory, "catalog.web.v2", stable))
	// To delete a revision moves its tags to an older one.
	e.move(t, v1, deletion)
	refused("deletion", mallory.Delete(t.Context(), v1, metav1.DeleteOptions{}))
	allowed("removal, by who may approve", label(lead, v1, `{"tag.starling.io/stable":null}`))
}

// TestConflictsWaitForAPerson: an upgrade that overwrites what a person has published is not
// approved automatically. One whose fields the functions of the package set again is.
func TestConflictsWaitForAPerson(t *testing.T) {
	e := newEnvironment(t)
	e.run(t)
	deployment := func(replicas string) map[string]string {
		return map[string]string{"a.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\nspec:\n  replicas: " + replicas + " # kpt-set: ${replicas}\n"}
	}
	v1 := e.publish(t, "catalog", "web", "v1", "", deployment("2"))
	e.create(t, withApprovalPolicy("by-hand", "always", "package: web, revision: latest", ""))
	e.create(t, withApprovalPolicy("by-function", "always", "package: web, revision: latest", "pipeline: {mutators: [{image: apply-setters, configMap: {replicas: '5'}}]}"))
	for _, name := range []string{"by-hand", "by-function"} {
		e.ready(t, name, v1, configv1alpha1.VariantPublished)
	}
	e.publish(t, "edge", "by-hand", "scaled", e.only(t, "edge", "by-hand", published).Name, deployment("5"))
	e.ready(t, "by-hand", v1, configv1alpha1.VariantPublished)

	v2 := e.publish(t, "catalog", "web", "v2", v1, deployment("3"))
	pv := e.ready(t, "by-hand", v2, configv1alpha1.VariantDraft)
	if text := pv.Status.WaitsFor; !strings.Contains(text, "a.yaml: Deployment.apps web: spec.replicas: changed on both sides") {
		t.Errorf("it waits for %q", text)
	}
	e.ready(t, "by-function", v2, configv1alpha1.VariantPublished)
	e.quiet(t)
	waiting := e.only(t, "edge", "by-hand", draft).Name
	// Another user says that there are no conflicts.
	mallory := e.author(t, "mallory").revisions()
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		obj, err := mallory.Get(t.Context(), waiting, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
		conditions = slices.DeleteFunc(conditions, func(c any) bool { return c.(map[string]any)["type"] == "MergeConflicts" })
		if err := unstructured.SetNestedSlice(obj.Object, conditions, "status", "conditions"); err != nil {
			t.Fatal(err)
		}
		_, err = mallory.Update(t.Context(), obj, metav1.UpdateOptions{})
		return err == nil, fmt.Sprint(err)
	})
	e.waitsFor(t, "by-hand", `user "mallory" changed its content`)
	e.quiet(t)
	e.only(t, "edge", "by-hand", draft)
	// A person approves it; the next one without a conflict is approved automatically.
	e.move(t, waiting, published)
	e.ready(t, "by-hand", v2, configv1alpha1.VariantPublished)
	v3 := e.publish(t, "catalog", "web", "v3", v2, deployment("4"))
	e.ready(t, "by-hand", v3, configv1alpha1.VariantPublished)
}

package packagegates

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/test/testenv"
)

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n"

// TestStory: a package with a CustomResourceDefinition is published after it is validated. The next
// revision would break what another WDS has on the cluster.
func TestStory(t *testing.T) {
	h := newHub(t)
	const group = "story.example.org"
	h.cluster(t, "story1")

	// The gate is there without the controller.
	v1 := h.create(t, "story1", "s3", "v1", "", map[string]string{"crd.yaml": crd(t, group, "region")})
	h.refused(t, v1, condition+" (no such condition)")
	plain := h.create(t, "story1", "plain", "v1", "", map[string]string{"settings.yaml": configMap})
	if got := h.gate(t, plain); got != "no gate" {
		t.Errorf("%s: %s", plain, got)
	}

	h.run(t)
	h.becomes(t, v1, "True AllValidationsPassed: transaction tx-"+v1)
	h.publish(t, v1)
	h.publish(t, plain)
	if n := len(h.transactions(t, plain)); n > 0 {
		t.Errorf("%d transactions for %s", n, plain)
	}

	h.work(t, "story1", "theirs", "other-uid", "theirs", bucket(t, group, "theirs", "{region: eu}"))
	v2 := h.create(t, "story1", "s3", "v2", v1, map[string]string{"crd.yaml": crd(t, group, "size")})
	got := h.becomes(t, v2, "False SchemaIncompatible: ")
	const breaks = "cluster story1: buckets.story.example.org v1: spec.region is removed (1 object: theirs)"
	if !strings.HasSuffix(got, ": "+breaks) {
		t.Errorf("%s\nwant …%s", got, breaks)
	}
	h.refused(t, v2, breaks)

	// Without the definition, the object would be lost. The gate stays.
	h.write(t, v2, map[string]string{"crd.yaml": configMap})
	h.becomes(t, v2, "False MissingDependency: ")
	h.refused(t, v2, "CRD buckets.story.example.org would be removed, but 1 object of buckets.story.example.org (theirs of workload definition space \"wds-of-theirs\") needs it")

	// Corrected, it is published.
	h.write(t, v2, map[string]string{"crd.yaml": crd(t, group, "region", "size")})
	h.becomes(t, v2, "True AllValidationsPassed")
	h.publish(t, v2)

	// What another Binding delivers there must be the same.
	h.work(t, "story1", "mine", h.uid, "all", testenv.Parse(t, crd(t, "more.example.org", "a")))
	v3 := h.create(t, "story1", "s3", "v3", v2, map[string]string{"more.yaml": crd(t, "more.example.org", "b")})
	h.becomes(t, v3, "False CRDConflict")
	h.refused(t, v3, `cluster story1: Binding "all" delivers CRD buckets.more.example.org with different content`)

	// The same package in a Repository that no cluster has is published.
	h.repository(t, "catalog", false)
	elsewhere := h.create(t, "catalog", "s3", "v1", "", map[string]string{"more.yaml": crd(t, "more.example.org", "b")})
	h.becomes(t, elsewhere, "True AllValidationsPassed")
	h.publish(t, elsewhere)
}

// TestAllowed: a user who may update CustomResourceDefinitions may allow that a change breaks
// objects; an author of packages may not.
func TestAllowed(t *testing.T) {
	h := newHub(t)
	const group = "allowed.example.org"
	h.cluster(t, "allowed1")
	h.wds.Apply(t, `{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: author, namespace: default},
		roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "starling:package-author"}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: author}]}`)
	h.run(t)
	v1 := h.create(t, "allowed1", "s3", "v1", "", map[string]string{"crd.yaml": crd(t, group, "region")})
	h.becomes(t, v1, "True")
	h.publish(t, v1)
	h.work(t, "allowed1", "theirs", "other-uid", "theirs", bucket(t, group, "theirs", "{region: eu}"))
	v2 := h.create(t, "allowed1", "s3", "v2", v1, map[string]string{"crd.yaml": crd(t, group, "size")})
	h.becomes(t, v2, "False SchemaIncompatible")

	const allow = `{"metadata":{"annotations":{"pkg.crossplane.io/allow-breaking-crds":"buckets.allowed.example.org"}}}`
	author := must[*dynamic.DynamicClient](t)(dynamic.NewForConfig(h.wds.As("author"))).Resource(revisions).Namespace(namespace)
	if _, err := author.Patch(t.Context(), v2, types.MergePatchType, []byte(allow), metav1.PatchOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "may update CustomResourceDefinitions") {
		t.Errorf("the author allows it: %v", err)
	}
	if _, err := author.Patch(t.Context(), v2, types.MergePatchType, []byte(`{"metadata":{"annotations":{"mine":"a"}}}`), metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := h.patch(t, v2, allow, ""); err != nil {
		t.Fatal(err)
	}
	h.becomes(t, v2, "True AllValidationsPassed")

	// It was allowed for this content: the author may not put another one there.
	content := must[*dynamic.DynamicClient](t)(dynamic.NewForConfig(h.wds.As("author"))).Resource(resources).Namespace(namespace)
	const other = `{"spec":{"resources":{"other.yaml":"{apiVersion: v1, kind: ConfigMap, metadata: {name: other, annotations: {config.kubernetes.io/local-config: \"true\"}}}"}}}`
	change := func() error {
		_, err := content.Patch(t.Context(), v2, types.MergePatchType, []byte(other), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	if err := change(); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "remove the annotation from the PackageRevision first") {
		t.Errorf("the author changes the content: %v", err)
	}
	const disallow = `{"metadata":{"annotations":{"pkg.crossplane.io/allow-breaking-crds":null}}}`
	if _, err := author.Patch(t.Context(), v2, types.MergePatchType, []byte(disallow), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Errorf("the author removes the annotation: %v", err)
	}
	h.publish(t, v2)
}

// TestInvalid: a definition that no API server accepts is refused for any Repository.
func TestInvalid(t *testing.T) {
	h := newHub(t)
	h.repository(t, "invalid", false)
	h.run(t)
	r := h.create(t, "invalid", "s3", "v1", "", map[string]string{"crd.yaml": strings.ReplaceAll(crd(t, "invalid.example.org", "a"), "type: string", "type: text")})
	h.becomes(t, r, "False SchemaIncompatible")
}

// TestOtherContent attacks the gate: a condition that is True must never be that of other content.
func TestOtherContent(t *testing.T) {
	h := newHub(t)
	const group = "other.example.org"
	h.cluster(t, "other1")
	stop := h.run(t)
	v1 := h.create(t, "other1", "s3", "v1", "", map[string]string{"crd.yaml": crd(t, group, "region")})
	h.becomes(t, v1, "True")
	h.publish(t, v1)
	h.work(t, "other1", "theirs", "other-uid", "theirs", bucket(t, group, "theirs", "{region: eu}"))
	good, bad := crd(t, group, "region", "size"), crd(t, group, "size")
	v2 := h.create(t, "other1", "s3", "v2", v1, map[string]string{"crd.yaml": good})
	h.becomes(t, v2, "True")
	valid := h.files(t, v2)[kpt.KptfileName]
	stop()

	// Nobody answers: the edit alone closes the gate.
	h.write(t, v2, map[string]string{"crd.yaml": bad})
	h.becomes(t, v2, "Unknown ContentChanged")
	h.refused(t, v2, condition+" (Unknown: ContentChanged")
	// The Kptfile of the earlier content, in which the condition is True, does not open it.
	h.write(t, v2, map[string]string{kpt.KptfileName: valid, "note.yaml": configMap})
	h.refused(t, v2, condition+" (Unknown: ContentChanged")
	// Nobody removes the gate, by the Kptfile or in the spec.
	h.write(t, v2, map[string]string{kpt.KptfileName: "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: s3\n"})
	if _, err := h.patch(t, v2, `{"spec":{"lifecycle":"Proposed","readinessGates":null}}`, ""); err == nil || !strings.Contains(err.Error(), condition) {
		t.Errorf("proposed without gates: %v", err)
	}
	if got := h.gate(t, v2); got == "no gate" {
		t.Error(got)
	}

	// A function that changes the package each time it runs does not run when a condition is set.
	h.write(t, v2, map[string]string{"crd.yaml": good, kpt.KptfileName: appends})
	before := h.revision(t, v2).Status.ContentDigest
	if _, err := h.patch(t, v2, `{"status":{"conditions":[{"type":"Mine","status":"False"}]}}`, ""); err != nil {
		t.Fatal(err)
	}
	if after := h.revision(t, v2).Status.ContentDigest; after != before {
		t.Errorf("a condition changed the content from %s to %s", before, after)
	}

	// The content changes all the time, and somebody proposes all the time.
	h.run(t)
	h.becomes(t, v2, "True")
	breaking := map[string]bool{}
	proposed := 0
	for i := range 40 {
		content := good
		if i%2 == 0 {
			content = bad
		}
		h.write(t, v2, map[string]string{"crd.yaml": content, "note.yaml": strings.Replace(configMap, "settings", fmt.Sprint("n", i), 1)})
		if i%4 == 3 {
			h.becomes(t, v2, "True") // so that the next edit meets an open gate
		}
		if i%2 == 0 {
			breaking[h.revision(t, v2).Status.ContentDigest] = true
		}
		for range 5 {
			o, err := h.patch(t, v2, `{"spec":{"lifecycle":"Proposed"}}`, "", "All")
			if err != nil {
				continue
			}
			proposed++
			if digest, _, _ := nested(o, "status", "contentDigest"); breaking[digest] {
				t.Fatalf("edit %d: breaking content could be proposed", i)
			}
		}
	}
	if proposed < 50 {
		t.Errorf("%d of 200 proposals were accepted, want those for content that is valid", proposed)
	}
	h.becomes(t, v2, "True")
	h.publish(t, v2)
}

// TestDependencies: the packages that a Kptfile requires must be installed.
func TestDependencies(t *testing.T) {
	h := newHub(t)
	h.repository(t, "requires", false)
	registry := h.registry(t)
	h.run(t)
	requires := func(list string) map[string]string {
		return map[string]string{kpt.KptfileName: "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: web\n  annotations:\n    pkg.crossplane.io/depends-on: |\n      " + list + "\n"}
	}
	source := registry.Source("org/s3")
	malformed := h.create(t, "requires", "malformed", "v1", "", requires("everything"))
	web := h.create(t, "requires", "web", "v1", "", requires(`[{apiVersion: pkg.crossplane.io/v1, kind: Provider, package: "`+source+`", version: ">=v1.1.0"}]`))
	h.becomes(t, malformed, "False InvalidPackage")
	h.refused(t, malformed, "metadata.annotations[pkg.crossplane.io/depends-on]: must be a list")
	h.becomes(t, web, "False MissingDependency")
	h.refused(t, web, "Package "+web+" requires "+source+" >=v1.1.0, which is not installed. Install Provider "+source+" first")

	h.push(t, registry, "v1.0.0")
	h.push(t, registry, "v1.1.0")
	install := func(tag string) {
		h.wds.Apply(t, "{apiVersion: pkg.crossplane.io/v1, kind: Provider, metadata: {name: s3}, spec: {package: '"+source+":"+tag+"'}}")
	}
	install("v1.0.0")
	h.becomes(t, web, "False VersionConflict")
	h.refused(t, web, "requires "+source+" >=v1.1.0, but v1.0.0 is installed")
	install("v1.1.0")
	h.becomes(t, web, "True AllValidationsPassed")
	h.publish(t, web)
	if got := h.gate(t, malformed); !strings.HasPrefix(got, "False InvalidPackage") {
		t.Errorf("%s: %s", malformed, got)
	}
}

// TestVariants: PackageVariants with an approval policy publish what is validated, nothing else.
// Each downstream has one Transaction, for the content that it is published with.
func TestVariants(t *testing.T) {
	h := newHub(t)
	h.repository(t, "blueprints", false)
	clusters := []string{"variant1", "variant2", "variant3"}
	for _, cluster := range clusters {
		h.cluster(t, cluster)
	}
	h.work(t, "variant3", "variants-theirs", "other-uid", "theirs", testenv.Parse(t, crd(t, "variants.example.org", "other")))
	h.run(t)
	h.runVariants(t)
	v1 := h.create(t, "blueprints", "s3", "v1", "", map[string]string{"crd.yaml": crd(t, "variants.example.org", "region")})
	h.becomes(t, v1, "True")
	h.publish(t, v1)
	for _, cluster := range clusters {
		h.wds.Apply(t, fmt.Sprintf(`{apiVersion: config.porch.kpt.dev/v1alpha1, kind: PackageVariant, metadata: {name: %s, namespace: default, annotations: {approval.nephio.org/policy: always}},
			spec: {upstream: {repo: blueprints, package: s3, revision: v1}, downstream: {repo: %s, package: s3}, packageContext: {data: {cluster: %s}}}}`, cluster, cluster, cluster))
	}
	for _, cluster := range clusters[:2] {
		var r *porchv1alpha1.PackageRevision
		testenv.Eventually(t, testenv.Patience, func() (bool, string) {
			r = h.downstream(t, cluster)
			if r == nil {
				return false, "no downstream"
			}
			return r.Spec.Lifecycle == porchv1alpha1.LifecyclePublished, string(r.Spec.Lifecycle) + " " + h.gate(t, r.Name)
		})
		if got := h.gate(t, r.Name); !strings.HasPrefix(got, "True AllValidationsPassed: transaction tx-"+cluster) {
			t.Errorf("%s: %s", r.Name, got)
		}
		if n := len(h.transactions(t, r.Name)); n != 1 {
			t.Errorf("%s: %d transactions, want 1", r.Name, n)
		}
	}
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		r := h.downstream(t, "variant3")
		if r == nil {
			return false, "no downstream"
		}
		got := h.gate(t, r.Name)
		return r.Spec.Lifecycle == porchv1alpha1.LifecycleDraft && strings.HasPrefix(got, "False CRDConflict"), string(r.Spec.Lifecycle) + " " + got
	})
}

// TestHistory: what answers a gate stays until the revision is published, or deleted. After that it
// belongs to the history, which has its limit.
func TestHistory(t *testing.T) {
	h := newHub(t)
	h.repository(t, "history", false)
	h.run(t)
	var names []string
	for i := range 4 {
		names = append(names, h.create(t, "history", fmt.Sprint("p", i), "v1", "", map[string]string{"crd.yaml": crd(t, fmt.Sprintf("p%d.example.org", i), "a")}))
		h.becomes(t, names[i], "True") // one after the other: the history is in the order of their Transactions
	}
	h.wds.Patch(t, locks, "", "lock", `{"metadata":{"annotations":{"pkg.crossplane.io/transaction-history-limit":"1"}}}`)
	defer h.wds.Patch(t, locks, "", "lock", `{"metadata":{"annotations":{"pkg.crossplane.io/transaction-history-limit":null}}}`)
	counts := func(want ...int) {
		t.Helper()
		testenv.Eventually(t, testenv.Patience, func() (bool, string) {
			var got []int
			for _, name := range names {
				got = append(got, len(h.transactions(t, name)))
			}
			return fmt.Sprint(got) == fmt.Sprint(want), fmt.Sprintf("transactions %v, want %v", got, want)
		})
	}
	// An edit ends an answer, which the history keeps or not; the new one stays.
	h.write(t, names[0], map[string]string{"note.yaml": configMap})
	h.becomes(t, names[0], "True")
	h.publish(t, names[1])
	h.publish(t, names[2])
	counts(1, 0, 1, 1)
	h.wds.Delete(t, revisions, namespace, names[3])
	counts(1, 0, 1, 0)
	if got := h.gate(t, names[0]); !strings.HasPrefix(got, "True") {
		t.Errorf("%s: %s", names[0], got)
	}

	// A user who deletes the Transaction gets another one.
	for name, tx := range h.transactions(t, names[0]) {
		h.wds.Delete(t, transactionResource, "", name)
		testenv.Eventually(t, testenv.Patience, func() (bool, string) {
			again := h.transactions(t, names[0])[name]
			return again != nil && again.UID != tx.UID, "not created again"
		})
	}
	h.becomes(t, names[0], "True")
}

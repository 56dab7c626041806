package variants

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/test/testenv"
)

// counts is how many revisions of a package are at a point of their lives.
type counts = map[porchv1alpha1.PackageRevisionLifecycle]int

// TestKilledBetweenWrites: the controller is killed after each kind of write. The next one does
// what is left: nothing is lost, nothing exists twice, and the result is the same.
func TestKilledBetweenWrites(t *testing.T) {
	e := newEnvironment(t)
	v1 := e.publish(t, "catalog", "web", "v1", "", map[string]string{"a.yaml": configMap("a", "upstream", "one")})
	v2 := e.publish(t, "catalog", "web", "v2", v1, map[string]string{"a.yaml": configMap("a", "upstream", "two")})
	point := func(namespace string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: " + namespace + ", annotations: {kpt.dev/config-injection: required}}\n"
	}
	bad := e.publish(t, "catalog", "bad", "v1", "", map[string]string{"a.yaml": point("a"), "b.yaml": point("b")})
	pv := func(name, revision, more string) string {
		return variantText(name, "package: web, revision: "+revision, name, more)
	}
	// Each case gives the state before, what happens then, and the expected outcome.
	type outcome struct {
		counts   counts
		upstream string // "" if the PackageVariant is gone
		state    configv1alpha1.VariantState
		reason   string // of Ready, if it is not
	}
	drafted := outcome{counts{draft: 1}, v1, configv1alpha1.VariantDraft, ""}
	made := func(name string) { e.create(t, pv(name, "1", "")) }
	released := func(more string) func(string) {
		return func(name string) {
			e.create(t, pv(name, "1", more))
			e.ready(t, name, v1, configv1alpha1.VariantDraft)
			e.move(t, e.only(t, "edge", name, draft).Name, published)
			e.replace(t, pv(name, "2", more))
			e.ready(t, name, v2, configv1alpha1.VariantDraft)
		}
	}
	deleted := func(name string) {
		if err := e.variants().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	asked := func(name string) { e.create(t, withApprovalPolicy(name, "always", "package: web, revision: 1", "")) }
	for _, c := range []struct {
		name, write   string
		before, event func(name string)
		want          outcome
	}{
		{"add-finalizer", "(PUT|PATCH) packagevariants", nil, made, drafted},
		{"create", "POST packagerevisions", nil, made, drafted},
		{"files", "(PUT|PATCH) packagerevisionresources", nil, made, drafted},
		{"status", "(PUT|PATCH) packagevariants/status", nil, made, drafted},
		{"begin", "(PUT|PATCH) packagerevisions", func(name string) {
			made(name)
			e.ready(t, name, v1, configv1alpha1.VariantDraft)
		}, func(name string) { e.replace(t, pv(name, "2", "")) }, outcome{counts{draft: 1}, v2, configv1alpha1.VariantDraft, ""}},
		{
			"failed", "(PUT|PATCH) packagerevisions", nil, func(name string) { e.create(t, variantText(name, "package: bad, revision: 1", name, "")) },
			outcome{counts{draft: 1}, bad, configv1alpha1.VariantDraft, configv1alpha1.ReasonError},
		},
		{
			"adopt", "(PUT|PATCH) packagerevisions", func(name string) { e.draft(t, "edge", name, "mine", "", nil) },
			func(name string) { e.create(t, pv(name, "1", "adoptionPolicy: adoptExisting")) }, drafted,
		},
		{"release", "(PUT|PATCH) packagerevisions", released("deletionPolicy: orphan"), deleted, outcome{counts: counts{draft: 1, published: 1}}},
		{"delete", "DELETE packagerevisions", released(""), deleted, outcome{counts: counts{deletion: 1}}},
		{"propose-deletion", "(PUT|PATCH) packagerevisions", released(""), deleted, outcome{counts: counts{deletion: 1}}},
		{"remove-finalizer", "(PUT|PATCH) packagevariants", released(""), deleted, outcome{counts: counts{deletion: 1}}},
		{"restore", "(PUT|PATCH) packagerevisions", func(name string) {
			released("")(name)
			e.delete(t, name)
		}, func(name string) { e.create(t, pv(name, "2", "")) }, outcome{counts{published: 1, draft: 1}, v2, configv1alpha1.VariantDraft, ""}},
		{"propose", "(PUT|PATCH) packagerevisions", nil, asked, outcome{counts{published: 1}, v1, configv1alpha1.VariantPublished, ""}},
		{"approve", "(PUT|PATCH) packagerevisions/approval", nil, asked, outcome{counts{published: 1}, v1, configv1alpha1.VariantPublished, ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			name := c.name
			if c.before != nil {
				stop := e.run(t)
				c.before(name)
				e.quiet(t)
				stop()
			}
			proxy := testenv.NewProxy(t, e.controllers) // the same user: only its own drafts are approved
			wait := proxy.KillAfter(t, c.write, 1, "binding-controller", "--controllers=packages", "--leader-elect=false", "--wds-kubeconfig="+proxy.Kubeconfig(t))
			c.event(name)
			wait()
			stop := e.run(t)
			defer stop()
			all := e.lifecycles(t, name, c.want.counts)
			switch {
			case c.want.upstream == "":
				testenv.Eventually(t, testenv.Patience, func() (bool, string) {
					_, err := e.variants().Get(t.Context(), name, metav1.GetOptions{})
					return err != nil, "the PackageVariant is still there"
				})
				if o := owners(e.list(t, "edge", name)); o != "" {
					t.Errorf("owners: %s", o)
				}
			case c.want.reason != "":
				e.condition(t, name, configv1alpha1.ConditionReady, c.want.reason)
			default:
				e.ready(t, name, c.want.upstream, c.want.state)
			}
			e.quiet(t)
			// It stays so.
			for revision, pr := range e.lifecycles(t, name, c.want.counts) {
				if was := all[revision]; was == nil || was.UID != pr.UID {
					t.Errorf("%s is another", revision)
				}
			}
			// What is done with the rest of it is not seen by the next case.
			if c.want.upstream != "" {
				e.replaceDeletion(t, name)
				e.delete(t, name)
			}
		})
	}
}

// replaceDeletion has a PackageVariant leave all that it made.
func (e *environment) replaceDeletion(t *testing.T, name string) {
	t.Helper()
	if _, err := e.variants().Patch(t.Context(), name, "application/merge-patch+json", []byte(`{"spec":{"deletionPolicy":"orphan"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

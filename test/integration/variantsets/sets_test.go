package variantsets

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
	"github.com/starlinghq/starling/test/golden"
	"github.com/starlinghq/starling/test/testenv"
)

const upstream = "upstream: {repo: up, package: foo, revision: v1}"

// spec is that of a set with targets that are given as YAML.
func spec(targets ...string) string {
	return fmt.Sprintf("{spec: {%s, targets: [%s]}}", upstream, strings.Join(targets, ", "))
}

// names are those of the PackageVariants that a set makes in some repositories.
func names(set string, repositories ...string) []string {
	var all []string
	for _, r := range repositories {
		all = append(all, set+"-"+r+"-foo")
	}
	return all
}

// neverDeleted fails the test if one of the PackageVariants is deleted within a second.
func (e *environment) neverDeleted(t *testing.T, names ...string) {
	t.Helper()
	testenv.Never(t, time.Second, func() string {
		there := e.notDeleted(t)
		for _, name := range names {
			if there[name] == nil {
				return name + " is gone"
			}
		}
		return ""
	})
}

// waitForProblem waits until a set has a problem that contains a text.
func (e *environment) waitForProblem(t *testing.T, set, text string) {
	t.Helper()
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		problems := e.set(t, set).Status.Problems
		for _, p := range problems {
			if strings.Contains(p.Target+": "+p.Message, text) {
				return true, ""
			}
		}
		return false, fmt.Sprintf("problems are %v, want one with %q", problems, text)
	})
}

// TestInvalidSet: all errors are reported at once, and existing PackageVariants stay.
func TestInvalidSet(t *testing.T) { //nolint:tparallel // the subtests change one set
	t.Parallel()
	e := newEnvironment(t)
	e.upstream(t, "up", "foo", 1, "")
	e.repositories(t, "r1")
	e.create(t, sets, "s", spec("{repositories: [{name: r1}]}"))
	e.run(t, options{})
	e.waitForVariants(t, names("s", "r1")...)
	for name, tc := range map[string]struct{ spec, want string }{
		"Empty": {"{upstream: null, targets: null}", "spec.upstream is a required field; must specify at least one item in spec.targets"},
		"Upstream": {
			"{upstream: {repo: null, package: null, revision: null}, targets: [{repositories: [{name: r1}]}]}",
			"spec.upstream.package is a required field; spec.upstream.repo is a required field; either spec.upstream.revision or spec.upstream.workspaceName must be specified",
		},
		"Targets": {
			"{" + upstream + ", targets: [{}, {repositories: []}, {repositories: [{name: ''}, {name: a, packageNames: ['']}]}, {objectSelector: {}}, {repositories: [{name: a}], repositorySelector: {}}]}",
			"spec.targets[0] must specify one of `repositories`, `repositorySelector`, or `objectSelector`; " +
				"spec.targets[1].repositories must not be an empty list if specified; " +
				"spec.targets[2].repositories[0].name cannot be empty; spec.targets[2].repositories[1].packageNames[0] cannot be empty; " +
				"spec.targets[3].objectselector.apiVersion cannot be empty; spec.targets[3].objectselector.kind cannot be empty; " +
				"spec.targets[4] must specify one of `repositories`, `repositorySelector`, or `objectSelector`",
		},
		"Template": {
			"{" + upstream + `, targets: [{repositorySelector: {}, template: {
				downstream: {repo: a, repoExpr: b, package: a, packageExpr: b}, adoptionPolicy: x, deletionPolicy: z,
				labelExprs: [{key: a, keyExpr: b, value: c}], annotationExprs: [{key: a, value: b, valueExpr: c}],
				packageContext: {dataExprs: [{value: x}], removeKeys: [name]}, injectors: [{}, {name: a, nameExpr: b}],
				pipeline: {mutators: [{name: a.b, image: x}], validators: [{image: ''}]}}}]}`,
			"",
		},
		"Expressions": {
			"{" + upstream + `, targets: [{repositorySelector: {}, template: {downstream: {repoExpr: "repository.name"}, labelExprs: [{key: a, valueExpr: "1 +"}, {key: b, valueExpr: "1"}]}}]}`,
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			e.patch(t, sets, "s", "{spec: "+tc.spec+"}")
			got := e.waitForCondition(t, "s", "Stalled", "ValidationError")
			if ready := e.waitForCondition(t, "s", "Ready", "ValidationError"); ready != got {
				t.Errorf("Ready says %q", ready)
			}
			if tc.want == "" {
				golden.Compare(t, "Wrong-"+name, strings.ReplaceAll(got, "; ", "\n")+"\n")
			} else if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	e.neverDeleted(t, names("s", "r1")...)
}

// TestUpstreamAppearsAndDisappears: a set waits for its upstream, and keeps its PackageVariants
// when that is deleted.
func TestUpstreamAppearsAndDisappears(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	e.repositories(t, "r1")
	e.run(t, options{})
	e.create(t, sets, "s", spec("{repositories: [{name: r1}]}"))
	if text := e.waitForCondition(t, "s", "Stalled", "UpstreamNotFound"); text != "could not find upstream package revision 'foo/v1' in repo 'up'" {
		t.Error(text)
	}
	e.upstream(t, "up", "foo", 1, "")
	e.waitForVariants(t, names("s", "r1")...)
	e.waitForCondition(t, "s", "Ready", "Reconciling")
	e.delete(t, revisions, "up.foo.v1")
	e.waitForCondition(t, "s", "Stalled", "UpstreamNotFound")
	e.neverDeleted(t, names("s", "r1")...)
}

// TestOneTargetFails: an expression that fails for one Repository is reported for that one. As long
// as it fails, nothing is deleted.
func TestOneTargetFails(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	e.upstream(t, "up", "foo", 1, "")
	for _, name := range []string{"r1", "r2", "r3"} {
		e.create(t, repositories, name, "{metadata: {labels: {env: prod, org: hr}}, spec: {}}")
	}
	e.run(t, options{})
	e.create(t, sets, "s", spec(`{repositorySelector: {matchLabels: {env: prod}}, template: {labelExprs: [{key: org, valueExpr: "repository.labels['org']"}]}}`))
	e.waitForVariants(t, names("s", "r1", "r2", "r3")...)

	e.patch(t, repositories, "r2", "{metadata: {labels: {org: null}}}")
	e.waitForProblem(t, "s", "spec.targets[0]: r2/foo: template.labelExprs[0].valueExpr: no such key: org")
	e.waitForCondition(t, "s", "Ready", "UnexpectedError")
	e.patch(t, repositories, "r1", "{metadata: {labels: {env: null}}}") // not asked for any more
	e.patch(t, repositories, "r3", "{metadata: {labels: {org: finance}}}")
	e.create(t, repositories, "r4", "{metadata: {labels: {env: prod, org: hr}}, spec: {}}")
	e.waitForVariants(t, names("s", "r1", "r2", "r3", "r4")...)
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		got := e.variants(t)["s-r3-foo"].Spec.Labels["org"]
		return got == "finance", "org of r3 is " + got
	})
	e.neverDeleted(t, names("s", "r1", "r2")...)

	e.patch(t, repositories, "r2", "{metadata: {labels: {org: hr}}}")
	e.waitForVariants(t, names("s", "r2", "r3", "r4")...)
	e.waitForCondition(t, "s", "Ready", "Reconciling")
	if problems := e.set(t, "s").Status.Problems; len(problems) > 0 {
		t.Error(problems)
	}
}

// TestSelectorMatchesNothing: the deletions are blocked if a selector suddenly matches nothing,
// until that is reverted or allowed.
func TestSelectorMatchesNothing(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	e.upstream(t, "up", "foo", 1, "")
	for _, name := range []string{"r1", "r2", "r3"} {
		e.create(t, repositories, name, "{metadata: {labels: {env: prod}}, spec: {}}")
	}
	e.run(t, options{})
	e.create(t, sets, "s", spec("{repositorySelector: {matchLabels: {env: prod}}}"))
	e.waitForVariants(t, names("s", "r1", "r2", "r3")...)
	typo := func() string {
		e.patch(t, sets, "s", "{spec: {targets: [{repositorySelector: {matchLabels: {env: pord}}}]}}")
		text := e.waitForCondition(t, "s", "RemovalBlocked", "RemovalLimitExceeded")
		e.waitForCondition(t, "s", "Ready", "RemovalBlocked")
		e.neverDeleted(t, names("s", "r1", "r2", "r3")...)
		return text
	}
	typo()
	e.patch(t, sets, "s", "{spec: {targets: [{repositorySelector: {matchLabels: {env: prod}}}]}}")
	e.waitForCondition(t, "s", "Ready", "Reconciling")
	if c := meta.FindStatusCondition(e.set(t, "s").Status.Conditions, "RemovalBlocked"); c != nil {
		t.Error(c)
	}
	text := typo()
	_, token, ok := strings.Cut(text, "starling.io/allow-removal=")
	if !ok {
		t.Fatal(text)
	}
	e.patch(t, sets, "s", fmt.Sprintf("{metadata: {annotations: {starling.io/allow-removal: %q}}}", token))
	e.waitForVariants(t)
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		set := e.set(t, "s")
		return len(set.Annotations) == 0 && meta.IsStatusConditionTrue(set.Status.Conditions, "Ready"), fmt.Sprint(set.Annotations, set.Status.Conditions)
	})
	e.removeFinalizers(t.Context(), t)
}

// TestTwoSetsOfOnePackage: the first set that has a package keeps it. The other one reports this,
// and gets the package when the first one releases it.
func TestTwoSetsOfOnePackage(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	e.upstream(t, "up", "foo", 1, "")
	e.repositories(t, "r1", "r2")
	e.run(t, options{})
	e.create(t, sets, "first", spec("{repositories: [{name: r1}]}"))
	e.waitForVariants(t, names("first", "r1")...)
	e.create(t, sets, "second", spec("{repositories: [{name: r1}, {name: r2}]}"))
	e.waitForProblem(t, "second", "package r1/foo already belongs to PackageVariant first-r1-foo of PackageVariantSet first; delete that PackageVariant, or choose another package")
	e.waitForVariants(t, "first-r1-foo", "second-r2-foo")
	e.delete(t, sets, "first")
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		e.removeFinalizers(t.Context(), t) // once it is being deleted
		there := e.variants(t)
		return there["first-r1-foo"] == nil && there["second-r1-foo"] != nil, fmt.Sprint(len(there))
	})
	e.waitForCondition(t, "second", "Ready", "Reconciling")
}

// TestVariantsOfOtherOwners: a PackageVariant without owner is adopted if it is what the set would
// create, and is not changed otherwise.
func TestVariantsOfOtherOwners(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	e.upstream(t, "up", "foo", 1, "")
	e.repositories(t, "r1", "r2", "r3")
	e.create(t, variants, "s-r1-foo", "{metadata: {labels: {mine: x}}, spec: {upstream: {repo: up, package: foo, revision: 7}, downstream: {repo: r1, package: foo}}}")
	e.create(t, variants, "s-r2-foo", "{spec: {upstream: {repo: up, package: foo, revision: 7}, downstream: {repo: r9, package: other}}}")
	e.create(t, variants, "by-hand", "{spec: {upstream: {repo: up, package: foo, revision: 7}, downstream: {repo: r3, package: foo}}}")
	e.run(t, options{})
	e.create(t, sets, "s", spec("{repositories: [{name: r1}, {name: r2}, {name: r3}]}"))
	e.waitForProblem(t, "s", "package r3/foo already belongs to PackageVariant by-hand")
	uid := string(e.set(t, "s").UID)
	var made []string
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		made = nil
		for name, pv := range e.variants(t) {
			if pv.Labels[configv1alpha1.LabelPackageVariantSet] == uid {
				made = append(made, name+" "+pv.Spec.Downstream.Repo+" "+pv.Labels["mine"])
			}
		}
		return len(made) == 2, fmt.Sprint(made)
	})
	for _, line := range made {
		if line != "s-r1-foo r1 x" && !strings.HasPrefix(line, "s-r2-foo-") {
			t.Error(line)
		}
	}
	// A name that is taken by a PackageVariant of another package does not matter; one that goes
	// wakes the set.
	e.delete(t, variants, "by-hand")
	testenv.Eventually(t, testenv.Patience, func() (bool, string) { return e.variants(t)["s-r3-foo"] != nil, "s-r3-foo is not there" })
	e.waitForCondition(t, "s", "Ready", "Reconciling")
}

// TestVariantsWithAPolicyOfTheirOwn: a set neither adopts nor changes them, says so, and goes on as
// soon as the policy is removed.
func TestVariantsWithAPolicyOfTheirOwn(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	e.upstream(t, "up", "foo", 1, "")
	e.repositories(t, "r1", "r2")
	const always = "annotations: {approval.nephio.org/policy: always}"
	e.create(t, variants, "s-r1-foo", "{metadata: {"+always+"}, spec: {upstream: {repo: up, package: foo, revision: 7}, downstream: {repo: r1, package: foo}}}")
	e.run(t, options{})
	e.create(t, sets, "s", spec("{repositories: [{name: r1}, {name: r2}]}"))
	e.waitForProblem(t, "s", "PackageVariant s-r1-foo has an approval policy of its own in metadata.annotations")
	testenv.Eventually(t, testenv.Patience, func() (bool, string) { return e.variants(t)["s-r2-foo"] != nil, "s-r2-foo is not there" })
	e.patch(t, variants, "s-r2-foo", "{metadata: {"+always+"}}")
	e.patch(t, sets, "s", "{spec: {upstream: {revision: latest}}}")
	e.waitForProblem(t, "s", "PackageVariant s-r2-foo has an approval policy of its own in metadata.annotations")
	for name, want := range map[string]string{"s-r1-foo": "7", "s-r2-foo": "v1"} {
		if got := e.variants(t)[name].Spec.Upstream.Revision.String(); got != want {
			t.Errorf("%s follows %s", name, got)
		}
		e.patch(t, variants, name, "{metadata: {annotations: {approval.nephio.org/policy: null}}}")
	}
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		one, two := e.variants(t)["s-r1-foo"].Spec.Upstream.Revision.String(), e.variants(t)["s-r2-foo"].Spec.Upstream.Revision.String()
		return one == "latest" && two == "latest", one + " " + two
	})
	e.waitForCondition(t, "s", "Ready", "Reconciling")
}

// TestChangedVariantIsCorrected: the set restores the spec of its PackageVariants and what makes
// them its own. All else belongs to users.
func TestChangedVariantIsCorrected(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	e.upstream(t, "up", "foo", 1, "")
	e.repositories(t, "r1")
	running := e.run(t, options{})
	e.create(t, sets, "s", spec("{repositories: [{name: r1}]}"))
	e.waitForVariants(t, names("s", "r1")...)
	running.quiet(t)
	before := e.variants(t)["s-r1-foo"]
	for name, patch := range map[string]string{
		"Label": "{metadata: {labels: {config.porch.kpt.dev/packagevariantset: null}}}",
		"Owner": "{metadata: {ownerReferences: null}}",
		"Spec":  "{spec: {deletionPolicy: orphan, upstream: {revision: 9}}}",
	} {
		e.patch(t, variants, "s-r1-foo", patch)
		testenv.Eventually(t, testenv.Patience, func() (bool, string) {
			pv := e.variants(t)["s-r1-foo"]
			diff := cmp.Diff(before.OwnerReferences, pv.OwnerReferences) + cmp.Diff(before.Labels, pv.Labels) + cmp.Diff(before.Spec, pv.Spec)
			return diff == "", name + ":\n" + diff
		})
	}
	wrote := running.quiet(t)
	e.patch(t, variants, "s-r1-foo", "{metadata: {labels: {mine: x}, annotations: {mine: x}, finalizers: [config.porch.kpt.dev/packagevariants, example.com/mine]}}")
	if n := running.quiet(t) - wrote; n > 0 {
		t.Errorf("%d writes after a user has put labels on a PackageVariant", n)
	}
	e.patch(t, sets, "s", "{spec: {upstream: {revision: latest}}}")
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		pv := e.variants(t)["s-r1-foo"]
		return pv.Spec.Upstream.Revision.String() == "latest", pv.Spec.Upstream.Revision.String()
	})
	pv := e.variants(t)["s-r1-foo"]
	if pv.Labels["mine"] != "x" || pv.Annotations["mine"] != "x" || len(pv.Finalizers) != 2 {
		t.Errorf("%+v", pv.ObjectMeta)
	}
	e.patch(t, variants, "s-r1-foo", "{metadata: {finalizers: null}}")
}

// TestRefused: a PackageVariant that the API server refuses is a problem of its target, and is
// written again.
func TestRefused(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	e.upstream(t, "up", "foo", 1, "")
	e.repositories(t, "r1", "r2")
	e.refuse(t, "r2")
	e.run(t, options{})
	e.create(t, sets, "s", spec("{repositories: [{name: r1}, {name: r2}]}"))
	e.waitForProblem(t, "s", "nothing comes to r2")
	if got := len(e.notDeleted(t)); got != 1 {
		t.Errorf("%d PackageVariants", got)
	}
	e.waitForCondition(t, "s", "Ready", "UnexpectedError")
	e.Delete(t, policyBindings, "", e.namespace)
	e.waitForVariants(t, names("s", "r1", "r2")...)
	e.waitForCondition(t, "s", "Ready", "Reconciling")
}

var (
	policies       = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"}
	policyBindings = policies.GroupVersion().WithResource("validatingadmissionpolicybindings")
)

// TestUnwritable: a PackageVariant that cannot be written, because some webhook fails, does not
// hold up the others, and the set says so. It is written when that has passed.
func TestUnwritable(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	e.upstream(t, "up", "foo", 1, "")
	e.repositories(t, "r1", "r2", "r3", "r4", "r5")
	var fails atomic.Bool
	fails.Store(true)
	e.controllers = rest.CopyConfig(e.controllers)
	e.controllers.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/packagevariants") && fails.Load() {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					return nil, err
				}
				if bytes.Contains(body, []byte("s-r2-foo")) {
					answer := httptest.NewRecorder()
					answer.Header().Set("Content-Type", "application/json")
					answer.WriteHeader(http.StatusInternalServerError)
					fmt.Fprint(answer, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"failed calling webhook \"x\": no endpoints","reason":"InternalError","code":500}`)
					return answer.Result(), nil
				}
				r = r.Clone(r.Context())
				r.Body = io.NopCloser(bytes.NewReader(body))
			}
			return next.RoundTrip(r)
		})
	})
	e.create(t, sets, "s", spec("{repositories: [{name: r1}, {name: r2}, {name: r3}, {name: r4}, {name: r5}]}"))
	e.run(t, options{})
	e.waitForVariants(t, names("s", "r1", "r3", "r4", "r5")...)
	text := e.waitForCondition(t, "s", "Stalled", "UnexpectedError")
	if !strings.Contains(text, `PackageVariant "s-r2-foo" cannot be written: failed calling webhook`) {
		t.Errorf("message %q", text)
	}
	e.waitForCondition(t, "s", "Ready", "UnexpectedError")
	fails.Store(false)
	e.waitForVariants(t, names("s", "r1", "r2", "r3", "r4", "r5")...)
	e.waitForCondition(t, "s", "Ready", "Reconciling")
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

// refuse makes the API server refuse PackageVariants of a Repository, until the binding of the
// policy with the name of the namespace is deleted. It blocks until that is in force.
func (e *environment) refuse(t *testing.T, repository string) {
	t.Helper()
	said := "nothing comes to " + repository
	e.Apply(t, fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}
    resourceRules: [{apiGroups: [config.porch.kpt.dev], apiVersions: ["*"], resources: [packagevariants], operations: [CREATE]}]
  validations: [{expression: object.spec.downstream.repo != %[2]q, message: %[3]s}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec: {policyName: %[1]s, validationActions: [Deny]}
`, e.namespace, repository, said))
	t.Cleanup(func() {
		e.Remove(t, policyBindings, "", e.namespace)
		e.Remove(t, policies, "", e.namespace)
	})
	probe := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"upstream":   map[string]any{"repo": "up", "package": "foo", "revision": "v1"},
		"downstream": map[string]any{"repo": repository, "package": "foo"},
	}}}
	probe.SetAPIVersion(variants.GroupVersion().String())
	probe.SetKind("PackageVariant")
	probe.SetName("probe")
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		_, err := e.resource(variants).Create(t.Context(), probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil && strings.Contains(err.Error(), said), fmt.Sprintf("a PackageVariant in %s is not refused: %v", repository, err)
	})
}

// TestStatusCounts: the states of PackageVariants are counted, and their problems are listed.
func TestStatusCounts(t *testing.T) {
	e := newEnvironment(t)
	e.upstream(t, "up", "foo", 1, "")
	var list, repos []string
	for i := range 16 {
		repos = append(repos, fmt.Sprintf("r%02d", i))
		list = append(list, fmt.Sprintf("{name: r%02d}", i))
	}
	e.repositories(t, repos...)
	running := e.run(t, options{})
	e.create(t, sets, "s", spec("{repositories: ["+strings.Join(list, ", ")+"]}"))
	e.waitForVariants(t, names("s", repos...)...)
	running.quiet(t)
	wrote, began := running.writes.Load(), time.Now()
	said := func(i int, state string, conditions ...string) {
		var all []string
		for _, c := range conditions {
			kind, status, _ := strings.Cut(c, "=")
			all = append(all, fmt.Sprintf("{type: %s, status: '%s', reason: Because, message: said so, observedGeneration: 1, lastTransitionTime: '2026-01-01T00:00:00Z'}", kind, status))
		}
		e.patch(t, variants, names("s", repos[i])[0], fmt.Sprintf("{status: {state: %s, conditions: [%s]}}", state, strings.Join(all, ", ")), "status")
	}
	said(0, "Draft", "Ready=True")
	said(1, "Draft", "Ready=True")
	said(2, "Proposed", "Ready=True")
	said(3, "Published", "Ready=True", "Delivered=True", "Applied=True", "Healthy=True")
	said(4, "Published", "Ready=True", "Delivered=True", "Applied=True", "Healthy=False")
	for i := 5; i < 16; i++ {
		said(i, "Draft", "Ready=False")
	}
	want := configv1alpha2.PackageVariantSetStatus{Targets: 16, Draft: 13, Proposed: 1, Published: 2, Applied: 2, Healthy: 1, MoreProblems: 2, ObservedGeneration: 1}
	var got configv1alpha2.PackageVariantSetStatus
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		got = e.set(t, "s").Status
		problems := got.Problems
		got.Conditions, got.Problems = nil, nil
		diff := cmp.Diff(want, got)
		return diff == "" && len(problems) == 10, diff
	})
	first := e.set(t, "s").Status.Problems[0]
	if first.Target != "PackageVariant s-r04-foo" || first.Message != "r04/foo: Because: said so" {
		t.Error(first)
	}
	// A few at once, and one a second while more come, however long that takes.
	most := 4 + int64(time.Since(began)/time.Second)
	if n := running.quiet(t) - wrote; n > most {
		t.Errorf("%d writes for 16 statuses, want %d at most", n, most)
	}
	table := testenv.Shared(t).Kubectl(t, "wds1", "get", "packagevariantsets", "-n", e.namespace)
	fields := strings.Fields(strings.SplitN(table, "\n", 3)[1])
	if diff := cmp.Diff([]string{"NAME", "TARGETS", "DRAFT", "PROPOSED", "PUBLISHED", "APPLIED", "HEALTHY", "READY", "AGE"}, strings.Fields(strings.SplitN(table, "\n", 2)[0])); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"s", "16", "13", "1", "2", "2", "1", "False"}, fields[:8]); diff != "" {
		t.Error(diff)
	}
}

// TestReadyOnlyIfItsVariantsAre: a set is not ready before its PackageVariants have reported on
// their spec, nor while one of them is not ready.
func TestReadyOnlyIfItsVariantsAre(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	e.upstream(t, "up", "foo", 1, "")
	e.repositories(t, "r1", "r2")
	e.run(t, options{})
	e.create(t, sets, "s", spec("{repositories: [{name: r1}, {name: r2}]}"))
	e.waitForVariants(t, names("s", "r1", "r2")...)
	e.waitForCondition(t, "s", "Ready", "Reconciling")
	report := func(repository, status string, generation int) {
		t.Helper()
		e.patch(t, variants, names("s", repository)[0], fmt.Sprintf("{status: {conditions: [{type: Ready, status: '%s', reason: Because, message: said so, "+
			"observedGeneration: %d, lastTransitionTime: '2026-01-01T00:00:00Z'}]}}", status, generation), "status")
	}
	report("r1", "True", 1)
	report("r2", "False", 1)
	if text := e.waitForCondition(t, "s", "Ready", "VariantsNotReady"); !strings.Contains(text, "s-r2-foo is not ready: said so") {
		t.Errorf("message %q", text)
	}
	report("r2", "True", 1)
	e.waitForCondition(t, "s", "Ready", "Reconciled")
	e.patch(t, sets, "s", "{spec: {targets: [{repositories: [{name: r1}, {name: r2}], template: {deletionPolicy: orphan}}]}}")
	e.waitForCondition(t, "s", "Ready", "Reconciling")
	report("r1", "True", 2)
	report("r2", "True", 2)
	e.waitForCondition(t, "s", "Ready", "Reconciled")
}

// TestRepositoryIsCreatedAgain: the PackageVariant of a Repository that is gone stays as long as
// its package has revisions.
func TestRepositoryIsCreatedAgain(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	e.upstream(t, "up", "foo", 1, "")
	e.repositories(t, "r1", "r2", "r3")
	e.upstream(t, "r2", "foo", 1, "") // the package that its PackageVariant would make
	e.run(t, options{})
	e.create(t, sets, "s", spec("{repositorySelector: {}}"))
	e.waitForVariants(t, names("s", "r1", "r2", "r3")...)
	before := e.variants(t)[names("s", "r2")[0]]
	e.delete(t, repositories, "r2")
	e.delete(t, repositories, "r3")
	e.waitForVariants(t, names("s", "r1", "r2")...) // that of r3 has nothing to lose
	e.waitForProblem(t, "s", "Repository r2 does not exist; the PackageVariant stays as long as package r2/foo has revisions")
	e.repositories(t, "r2")
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		set := e.set(t, "s")
		return set.Status.Targets == 2 && len(set.Status.Problems) == 0, fmt.Sprint(set.Status)
	})
	if after := e.variants(t)[before.Name]; after == nil || after.UID != before.UID {
		t.Errorf("the PackageVariant is another one: %v", after)
	}
	e.delete(t, repositories, "r2")
	e.waitForProblem(t, "s", "Repository r2 does not exist")
	e.delete(t, revisions, "r2.foo.v1")
	e.waitForVariants(t, names("s", "r1")...)
}

// TestCostOfOneRepository: one more Repository costs two writes: its PackageVariant, and the status
// of the set.
func TestCostOfOneRepository(t *testing.T) {
	e := newEnvironment(t)
	e.upstream(t, "up", "foo", 1, "")
	var repos []string
	for i := range 40 {
		repos = append(repos, fmt.Sprintf("r%02d", i))
		e.create(t, repositories, repos[i], "{metadata: {labels: {env: prod}}, spec: {}}")
	}
	running := e.run(t, options{})
	e.create(t, sets, "s", spec(`{repositorySelector: {matchLabels: {env: prod}}, template: {labelExprs: [{key: a, valueExpr: "repository.name"}]}}`))
	e.waitForVariants(t, names("s", repos...)...)
	wrote, reads := running.quiet(t), running.reads.Load()
	e.create(t, repositories, "one", "{metadata: {labels: {env: prod}}, spec: {}}")
	e.waitForVariants(t, names("s", append(repos, "one")...)...)
	if n := running.quiet(t) - wrote; n != 2 {
		t.Errorf("%d writes, want 2", n)
	}
	// What does not concern the set costs nothing.
	e.create(t, repositories, "other", "{metadata: {labels: {env: test}}, spec: {}}")
	e.patch(t, repositories, "one", "{status: {packageCount: 7}}", "status")
	e.upstream(t, "up", "bar", 1, "")
	if n := running.quiet(t) - wrote; n != 2 {
		t.Errorf("%d writes, want no more than 2", n)
	}
	if n := running.reads.Load() - reads; n > 0 {
		t.Errorf("%d reads", n)
	}
}

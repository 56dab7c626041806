package variants

import (
	"fmt"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/test/testenv"
)

// withApprovalPolicy returns the text of a PackageVariant with an approval policy.
func withApprovalPolicy(name, policy, upstream, more string) string {
	text := variantText(name, upstream, name, more)
	return strings.Replace(text, "metadata: {name: "+name+"}", fmt.Sprintf("metadata: {name: %s, annotations: {approval.nephio.org/policy: %s}}", name, policy), 1)
}

// TestApprovalPolicy: the first draft, or every draft, is approved if the annotation asks for it
// and all gates are met. Otherwise a human approves it. If the controller has no right to approve,
// a condition says so.
func TestApprovalPolicy(t *testing.T) {
	e := newEnvironment(t)
	e.run(t)
	v1 := e.publish(t, "catalog", "web", "v1", "", map[string]string{"a.yaml": configMap("a", "upstream", "one")})
	e.create(t, withApprovalPolicy("initial", "initial", "package: web, revision: latest", ""))
	e.create(t, withApprovalPolicy("always", "always", "package: web, revision: latest", ""))
	e.create(t, variantText("human", "package: web, revision: latest", "human", ""))
	e.ready(t, "initial", v1, configv1alpha1.VariantPublished)
	e.ready(t, "always", v1, configv1alpha1.VariantPublished)
	e.ready(t, "human", v1, configv1alpha1.VariantDraft)
	if by := e.only(t, "edge", "always", published).Status.PublishedBy; by != "system:serviceaccount:starling-system:binding-controller" {
		t.Errorf("approved by %s", by)
	}

	v2 := e.publish(t, "catalog", "web", "v2", v1, map[string]string{"a.yaml": configMap("a", "upstream", "two")})
	e.ready(t, "initial", v2, configv1alpha1.VariantDraft)
	e.ready(t, "always", v2, configv1alpha1.VariantPublished)
	e.ready(t, "human", v2, configv1alpha1.VariantDraft)

	// A gate that is not met: a pipeline that fails, and an injection point without an object.
	gated := e.publish(t, "catalog", "gated", "v1", "", base())
	e.create(t, withApprovalPolicy("gated", "always", "package: gated, revision: 1", "injectors: [{name: endpoints}]"))
	e.ready(t, "gated", gated, configv1alpha1.VariantDraft)
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		text := e.variant(t, "gated").Status.WaitsFor
		return strings.Contains(text, "config.injection.ConfigMap.endpoints"), text
	})
	e.create(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: endpoints}, data: {region: north}}")
	e.ready(t, "gated", gated, configv1alpha1.VariantPublished)

	// The right is taken away, and given back.
	bindings := e.of(testenv.Parse(t, "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: x}}"))
	binding, err := bindings.Get(t.Context(), "starling:package-approval-policy", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := bindings.Delete(t.Context(), binding.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	testenv.Allowed(t, e.config, false, e.controllers.Impersonate.UserName, e.approval())
	e.create(t, withApprovalPolicy("withheld", "always", "package: web, revision: latest", ""))
	if text := e.condition(t, "withheld", configv1alpha1.ConditionReady, configv1alpha1.ReasonError); !strings.Contains(text, "starling:package-approval-policy") {
		t.Errorf("what to do: %s", text)
	}
	e.only(t, "edge", "withheld", proposed)
	binding.SetResourceVersion("")
	binding.SetUID("")
	if _, err := bindings.Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	e.ready(t, "withheld", v2, configv1alpha1.VariantPublished)
}

// approval is the right to approve in the test's namespace.
func (e *environment) approval() authorizationv1.ResourceAttributes {
	return authorizationv1.ResourceAttributes{Verb: "update", Group: porchv1alpha1.GroupName, Resource: "packagerevisions", Subresource: "approval", Namespace: e.namespace}
}

// TestRightToRequestApproval: a user who may not approve may not request approvals either.
func TestRightToRequestApproval(t *testing.T) {
	e := newEnvironment(t)
	author := e.as(t, "author", "starling:package-variant-author")
	lead := e.as(t, "lead", "starling:package-variant-author", "starling:package-reviewer")
	for _, user := range []string{"author", "lead"} {
		testenv.Allowed(t, e.config, true, user, authorizationv1.ResourceAttributes{Verb: "create", Group: configv1alpha1.GroupName, Resource: "packagevariants", Namespace: e.namespace})
	}
	testenv.Allowed(t, e.config, true, "lead", e.approval())
	create := func(client dynamic.Interface, text string) error {
		obj := testenv.Parse(t, text)
		_, err := client.Resource(resourceOf(obj)).Namespace(e.namespace).Create(t.Context(), obj, metav1.CreateOptions{})
		return err
	}
	refused := func(what string, err error) {
		t.Helper()
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "packagerevisions/approval") {
			t.Errorf("%s: %v", what, err)
		}
	}
	allowed := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	set := func(name, template string) string {
		return fmt.Sprintf("{apiVersion: config.porch.kpt.dev/v1alpha2, kind: PackageVariantSet, metadata: {name: %s}, spec: {upstream: {repo: catalog, package: web, revision: 1}, targets: [{repositorySelector: {}, template: {%s}}]}}", name, template)
	}
	patch := func(client dynamic.Interface, name, text string) error {
		_, err := client.Resource(configv1alpha1.PackageVariants).Namespace(e.namespace).Patch(t.Context(), name, types.MergePatchType, []byte(text), metav1.PatchOptions{})
		return err
	}
	// The policy takes a moment to be known to the API server.
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		err := create(author, withApprovalPolicy("early", "always", "package: web, revision: 1", ""))
		if err == nil {
			err = author.Resource(configv1alpha1.PackageVariants).Namespace(e.namespace).Delete(t.Context(), "early", metav1.DeleteOptions{})
			return false, fmt.Sprint("it was created; deleted: ", err)
		}
		return true, ""
	})
	refused("annotation", create(author, withApprovalPolicy("pv", "always", "package: web, revision: 1", "")))
	refused("annotation in the spec", create(author, variantText("pv", "package: web, revision: 1", "web", "annotations: {approval.nephio.org/policy: initial}")))
	refused("set", create(author, set("set", "annotations: {approval.nephio.org/policy: initial}")))
	refused("set with an expression", create(author, set("set", "annotationExprs: [{key: approval.nephio.org/policy, valueExpr: \"'always'\"}]")))
	refused("set with a computed key", create(author, set("set", "annotationExprs: [{keyExpr: \"'approval.nephio.org/' + 'policy'\", value: always}]")))
	allowed("without", create(author, variantText("pv", "package: web, revision: 1", "web", "annotations: {some: thing}")))
	allowed("set without", create(author, set("set", "annotations: {some: thing}, annotationExprs: [{key: k, valueExpr: \"'v'\"}]")))
	refused("later", patch(author, "pv", `{"metadata":{"annotations":{"approval.nephio.org/policy":"always"}}}`))
	allowed("later, by who may", patch(lead, "pv", `{"metadata":{"annotations":{"approval.nephio.org/policy":"always"}}}`))
	allowed("set, by who may", create(lead, set("leads", "annotations: {approval.nephio.org/policy: initial}")))
	refused("what it makes", patch(author, "pv", `{"spec":{"upstream":{"package":"other"}}}`))
	allowed("what it makes, by who may", patch(lead, "pv", `{"spec":{"upstream":{"package":"other"}}}`))
	allowed("something else", patch(author, "pv", `{"metadata":{"labels":{"a":"b"}}}`))
	refused("no more", patch(author, "pv", `{"metadata":{"annotations":{"approval.nephio.org/policy":null}}}`))
	refused("no more, with another spec", patch(author, "pv", `{"metadata":{"annotations":{"approval.nephio.org/policy":null}},"spec":{"upstream":{"package":"evil"}}}`))
	allowed("no more, by who may", patch(lead, "pv", `{"metadata":{"annotations":{"approval.nephio.org/policy":null}}}`))
	refused("a member of a set", patch(author, "pv", `{"metadata":{"ownerReferences":[{"apiVersion":"config.porch.kpt.dev/v1alpha2","kind":"PackageVariantSet","name":"leads","uid":"x","controller":true}]}}`))
	if _, err := author.Resource(configv1alpha2.PackageVariantSets).Namespace(e.namespace).Patch(t.Context(), "leads", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}); err != nil {
		t.Errorf("a label of a set: %v", err)
	}
}

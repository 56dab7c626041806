package status

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/starlinghq/starling/test/testenv"
)

// rights asks the space about every verb on every resource that it serves, in each of the
// namespaces ("" for all), and returns what is allowed: verbs by namespace and resource.
func rights(t *testing.T, s *space, who *rest.Config, namespaces ...string) map[string]string {
	t.Helper()
	config := rest.CopyConfig(s.Config)
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	lists, err := client.Discovery().ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	_, all, err := client.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	resources := map[schema.GroupResource]struct{}{
		{Resource: "users"}: {}, {Resource: "groups"}: {}, {Group: "certificates.k8s.io", Resource: "signers"}: {},
	}
	for _, list := range append(lists, all...) {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			resources[schema.GroupResource{Group: gv.Group, Resource: r.Name}] = struct{}{}
		}
	}
	if len(resources) < 60 {
		t.Errorf("the space serves %d resources only", len(resources))
	}
	verbs := []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "impersonate", "bind", "escalate", "approve", "sign"}
	type question struct {
		resource  schema.GroupResource
		namespace string
	}
	answers := map[question][]string{}
	var questions []question
	for gr := range resources {
		for _, namespace := range namespaces {
			questions = append(questions, question{gr, namespace})
		}
	}
	found := make([][]string, len(questions))
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(16)
	for i, q := range questions {
		group.Go(func() error {
			resource, subresource, _ := strings.Cut(q.resource.Resource, "/")
			for _, verb := range verbs {
				review, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
					Spec: authorizationv1.SubjectAccessReviewSpec{
						User: who.Impersonate.UserName, Groups: who.Impersonate.Groups,
						ResourceAttributes: &authorizationv1.ResourceAttributes{
							Namespace: q.namespace, Verb: verb, Group: q.resource.Group, Resource: resource, Subresource: subresource,
						},
					},
				}, metav1.CreateOptions{})
				if err != nil {
					return err
				}
				if review.Status.Allowed {
					found[i] = append(found[i], verb)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	for i, q := range questions {
		if len(found[i]) > 0 {
			answers[q] = found[i]
		}
	}
	allowed := map[string]string{}
	for q, verbs := range answers {
		// What everybody may, whatever they are.
		if slices.Contains([]string{"selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"}, q.resource.Resource) {
			continue
		}
		allowed[q.namespace+" "+q.resource.String()] = strings.Join(verbs, " ")
	}
	return allowed
}

// TestAgentRightsOnTheHub: of everything that a hub serves, the agent may write its own
// WorkStatuses and read its own works.
func TestAgentRightsOnTheHub(t *testing.T) {
	_, its, _ := fleet(t)
	hub, _ := join(t, "rights1")
	otherHub, _ := join(t, "rights10") // whose name begins with the other's
	want := map[string]string{
		"rights1 workstatuses.control.kubestellar.io":           "list watch create patch delete",
		"rights1 workstatuses/status.control.kubestellar.io":    "patch",
		"rights1 manifestworks.work.open-cluster-management.io": "list watch",
	}
	if diff := cmp.Diff(want, rights(t, its, hub, "rights1", "rights10", "default", "starling-system", "open-cluster-management-hub", "")); diff != "" {
		t.Errorf("rights of the agent on the hub (-want +got):\n%s", diff)
	}

	// Forged, by the real way: another mailbox's reports are neither created, nor changed, nor
	// removed, by whatever verb.
	client, err := dynamic.NewForConfig(hub)
	if err != nil {
		t.Fatal(err)
	}
	other, err := dynamic.NewForConfig(otherHub)
	if err != nil {
		t.Fatal(err)
	}
	mine := its.create(t, workStatuses, map[string]any{
		"apiVersion": "control.kubestellar.io/v1alpha1", "kind": "WorkStatus",
		"metadata": map[string]any{"name": "true", "namespace": "rights10", "labels": ourLabels()},
		"spec":     map[string]any{"sourceRef": map[string]any{"group": "", "namespace": "n", "resource": "pods", "name": "x"}},
	})
	const forgery = `{"status":{"forged":true}}`
	if _, err := other.Resource(workStatuses).Namespace("rights10").Patch(t.Context(), "true", types.MergePatchType, []byte(`{"status":{"true":true}}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Errorf("the own agent: %v", err)
	}
	objects := client.Resource(workStatuses).Namespace("rights10")
	forged := mine.DeepCopy()
	forged.SetName("forged")
	forged.SetResourceVersion("")
	for what, try := range map[string]func() error{
		"Create": func() error { _, err := objects.Create(t.Context(), forged, metav1.CreateOptions{}); return err },
		"CreateInBodyOnly": func() error {
			// The namespace of the path is one's own, that of the object is not.
			_, err := client.Resource(workStatuses).Namespace("rights1").Create(t.Context(), forged, metav1.CreateOptions{})
			return err
		},
		"Update": func() error { _, err := objects.Update(t.Context(), mine, metav1.UpdateOptions{}); return err },
		"Patch": func() error {
			_, err := objects.Patch(t.Context(), "true", types.MergePatchType, []byte(forgery), metav1.PatchOptions{})
			return err
		},
		"PatchStatus": func() error {
			_, err := objects.Patch(t.Context(), "true", types.MergePatchType, []byte(forgery), metav1.PatchOptions{}, "status")
			return err
		},
		"Apply": func() error {
			_, err := objects.Apply(t.Context(), "forged", forged, metav1.ApplyOptions{FieldManager: "forger", Force: true})
			return err
		},
		"Delete": func() error { return objects.Delete(t.Context(), "true", metav1.DeleteOptions{}) },
		"DeleteAll": func() error {
			return objects.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})
		},
	} {
		if err := try(); err == nil {
			t.Errorf("%s in another mailbox is allowed", what)
		}
	}
	left, err := its.Client.Resource(workStatuses).Namespace("rights10").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(left.Items) != 1 || asJSON(left.Items[0].Object["status"]) != `{"true":true}` {
		t.Errorf("the other mailbox holds %s", asJSON(left.Items))
	}
}

// TestManagerLeavesOtherAddOnsAlone: of what it does not call by its name the manager may change
// nothing but remove reports. It creates works, add-ons and RoleBindings, which can bind the
// agents' rights only.
func TestManagerLeavesOtherAddOnsAlone(t *testing.T) {
	_, its, _ := fleet(t)
	join(t, "rights3")
	got := rights(t, its, managerConfig(its), "rights3")
	maps.DeleteFunc(got, func(_, verbs string) bool { return verbs == "get list watch" || verbs == "list watch" })
	want := map[string]string{
		"rights3 workstatuses.control.kubestellar.io":                      "list delete",
		"rights3 manifestworks.work.open-cluster-management.io":            "list watch create",
		"rights3 clustermanagementaddons.addon.open-cluster-management.io": "list watch create",
		"rights3 managedclusteraddons.addon.open-cluster-management.io":    "list watch create",
		"rights3 rolebindings.rbac.authorization.k8s.io":                   "create",
		"rights3 certificatesigningrequests/approval.certificates.k8s.io":  "update",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rights of the manager (-want +got):\n%s", diff)
	}
}

// TestAgentRightsInTheWEC: the agent renews its Lease, asks who may read its metrics, and reads
// kinds that are reported: no subresource, with which it would control the cluster, and no Secret.
func TestAgentRightsInTheWEC(t *testing.T) {
	_, _, wec := fleet(t)
	_, own := join(t, "rights2")
	got := rights(t, wec, own, agentHome, "default", "kube-system", "")
	lease := agentHome + " leases.coordination.k8s.io"
	if got[lease] != "create" { // and patch, of the one with its name
		t.Errorf("on Leases of its namespace: %s", got[lease])
	}
	delete(got, lease)
	for what, verbs := range got {
		_, resource, _ := strings.Cut(what, " ")
		if verbs == "create" && slices.Contains([]string{"tokenreviews.authentication.k8s.io", "subjectaccessreviews.authorization.k8s.io"}, resource) {
			continue
		}
		resource, _, _ = strings.Cut(resource, ".")
		if verbs != "get list watch" || strings.Contains(resource, "/") ||
			slices.Contains([]string{"secrets", "configmaps", "serviceaccounts", "nodes", "roles", "clusterroles"}, resource) {
			t.Errorf("the agent may %s %s", verbs, what)
		}
	}
	if got["default deployments.apps"] == "" || got["default widgets.test.example.com"] == "" {
		t.Error("the agent may not read what is delivered")
	}
	if got[" tokenreviews.authentication.k8s.io"] == "" || got[" subjectaccessreviews.authorization.k8s.io"] == "" {
		t.Error("the agent may not ask who may read its metrics")
	}
}

// TestDeliveredKindsAreGranted: an agent may read the kinds that its cluster reported as applied,
// as long as there are any.
func TestDeliveredKindsAreGranted(t *testing.T) {
	_, its, _ := fleet(t)
	const cluster = "delivered-kinds"
	join(t, cluster)
	its.create(t, manifestWorks, map[string]any{
		"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
		"metadata": map[string]any{"name": "delivered", "namespace": cluster, "labels": ourLabels()},
		"spec":     map[string]any{"workload": map[string]any{"manifests": []any{}}},
	})
	applied := func(kinds ...string) {
		var manifests []any
		for i, kind := range kinds {
			resource, group, _ := strings.Cut(kind, ".")
			manifests = append(manifests, map[string]any{
				"conditions": []any{}, "resourceMeta": map[string]any{"ordinal": i, "group": group, "resource": resource, "version": "v1", "kind": "X", "name": "x"},
			})
		}
		its.setStatus(t, manifestWorks, cluster, "delivered", map[string]any{"resourceStatus": map[string]any{"manifests": manifests}})
	}
	expect := func(want string) {
		t.Helper()
		testenv.Eventually(t, patience, func() (bool, string) {
			work := its.Get(t, manifestWorks, cluster, "addon-addon-status-kinds")
			if work == nil {
				return want == "", "no work with the kinds"
			}
			manifests, _, _ := unstructured.NestedSlice(work.Object, "spec", "workload", "manifests")
			got := asJSON(manifests[0].(map[string]any)["rules"])
			return got == want, "rules " + got
		})
	}
	applied("deployments.apps", "cogs.example.com", "secrets", "pods/exec", "cogs.example.com")
	const cogs = `[{"apiGroups":["example.com"],"resources":["cogs"],"verbs":["get","list","watch"]}]`
	expect(cogs)
	applied("axles.example.com", "cogs.example.com")
	expect(strings.Replace(cogs, `"cogs"`, `"axles","cogs"`, 1))
	applied()
	expect("[]")
}

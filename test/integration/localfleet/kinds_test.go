package localfleet_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/test/testenv"
)

// agent is the identity of OCM's work agent in a cluster.
const agent = "system:serviceaccount:open-cluster-management-agent:klusterlet-work-sa"

// delivered are the built-in kinds that users deliver. The agent may write them in each cluster.
var delivered = []string{
	"configmaps", "limitranges", "namespaces", "persistentvolumeclaims", "persistentvolumes", "pods", "podtemplates",
	"replicationcontrollers", "resourcequotas", "secrets", "serviceaccounts", "services",
	"daemonsets.apps", "deployments.apps", "replicasets.apps", "statefulsets.apps",
	"cronjobs.batch", "jobs.batch",
	"horizontalpodautoscalers.autoscaling",
	"poddisruptionbudgets.policy",
	"ingressclasses.networking.k8s.io", "ingresses.networking.k8s.io", "networkpolicies.networking.k8s.io",
	"servicecidrs.networking.k8s.io",
	"runtimeclasses.node.k8s.io",
	"priorityclasses.scheduling.k8s.io",
	"deviceclasses.resource.k8s.io", "resourceclaims.resource.k8s.io", "resourceclaimtemplates.resource.k8s.io",
	"csidrivers.storage.k8s.io", "storageclasses.storage.k8s.io", "volumeattributesclasses.storage.k8s.io",
	"clusterrolebindings.rbac.authorization.k8s.io", "clusterroles.rbac.authorization.k8s.io",
	"rolebindings.rbac.authorization.k8s.io", "roles.rbac.authorization.k8s.io",
	"customresourcedefinitions.apiextensions.k8s.io",
	"mutatingwebhookconfigurations.admissionregistration.k8s.io", "validatingwebhookconfigurations.admissionregistration.k8s.io",
	"validatingadmissionpolicies.admissionregistration.k8s.io", "validatingadmissionpolicybindings.admissionregistration.k8s.io",
}

// notDelivered are the built-in kinds that the agent must not write although a policy could select
// them: controllers of each cluster make them, and docs/custom-resources.md says so.
var notDelivered = []string{
	"controllerrevisions.apps",
	"certificatesigningrequests.certificates.k8s.io",
	"resourceslices.resource.k8s.io",
	"volumeattachments.storage.k8s.io",
}

// builtIn returns the resources of a space that can be selected, except those of CRDs and of other
// API servers, and those that are never workload.
func builtIn(t *testing.T, config *rest.Config) []schema.GroupResource {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	lists, err := client.Discovery().ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	custom := groupsOfCRDs(t, config)
	var all []schema.GroupResource
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			gr := schema.GroupResource{Group: gv.Group, Resource: r.Name}
			if !custom[gr.Group] && slices.Contains(r.Verbs, "watch") && !match.NeverResource(gr) {
				all = append(all, gr)
			}
		}
	}
	return all
}

func groupsOfCRDs(t *testing.T, config *rest.Config) map[string]bool {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	list, err := client.Resource(crds).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	groups := map[string]bool{}
	for i := range list.Items {
		_, group, _ := strings.Cut(list.Items[i].GetName(), ".")
		groups[group] = true
	}
	return groups
}

// TestAgentMayApplyBuiltInKinds compares the rights of OCM's work agent with the built-in kinds of
// a cluster. A kind that a new version of Kubernetes adds fails until it is in one of the two
// lists.
func TestAgentMayApplyBuiltInKinds(t *testing.T) {
	f := testenv.Shared(t)
	config := f.Config(t, "cluster1")
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	may := func(verb string, gr schema.GroupResource) (bool, error) {
		review, err := client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{
				User:   agent,
				Groups: []string{"system:serviceaccounts", "system:serviceaccounts:open-cluster-management-agent", "system:authenticated"},
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Verb: verb, Group: gr.Group, Resource: gr.Resource, Namespace: "default", Name: "some",
				},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			return false, err
		}
		return review.Status.Allowed, nil
	}
	var served []string
	for _, gr := range builtIn(t, config) {
		served = append(served, gr.String())
		deliver, not := slices.Contains(delivered, gr.String()), slices.Contains(notDelivered, gr.String())
		if deliver == not {
			t.Errorf("%s: decide whether users may deliver it: see delivered, notDelivered and config/rbac/wec", gr)
			continue
		}
		verbs := []string{"create", "update", "patch", "delete"}
		if deliver {
			verbs = append(verbs, "get", "list", "watch")
		}
		for _, verb := range verbs {
			allowed, err := may(verb, gr)
			if err != nil {
				t.Fatal(err)
			}
			if allowed != deliver {
				t.Errorf("the agent may %s %s: want %t, got %t", verb, gr, deliver, allowed)
			}
		}
	}
	for _, kind := range slices.Concat(delivered, notDelivered) {
		if !slices.Contains(served, kind) {
			t.Errorf("%s is not served", kind)
		}
	}
	// Nothing is granted by a wildcard.
	for _, gr := range []schema.GroupResource{
		{Resource: "nodes"},
		{Group: "apiregistration.k8s.io", Resource: "apiservices"},
		{Resource: "limitranges/status"},
		{Group: "flowcontrol.apiserver.k8s.io", Resource: "flowschemas"},
		{Group: "example.com", Resource: "widgets"},
	} {
		if allowed, err := may("create", gr); err != nil || allowed {
			t.Errorf("the agent may create %s: %t, %v", gr, allowed, err)
		}
	}
}

const builtInObjects = `
apiVersion: work.open-cluster-management.io/v1
kind: ManifestWork
metadata: {name: built-in, namespace: cluster1}
spec:
  workload:
    manifests:
    - {apiVersion: v1, kind: ResourceQuota, metadata: {name: built-in, namespace: default}, spec: {hard: {pods: "100"}}}
    - {apiVersion: v1, kind: LimitRange, metadata: {name: built-in, namespace: default}, spec: {limits: [{type: Pod, max: {cpu: "4"}}]}}
    - apiVersion: v1
      kind: PodTemplate
      metadata: {name: built-in, namespace: default}
      template: {spec: {containers: [{name: c, image: example.com/c}]}}
    - apiVersion: v1
      kind: PersistentVolume
      metadata: {name: built-in}
      spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /tmp}}
    - {apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: built-in}, provisioner: example.com/p}
    - {apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {name: built-in}, spec: {controller: example.com/c}}
    - {apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: built-in}, handler: h}
    - apiVersion: admissionregistration.k8s.io/v1
      kind: ValidatingWebhookConfiguration
      metadata: {name: built-in}
      webhooks: []
`

// TestAgentAppliesAndDeletesBuiltInKinds delivers objects to a cluster with OCM alone.
func TestAgentAppliesAndDeletesBuiltInKinds(t *testing.T) {
	f := testenv.Shared(t)
	file := filepath.Join(t.TempDir(), "work.yaml")
	if err := os.WriteFile(file, []byte(builtInObjects), 0o600); err != nil {
		t.Fatal(err)
	}
	f.Kubectl(t, "its1", "apply", "--filename", file)
	testenv.Eventually(t, 5*time.Minute, func() (bool, string) {
		applied := f.Kubectl(t, "its1", "--namespace", "cluster1", "get", "manifestwork", "built-in", "-o",
			`jsonpath={range .status.resourceStatus.manifests[*]}{.resourceMeta.kind} {.conditions[?(@.type=="Applied")].status} {end}`)
		return strings.Count(applied, " True ") == 8, fmt.Sprintf("applied: %q", applied)
	})
	f.Kubectl(t, "its1", "--namespace", "cluster1", "delete", "manifestwork", "built-in")
	kinds := "resourcequota,limitrange,podtemplate,persistentvolume,storageclass,ingressclass,runtimeclass,validatingwebhookconfiguration"
	if out, err := f.Run("kubectl", "--", "--context", "cluster1", "--namespace", "default", "get", kinds, "--ignore-not-found",
		"-o", `jsonpath={.items[?(@.metadata.name=="built-in")].kind}`); err != nil || out != "" {
		t.Errorf("in the cluster after the deletion: %q, %v", out, err)
	}
}

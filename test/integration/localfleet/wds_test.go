package localfleet_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/starlinghq/starling/test/testenv"
)

// forClusters are objects that would act in the WDS if it were an ordinary cluster.
const forClusters = `
apiVersion: v1
kind: Namespace
metadata: {name: carried, labels: {pod-security.kubernetes.io/enforce: restricted}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: carried}
webhooks:
- name: everything.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {service: {namespace: carried, name: engine}}
  rules: [{apiGroups: ["*"], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: ["*/*"]}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: carried}
webhooks:
- name: everything.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {service: {namespace: carried, name: engine}}
  rules: [{apiGroups: ["*"], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: ["*/*"]}]
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: carried, namespace: carried}
spec: {hard: {services.nodeports: "1", pods: "0"}}
---
apiVersion: v1
kind: LimitRange
metadata: {name: carried, namespace: carried}
spec: {limits: [{type: Container, default: {memory: 1Gi}}]}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: carried}
value: 1000
globalDefault: true
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: carried, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: example.com/p
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.metrics.carried.example.com}
spec:
  group: metrics.carried.example.com
  version: v1beta1
  groupPriorityMinimum: 100
  versionPriority: 100
  insecureSkipTLSVerify: true
  service: {namespace: carried, name: adapter}
`

const carriedObjects = `
apiVersion: v1
kind: Service
metadata: {name: east, namespace: carried}
spec: {type: NodePort, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: west, namespace: carried}
spec: {type: NodePort, ports: [{port: 80}]}
---
apiVersion: v1
kind: Pod
metadata: {name: tool, namespace: carried}
spec: {hostNetwork: true, containers: [{name: c, image: example.com/c, securityContext: {privileged: true}}]}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: carried}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`

// TestWDSCarries: what is written to a WDS for clusters has no effect in the WDS.
func TestWDSCarries(t *testing.T) {
	f := testenv.Shared(t)
	wds := f.Space(t, "wds1")
	wds.Apply(t, forClusters)
	wds.Apply(t, carriedObjects)
	client, err := kubernetes.NewForConfig(wds.Config)
	if err != nil {
		t.Fatal(err)
	}
	core := client.CoreV1()
	pod, err := core.Pods("carried").Get(t.Context(), "tool", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if s := pod.Spec; s.Priority != nil || s.PreemptionPolicy != nil || len(s.Volumes) > 0 || len(s.Tolerations) > 0 || s.ServiceAccountName != "" ||
		len(s.Containers[0].Resources.Limits) > 0 {
		t.Errorf("the WDS completed the Pod as a cluster does: %+v", s)
	}
	claim, err := core.PersistentVolumeClaims("carried").Get(t.Context(), "data", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if claim.Spec.StorageClassName != nil {
		t.Errorf("the WDS chose StorageClass %q", *claim.Spec.StorageClassName)
	}

	// The APIService is stored, and nothing asks its server.
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		_, lists, err := client.Discovery().ServerGroupsAndResources()
		for _, list := range lists {
			if strings.HasPrefix(list.GroupVersion, "metrics.carried.example.com") {
				return false, "discovery has " + list.GroupVersion
			}
		}
		return err == nil, fmt.Sprint(err)
	})
	// So a Namespace can be deleted.
	wds.Delete(t, schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}, "carried", "data")
	if err := core.Namespaces().Delete(t.Context(), "carried", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		namespace, err := core.Namespaces().Get(t.Context(), "carried", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, ""
		}
		return false, fmt.Sprintf("the Namespace is still there: %v %v", namespace.Status.Conditions, err)
	})
	for kind, resource := range map[string]schema.GroupVersionResource{
		"ValidatingWebhookConfiguration": {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"},
		"MutatingWebhookConfiguration":   {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"},
		"APIService":                     {Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"},
		"PriorityClass":                  {Group: "scheduling.k8s.io", Version: "v1", Resource: "priorityclasses"},
		"StorageClass":                   {Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses"},
	} {
		name := "carried"
		if kind == "APIService" {
			name = "v1beta1.metrics.carried.example.com"
		}
		wds.Delete(t, resource, "", name)
	}
}

const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.carried.example.com}
spec:
  group: carried.example.com
  scope: Namespaced
  names: {kind: Widget, listKind: WidgetList, plural: widgets, singular: widget}
  conversion:
    strategy: Webhook
    webhook: {conversionReviewVersions: [v1], clientConfig: {service: {namespace: carried, name: convert}}}
  versions:
  - name: v1alpha1
    served: true
    storage: %t
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: string}, old: {type: string}}}, status: {type: object, properties: {old: {type: string}}}}}}
  - name: v1
    served: true
    storage: %t
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}, new: {type: string, default: x}}}, status: {type: object}, more: {type: string, default: x}}}}
`

// TestWDSReadsObjectsAsStored: a kind with a conversion webhook is readable, its definition stays
// as it was written, and objects are written in its storage version.
func TestWDSReadsObjectsAsStored(t *testing.T) {
	f := testenv.Shared(t)
	wds := f.Space(t, "wds1")
	configMaps := corev1.SchemeGroupVersion.WithResource("configmaps")
	group := schema.GroupVersion{Group: "carried.example.com", Version: "v1"}
	widgets, alpha := group.WithResource("widgets"), schema.GroupVersion{Group: group.Group, Version: "v1alpha1"}.WithResource("widgets")
	wds.Apply(t, fmt.Sprintf(definition, true, false))
	wds.Served(t, widgets, alpha)
	const one = `{apiVersion: carried.example.com/v1alpha1, kind: Widget, metadata: {name: one, namespace: default}, spec: {size: "3", old: keep}}`
	const two = `{apiVersion: carried.example.com/v1, kind: Widget, metadata: {name: two, namespace: default}, spec: {size: 3}}`
	create := func(text string) error {
		obj := testenv.Parse(t, text)
		resource := schema.FromAPIVersionAndKind(obj.GetAPIVersion(), "").GroupVersion().WithResource("widgets")
		_, err := wds.Client.Resource(resource).Namespace("default").Create(t.Context(), obj, metav1.CreateOptions{})
		return err
	}
	if err := create(one); err != nil {
		t.Fatal(err)
	}
	want := "write it as carried.example.com/v1alpha1, the storage version of CustomResourceDefinition widgets.carried.example.com"
	if err := create(two); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("an object of another version: %v; want %q", err, want)
	}
	// Metadata is the same in all versions. kubectl and the garbage collector write it in the
	// preferred one, which lacks a field and has others by default.
	wds.Patch(t, widgets, "default", "one", `{"metadata":{"labels":{"a":"b"}}}`)
	keeps := func(when string) {
		t.Helper()
		got := wds.Get(t, alpha, "default", "one")
		if diff := cmp.Diff(map[string]any{"size": "3", "old": "keep"}, got.Object["spec"]); diff != "" || got.GetLabels()["a"] != "b" || got.Object["more"] != nil {
			t.Errorf("%s: %v; spec (-want +got):\n%s", when, got.Object, diff)
		}
	}
	keeps("after a label")
	wds.Patch(t, alpha, "default", "one", `{"status":{"old":"keep"}}`, "status")
	if _, err := wds.Client.Resource(widgets).Namespace("default").Patch(t.Context(), "one", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"c"}}}`), metav1.PatchOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a label with which the API server would drop a field of the status: %v", err)
	}
	keeps("after another label")
	_, err := wds.Client.Resource(widgets).Namespace("default").Patch(t.Context(), "one", types.MergePatchType, []byte(`{"spec":{"size":4}}`), metav1.PatchOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("a change in another version: %v", err)
	}
	foreground := metav1.DeletePropagationForeground
	if err := wds.Client.Resource(widgets).Namespace("default").Delete(t.Context(), "one", metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		t.Error(err)
	}
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		_, err := wds.Client.Resource(alpha).Namespace("default").Get(t.Context(), "one", metav1.GetOptions{})
		return apierrors.IsNotFound(err), fmt.Sprint("the object waits for its dependents: ", err)
	})
	if err := create(one); err != nil {
		t.Fatal(err)
	}
	owner := wds.Create(t, configMaps, "default", "widget-owner", nil)
	wds.Patch(t, widgets, "default", "one", fmt.Sprintf(
		`{"metadata":{"labels":{"a":"b"},"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"widget-owner","uid":%q}]}}`, owner.GetUID()))
	orphan := metav1.DeletePropagationOrphan
	if err := wds.Client.Resource(configMaps).Namespace("default").Delete(t.Context(), "widget-owner", metav1.DeleteOptions{PropagationPolicy: &orphan}); err != nil {
		t.Error(err)
	}
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		owners := wds.Get(t, alpha, "default", "one").GetOwnerReferences()
		return len(owners) == 0, fmt.Sprint("the garbage collector has not written the object: ", owners)
	})
	keeps("after its owner left it")

	wds.Apply(t, fmt.Sprintf(definition, false, true))
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		err := create(two)
		return err == nil || apierrors.IsAlreadyExists(err), fmt.Sprint(err)
	})
	for _, resource := range []schema.GroupVersionResource{widgets, alpha} {
		list, err := wds.Client.Resource(resource).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 2 {
			t.Errorf("%s: %v, %v", resource, list, err)
		}
	}
	if got := wds.Get(t, alpha, "default", "one").Object["spec"].(map[string]any)["size"]; got != "3" { //nolint:forcetypeassert // see one
		t.Errorf("the first object has size %v", got)
	}
	// It says that it may lack something, also after it was stored in the new version by a write
	// that does not concern that. It lacks nothing once it was applied in that version.
	lacks := func(when, name, want string) {
		t.Helper()
		if got := wds.Get(t, widgets, "default", name).GetAnnotations()["starling.io/not-converted-from"]; got != want {
			t.Errorf("%s: %s is not converted from %q, want %q", when, name, got, want)
		}
	}
	apply := func(size string) {
		t.Helper()
		applied := testenv.Parse(t, `{apiVersion: carried.example.com/v1, kind: Widget, metadata: {name: one, namespace: default}, spec: {size: `+size+`}}`)
		if _, err := wds.Client.Resource(widgets).Namespace("default").Apply(t.Context(), "one", applied, metav1.ApplyOptions{FieldManager: "tool", Force: true}); err != nil {
			t.Error(err)
		}
	}
	lacks("after the storage version moved", "one", "v1alpha1")
	lacks("after the storage version moved", "two", "")
	wds.Patch(t, widgets, "default", "two", `{"metadata":{"labels":{"a":"c"}}}`)
	wds.Patch(t, alpha, "default", "two", `{"metadata":{"labels":{"a":"d"}}}`)
	lacks("after labels in both versions", "two", "")
	wds.Patch(t, widgets, "default", "one", `{"metadata":{"labels":{"a":"c"}},"spec":{"size":3}}`)
	lacks("after an edit", "one", "v1alpha1")
	apply("3")
	lacks("after another applied it", "one", "v1alpha1")
	wds.Patch(t, widgets, "default", "one", `{"metadata":{"annotations":{"starling.io/not-converted-from":null}}}`)
	lacks("after its user said so", "one", "")
	apply("4")
	lacks("after another apply", "one", "")
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	conversion := wds.Get(t, crds, "", "widgets.carried.example.com").Object["spec"].(map[string]any)["conversion"].(map[string]any) //nolint:forcetypeassert // see definition
	if conversion["strategy"] != "Webhook" {
		t.Errorf("the definition has conversion %v", conversion)
	}
	wds.Delete(t, crds, "", "widgets.carried.example.com")
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		_, err := wds.Client.Resource(crds).Get(t.Context(), "widgets.carried.example.com", metav1.GetOptions{})
		return apierrors.IsNotFound(err), fmt.Sprint("the definition is still there: ", err)
	})
}

const accounts = `
apiVersion: v1
kind: Namespace
metadata: {name: tenant}
---
apiVersion: v1
kind: Namespace
metadata: {name: starling-system}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: operator, namespace: tenant}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: operator, namespace: starling-system}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: operator, namespace: kube-system}
---
apiVersion: v1
kind: Secret
type: kubernetes.io/service-account-token
metadata: {name: token, namespace: tenant, annotations: {kubernetes.io/service-account.name: operator}}
---
apiVersion: v1
kind: Secret
type: kubernetes.io/service-account-token
metadata: {name: token, namespace: kube-system, annotations: {kubernetes.io/service-account.name: operator}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: tenant-operator}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects:
- {kind: ServiceAccount, name: operator, namespace: tenant}
- {kind: ServiceAccount, name: operator, namespace: starling-system}
- {kind: ServiceAccount, name: operator, namespace: kube-system}
`

// TestWorkloadAccountsHaveNoRights: a ServiceAccount that is for clusters gets no token of the WDS,
// and has no rights there, whatever RBAC says. An ITS is an ordinary hub.
func TestWorkloadAccountsHaveNoRights(t *testing.T) {
	f := testenv.Shared(t)
	for _, tc := range []struct {
		space, namespace string
		want             bool
	}{
		{"wds1", "tenant", false},
		{"wds1", "kube-system", false},
		{"wds1", "starling-system", true},
		{"its1", "tenant", true},
	} {
		t.Run(tc.space+" "+tc.namespace, func(t *testing.T) {
			space := f.Space(t, tc.space)
			space.Apply(t, accounts)
			client, err := kubernetes.NewForConfig(space.Config)
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.CoreV1().ServiceAccounts(tc.namespace).CreateToken(t.Context(), "operator", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
			if (err == nil) != tc.want {
				t.Errorf("a token: %v", err)
			}
			if err != nil && !strings.Contains(err.Error(), "create a ServiceAccount in Namespace starling-system") {
				t.Errorf("the error does not say what to do: %v", err)
			}
			testenv.Allowed(t, space.Config, tc.want, "system:serviceaccount:"+tc.namespace+":operator",
				authorizationv1.ResourceAttributes{Verb: "get", Resource: "secrets", Namespace: corev1.NamespaceAll})
		})
	}
	// No controller writes a token into a Secret of the WDS, also in the time in which one in the
	// ITS gets its own.
	token := func(space, namespace string) bool {
		secret := f.Space(t, space).Get(t, corev1.SchemeGroupVersion.WithResource("secrets"), namespace, "token")
		return secret.Object["data"] != nil
	}
	testenv.Eventually(t, testenv.Patience, func() (bool, string) { return token("its1", "tenant"), "the Secret in the ITS has no token" })
	for _, namespace := range []string{"tenant", "kube-system"} {
		if token("wds1", namespace) {
			t.Errorf("Secret token in %s of the WDS has a token", namespace)
		}
	}
}

package transport

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/transform"
	"github.com/starlinghq/starling/test/testenv"
)

// author is a client that writes objects, in one of the ways that exist.
type author struct {
	*testing.T
	objects dynamic.ResourceInterface
}

func (a *author) must(o *unstructured.Unstructured, err error) *unstructured.Unstructured {
	a.Helper()
	if err != nil {
		a.Fatal(err)
	}
	return o
}

// create writes as `kubectl create` and helm 3 do.
func (a *author) create(o *unstructured.Unstructured) {
	a.must(a.objects.Create(a.Context(), o, metav1.CreateOptions{FieldManager: "kubectl-create"}))
}

// apply writes as `kubectl apply` does.
func (a *author) apply(o *unstructured.Unstructured) {
	raw, err := json.Marshal(o)
	if err != nil {
		a.Fatal(err)
	}
	o.SetAnnotations(map[string]string{"kubectl.kubernetes.io/last-applied-configuration": string(raw)})
	a.must(a.objects.Create(a.Context(), o, metav1.CreateOptions{FieldManager: "kubectl-client-side-apply"}))
}

// applyServerSide writes as `kubectl apply --server-side` does.
func (a *author) applyServerSide(o *unstructured.Unstructured) {
	a.must(a.objects.Apply(a.Context(), o.GetName(), o, metav1.ApplyOptions{FieldManager: "kubectl", Force: true}))
}

// replace creates the object, and writes it again as `kubectl replace` does.
func (a *author) replace(o *unstructured.Unstructured) {
	a.create(o.DeepCopy())
	a.must(a.objects.Update(a.Context(), o, metav1.UpdateOptions{FieldManager: "kubectl-replace"}))
}

// writeBack creates the object, and writes what the server made of it.
func (a *author) writeBack(o *unstructured.Unstructured) {
	a.create(o.DeepCopy())
	live := a.get(o.GetName())
	live.SetLabels(map[string]string{"written": "back"})
	a.must(a.objects.Update(a.Context(), live, metav1.UpdateOptions{FieldManager: "an-operator"}))
}

// forget creates the object, takes away who wrote it, and applies another field of it.
func (a *author) forget(o *unstructured.Unstructured) {
	a.create(o.DeepCopy())
	a.patch(o.GetName(), `{"metadata":{"managedFields":[{}]}}`)
	some := &unstructured.Unstructured{Object: map[string]any{"apiVersion": o.GetAPIVersion(), "kind": o.GetKind()}}
	some.SetName(o.GetName())
	some.SetLabels(map[string]string{"some": "label"})
	a.must(a.objects.Apply(a.Context(), o.GetName(), some, metav1.ApplyOptions{FieldManager: "kubectl"}))
}

func (a *author) get(name string) *unstructured.Unstructured {
	return a.must(a.objects.Get(a.Context(), name, metav1.GetOptions{}))
}

func (a *author) patch(name, patch string, subresources ...string) {
	a.must(a.objects.Patch(a.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "kubectl-edit"}, subresources...))
}

// ways are all ways to write an object.
var ways = map[string]func(*author, *unstructured.Unstructured){
	"Create": (*author).create, "Apply": (*author).apply, "ApplyServerSide": (*author).applyServerSide, "Replace": (*author).replace,
	"WriteBack": (*author).writeBack, "Forget": (*author).forget,
}

// traffic are the fields of a Service that an API server sets.
var traffic = []string{
	"externalTrafficPolicy", "internalTrafficPolicy", "sessionAffinity", "sessionAffinityConfig", "ipFamilyPolicy", "ipFamilies", "clusterIP",
	"clusterIPs", "healthCheckNodePort", "ports",
}

var selected = []string{"suspend", "selector", "manualSelector", "template"}

// project returns these fields of a spec: of ports the nodePort, of a template the labels, of
// containers the volumeMounts.
func project(spec map[string]any, fields []string) map[string]any {
	shown := map[string]any{}
	each := func(list any, field string) []any {
		items, _ := list.([]any)
		all := []any{}
		for _, item := range items {
			if value := item.(map[string]any)[field]; value != nil {
				all = append(all, value)
			}
		}
		return all
	}
	for _, field := range fields {
		value, ok := spec[field]
		switch {
		case !ok:
			continue
		case field == "ports":
			value = each(value, "nodePort")
		case field == "containers":
			value = each(value, "volumeMounts")
		case field == "template":
			value, _, _ = unstructured.NestedMap(spec, "template", "metadata", "labels")
		}
		if list, ok := value.([]any); !ok || len(list) > 0 {
			shown[field] = value
		}
	}
	return shown
}

// TestWhatUsersWriteArrives: of the fields that an API server sets by defaults or allocates, those
// that users wrote are delivered, in whichever way they wrote them, and no others. If it is
// not recorded that a user wrote a default, it is not delivered: the cluster has the same.
func TestWhatUsersWriteArrives(t *testing.T) {
	space := testenv.Shared(t).Space(t, "wds1")
	namespace := testenv.Name(t)
	space.Apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: "+namespace+"}}")
	space.Apply(t, "{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: "+namespace+"}}")
	apps := func(resource string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: resource}
	}
	core := func(resource string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Version: "v1", Resource: resource}
	}
	const (
		service    = `apiVersion: v1, kind: Service`
		deployment = `apiVersion: apps/v1, kind: Deployment`
		job        = `apiVersion: batch/v1, kind: Job`
		template   = `template: {metadata: {labels: {app: a}}, spec: {containers: [{name: c, image: example.com/none}]}}`
		once       = `template: {metadata: {labels: {app: a}}, spec: {restartPolicy: Never, containers: [{name: c, image: example.com/none}]}}`
		ofA        = `selector: {matchLabels: {app: a}}, ` + template
		labelled   = `{"metadata":{"labels":{"touched":"yes"}}}`
	)
	replicas := []string{"replicas"}
	immutable := map[string]string{"Replace": ""}
	static := 1 // node ports and addresses that the API server does not allocate by itself
	for name, tc := range map[string]struct {
		resource schema.GroupVersionResource
		head     string
		spec     string
		fields   []string
		// edit is a merge patch afterwards, of a subresource.
		edit, subresource string
		// want are the fields that are delivered, and in ways in which something else is; "" for a
		// way that the kind does not have.
		want string
		in   map[string]string
	}{
		"ServiceOfDefaults": {services, service, `{type: LoadBalancer, ports: [{port: 80}]}`, traffic, "", "", `{}`, nil},
		"ServiceOfAUser": {
			services, service, `{type: LoadBalancer, externalTrafficPolicy: Local, internalTrafficPolicy: Local, ipFamilyPolicy: PreferDualStack,
				sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 600}}, ports: [{name: a, port: 80, nodePort: 300NN}, {name: b, port: 81}]}`,
			traffic, "", "",
			`{externalTrafficPolicy: Local, internalTrafficPolicy: Local, ipFamilyPolicy: PreferDualStack,
				sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 600}}, ports: [300NN]}`,
			map[string]string{"Forget": `{externalTrafficPolicy: Local, internalTrafficPolicy: Local,
				sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 600}}}`},
		},
		"ServiceWithExplicitDefaults": {
			services, service, `{type: NodePort, externalTrafficPolicy: Cluster, internalTrafficPolicy: Cluster, sessionAffinity: None, ipFamilyPolicy: SingleStack, ports: [{port: 80}]}`,
			traffic, "", "", `{}`,
			map[string]string{
				"Apply":           `{externalTrafficPolicy: Cluster, internalTrafficPolicy: Cluster, sessionAffinity: None, ipFamilyPolicy: SingleStack}`,
				"ApplyServerSide": `{externalTrafficPolicy: Cluster, internalTrafficPolicy: Cluster, sessionAffinity: None, ipFamilyPolicy: SingleStack}`,
			},
		},
		"ServiceWithAffinity": {services, service, `{sessionAffinity: ClientIP, ports: [{port: 80}]}`, traffic, "", "", `{sessionAffinity: ClientIP}`, nil},
		"ServiceOfOneFamily": {
			services, service, `{ipFamilies: [IPv4], ports: [{port: 80}]}`, traffic, "", "", `{ipFamilies: [IPv4]}`, map[string]string{"Forget": `{}`},
		},
		"ServiceWithAnAddress": {
			services, service, `{clusterIP: 10.0.0.NN, ports: [{port: 80}]}`, traffic, "", "", `{clusterIP: 10.0.0.NN}`, map[string]string{"Forget": `{}`},
		},
		"ServiceWithAnEmptyAddress": {
			services, service, `{clusterIP: "", type: NodePort, ports: [{port: 80, nodePort: 0}]}`, traffic, "", "", `{}`,
			map[string]string{"ApplyServerSide": ""}, // then nothing tells them from what was allocated
		},
		"HeadlessService":     {services, service, `{clusterIP: None}`, traffic, "", "", `{clusterIP: None, clusterIPs: [None]}`, nil},
		"ServiceIsEdited":     {services, service, `{type: NodePort, ports: [{port: 80}]}`, traffic, `{"spec":{"externalTrafficPolicy":"Local"}}`, "", `{externalTrafficPolicy: Local}`, nil},
		"ServiceIsLabelled":   {services, service, `{type: NodePort, ports: [{port: 80}]}`, traffic, labelled, "", `{}`, nil},
		"ServiceOfTwoNumbers": {services, service, `{type: NodePort, ports: [{name: a, port: 53, protocol: UDP, nodePort: 300NN}, {name: b, port: 53}]}`, traffic, "", "", `{ports: [300NN]}`, map[string]string{"Forget": `{}`}},

		"Deployment":             {deployments, deployment, `{` + ofA + `}`, replicas, "", "", `{}`, nil},
		"DeploymentIsLabelled":   {deployments, deployment, `{` + ofA + `}`, replicas, labelled, "", `{}`, nil},
		"DeploymentOfOneReplica": {deployments, deployment, `{replicas: 1, ` + ofA + `}`, replicas, labelled, "", `{}`, map[string]string{"Apply": `{replicas: 1}`, "ApplyServerSide": `{replicas: 1}`}},
		"DeploymentOfFive":       {deployments, deployment, `{replicas: 5, ` + ofA + `}`, replicas, labelled, "", `{replicas: 5}`, nil},
		"DeploymentOfNone":       {deployments, deployment, `{replicas: 0, ` + ofA + `}`, replicas, "", "", `{replicas: 0}`, nil},
		"DeploymentIsScaled":     {deployments, deployment, `{replicas: 2, ` + ofA + `}`, replicas, `{"spec":{"replicas":1}}`, "scale", `{replicas: 1}`, nil},
		"StatefulSet":            {apps("statefulsets"), `apiVersion: apps/v1, kind: StatefulSet`, `{serviceName: a, ` + ofA + `}`, replicas, "", "", `{}`, nil},
		"ReplicaSet":             {apps("replicasets"), `apiVersion: apps/v1, kind: ReplicaSet`, `{` + ofA + `}`, replicas, "", "", `{}`, nil},
		"ReplicationController": {
			core("replicationcontrollers"), `apiVersion: v1, kind: ReplicationController`, `{selector: {app: a}, ` + template + `}`, replicas, "", "", `{}`, nil,
		},

		"Job":          {jobs, job, `{` + once + `}`, selected, "", "", `{manualSelector: false, template: {app: a, batch.kubernetes.io/job-name: NAME, job-name: NAME}}`, immutable},
		"SuspendedJob": {jobs, job, `{suspend: true, ` + once + `}`, []string{"suspend"}, "", "", `{suspend: true}`, immutable},
		"JobIsResumed": {jobs, job, `{suspend: true, ` + once + `}`, []string{"suspend"}, `{"spec":{"suspend":false}}`, "", `{}`, map[string]string{"Apply": `{suspend: false}`, "Replace": ""}},
		"JobWithASelector": {
			jobs, job, `{manualSelector: true, selector: {matchLabels: {controller-uid: mine}}, template: {metadata: {labels: {controller-uid: mine}},
				spec: {restartPolicy: Never, containers: [{name: c, image: example.com/none}]}}}`, selected, "", "",
			`{manualSelector: true, selector: {matchLabels: {controller-uid: mine}}, template: {controller-uid: mine}}`, nil,
		},

		"Pod": {
			core("pods"), `apiVersion: v1, kind: Pod`, `{tolerations: [{key: mine, operator: Exists}], containers: [{name: c, image: example.com/none}]}`,
			[]string{"priority", "preemptionPolicy", "nodeName", "volumes", "tolerations", "containers", "imagePullSecrets"},
			labelled, "",
			`{tolerations: [{key: mine, operator: Exists}]}`, immutable,
		},
	} {
		for way, write := range ways {
			static++
			name, want, number := strings.ToLower(name+"-"+way), tc.want, fmt.Sprintf("%02d", static%85)
			if other, ok := tc.in[way]; ok {
				want = other
			}
			if want == "" {
				continue
			}
			t.Run(tc.head[strings.LastIndex(tc.head, " ")+1:]+"/"+name, func(t *testing.T) {
				fill := strings.NewReplacer("10.0.0.NN", fmt.Sprint("10.0.0.", 2+static%14), "NN", number, "NAME", name)
				read := func(text string) (fields map[string]any) {
					raw, err := yaml.YAMLToJSON([]byte(fill.Replace(text)))
					if err != nil || kjson.Unmarshal(raw, &fields) != nil {
						t.Fatalf("%s: %v", text, err)
					}
					return fields
				}
				o := &unstructured.Unstructured{Object: read(`{` + tc.head + `, spec: ` + tc.spec + `}`)}
				o.SetName(name)
				o.SetNamespace(namespace)
				a := &author{t, space.Client.Resource(tc.resource).Namespace(namespace)}
				write(a, o)
				t.Cleanup(func() { space.Remove(t, tc.resource, namespace, name) })
				if tc.subresource != "" {
					a.patch(name, tc.edit, tc.subresource)
				} else if tc.edit != "" {
					a.patch(name, tc.edit)
				}
				live := a.get(name)
				managed := live.GetManagedFields()
				delivered, err := transform.Standard().Apply(objref.New(tc.resource.GroupResource(), namespace, name), live.Object)
				if err != nil {
					t.Fatal(err)
				}
				var got map[string]any
				if err := kjson.Unmarshal(delivered.JSON, &got); err != nil {
					t.Fatal(err)
				}
				spec, _ := got["spec"].(map[string]any)
				if diff := cmp.Diff(read(want), project(spec, tc.fields)); diff != "" {
					t.Errorf("delivered (-want +got):\n%s\nof %s\nby %v", diff, delivered.JSON, managed)
				}
			})
		}
	}
}

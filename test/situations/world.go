// Package situations has situations in which an object of a fleet may be. Tests explain each of
// them: from facts, and from API servers that have what the controllers would have written.
package situations

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/customize"
	"github.com/starlinghq/starling/pkg/core/foresight"
	"github.com/starlinghq/starling/pkg/core/foresight/explain"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// Now is the time of all explanations.
var Now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

var Web = objref.Ref{Group: "apps", Resource: "deployments", Namespace: "shop", Name: "web"}

// deployment returns the object in the WDS.
func deployment(ref objref.Ref) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{
			"name": ref.Name, "namespace": ref.Namespace, "uid": "u1", "generation": int64(2), "creationTimestamp": Now.Add(-time.Hour).Format(time.RFC3339),
			"labels": map[string]any{"app": "web"},
		},
		"spec": map[string]any{
			"replicas": int64(2), "selector": map[string]any{"matchLabels": map[string]any{"app": "web"}},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"app": "web"}},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "web", "image": "example.com/web:1"}}},
			},
		},
	}}
}

func Condition(kind string, is metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: is, Reason: reason, Message: message}
}

// PolicyOf returns a policy that selects objects with the label app=NAME for clusters with the
// label env=prod.
func PolicyOf(name string) *controlv1alpha1.BindingPolicy {
	return &controlv1alpha1.BindingPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("policy-" + name), Generation: 3, CreationTimestamp: metav1.NewTime(Now.Add(-time.Hour))},
		Spec: controlv1alpha1.BindingPolicySpec{
			ClusterSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"env": "prod"}}},
			Downsync: []controlv1alpha1.DownsyncPolicyClause{{DownsyncObjectTest: controlv1alpha1.DownsyncObjectTest{
				ObjectSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"app": name}}},
			}}},
		},
		Status: controlv1alpha1.BindingPolicyStatus{
			ObservedGeneration: 3, Conditions: []metav1.Condition{Condition("Synced", metav1.ConditionTrue, "Synced", "")},
		},
	}
}

// BindingOf returns a Binding that lists the objects for the clusters.
func BindingOf(name string, refs []objref.Ref, clusters ...string) *controlv1alpha1.Binding {
	b := &controlv1alpha1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("binding-" + name), Generation: 7, CreationTimestamp: metav1.NewTime(Now.Add(-time.Hour))},
		Status: controlv1alpha1.BindingStatus{ObservedGeneration: 7, Conditions: []metav1.Condition{
			Condition("Delivered", metav1.ConditionTrue, "Delivered", "1 object for 3 clusters"),
			Condition("Applied", metav1.ConditionTrue, "Applied", "1 object for 3 clusters"),
			Condition("Healthy", metav1.ConditionTrue, "Healthy", "1 object for 3 clusters"),
		}},
	}
	for _, ref := range refs {
		b.Spec.Workload.NamespaceScope = append(b.Spec.Workload.NamespaceScope, controlv1alpha1.NamespaceScopeDownsyncClause{
			NamespaceScopeDownsyncObject: controlv1alpha1.NamespaceScopeDownsyncObject{
				Group: ref.Group, Version: "v1", Resource: ref.Resource, Namespace: ref.Namespace, Name: ref.Name,
			},
		})
	}
	for _, cluster := range clusters {
		b.Spec.Destinations = append(b.Spec.Destinations, controlv1alpha1.Destination{ClusterID: cluster})
	}
	return b
}

func ClusterOf(name string) *foresight.Cluster {
	return &foresight.Cluster{
		Name: name, ITS: "its1", Accepted: true, Joined: true, Kubernetes: "v1.35.0", Labels: map[string]string{"env": "prod"},
		Available: foresight.Availability{Status: metav1.ConditionTrue, Since: Now.Add(-time.Hour)},
		Lease:     foresight.Known(&foresight.Lease{Renewed: Now.Add(-12 * time.Second), Every: time.Minute}),
		AddOn:     foresight.Known(&foresight.AddOn{Available: foresight.Availability{Status: metav1.ConditionTrue}}),
	}
}

// ContentOf returns the content with which an object is delivered.
func ContentOf(t testing.TB, ref objref.Ref, live *unstructured.Unstructured) transform.Object {
	t.Helper()
	source := status.Source{UID: live.GetUID(), Generation: live.GetGeneration()}
	object, err := transform.Standard(transform.Source(source)).Apply(ref, live.DeepCopy().Object)
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// WorkOf returns a work that delivers an object, which is applied.
func WorkOf(t testing.TB, b *controlv1alpha1.Binding, cluster string, ref objref.Ref, live *unstructured.Unstructured) *plan.Work {
	t.Helper()
	object := ContentOf(t, ref, live)
	return &plan.Work{
		Mailbox: cluster, Name: b.Name + "-1", UID: types.UID("work-" + b.Name + cluster), Generation: 1, BindingUID: b.UID, Binding: b.Name, Begun: true,
		Created: Now.Add(-time.Hour).Unix(),
		Items: []plan.Item{{
			Ref: ref, Kind: live.GetKind(), Version: "v1", Hash: object.Hash, Bare: object.Bare, Source: object.Source.UID, State: plan.Applied, Reported: true, Since: Now.Add(-time.Hour).Unix(),
		}},
	}
}

// healthyReports has that of a Deployment with all its replicas.
func healthyReports() map[objref.Ref]*status.Report {
	return map[objref.Ref]*status.Report{Web: {Generation: 1, Source: status.Source{UID: "u1", Generation: 2}, Status: map[string]any{
		"observedGeneration": int64(1), "replicas": int64(2), "updatedReplicas": int64(2), "readyReplicas": int64(2), "availableReplicas": int64(2),
		"conditions": []any{map[string]any{"type": "Available", "status": "True"}},
	}}}
}

// World is an object of which all is well: a policy selects it, and it is in three clusters.
type World struct {
	explain.Object

	t         testing.TB
	Selecting *controlv1alpha1.BindingPolicy
	Binding   *controlv1alpha1.Binding
}

func NewWorld(t testing.TB) *World {
	t.Helper()
	w := &World{t: t, Selecting: PolicyOf("web"), Binding: BindingOf("web", []objref.Ref{Web}, "c1", "c2", "c3")}
	w.Object = explain.Object{
		Ref: Web, Version: "v1", Live: foresight.Known(deployment(Web)), Namespace: foresight.Known(map[string]string{"team": "a"}),
		Policies:         foresight.Known([]explain.Selection{{Policy: w.Selecting, Bindings: foresight.Known([]*controlv1alpha1.Binding{w.Binding})}}),
		CustomTransforms: foresight.Known[[]*controlv1alpha1.CustomTransform](nil),
		Fleet:            explain.Fleet{Now: Now, Clusters: foresight.Known(map[string]*foresight.Cluster{}), Mailboxes: map[string]*explain.Mailbox{}},
	}
	for _, name := range []string{"c1", "c2", "c3"} {
		w.Clusters.Value[name] = ClusterOf(name)
		w.Mailboxes[name] = &explain.Mailbox{
			Works: foresight.Known([]*plan.Work{WorkOf(t, w.Binding, name, Web, w.Live.Value)}), Reports: foresight.Known(healthyReports()),
			Properties: foresight.Known(customize.NewProperties(name)),
		}
	}
	return w
}

// Item returns the object in the mailbox of a cluster.
func (w *World) Item(cluster string) *plan.Item { return &w.Mailboxes[cluster].Works.Value[0].Items[0] }

// Fails makes a cluster refuse the object.
func (w *World) Fails(cluster, message string) {
	item := w.Item(cluster)
	item.State, item.Reason, item.Message = plan.Failed, "AppliedManifestFailed", "Failed to apply manifest: "+message
}

func (w *World) Undelivered(cluster string) { w.Mailboxes[cluster].Works.Value = nil }

// Unlist makes the Binding list nothing.
func (w *World) Unlist() { w.Binding.Spec.Workload.NamespaceScope = nil }

func (w *World) SetSynced(is metav1.ConditionStatus, reason, message string) {
	w.Selecting.Status.Conditions = []metav1.Condition{Condition("Synced", is, reason, message)}
}

func (w *World) live() *unstructured.Unstructured { return w.Live.Value }

// endObject deletes the object, which waits for a finalizer.
func (w *World) endObject() {
	at := metav1.NewTime(Now)
	w.live().SetDeletionTimestamp(&at)
	w.live().SetFinalizers([]string{"example.com/wait"})
}

// annotate sets an annotation of the object, with which it is delivered.
func (w *World) annotate(key, value string) {
	annotations := w.live().GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	w.live().SetAnnotations(annotations)
}

func (w *World) only(cluster string) { w.Cluster = cluster }

// Draw returns an explanation without and with the links that are good.
func Draw(e *explain.Explanation) string {
	var b strings.Builder
	e.Draw(&b, false)
	b.WriteString("\n--- with --all\n")
	e.Draw(&b, true)
	return b.String()
}

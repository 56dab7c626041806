package explain

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/core/foresight"
	coreexplain "github.com/starlinghq/starling/pkg/core/foresight/explain"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/core/transform"
	"github.com/starlinghq/starling/pkg/works"
	"github.com/starlinghq/starling/test/situations"
	"github.com/starlinghq/starling/test/testenv"
)

var (
	namespaces    = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	leases        = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
	addOns        = schema.GroupVersionResource{Group: "addon.open-cluster-management.io", Version: "v1alpha1", Resource: "managedclusteraddons"}
	manifestWorks = workv1.SchemeGroupVersion.WithResource("manifestworks")
)

// fleet writes situations into a WDS and an ITS, as users, the controllers and OCM would.
type fleet struct {
	t        *testing.T
	wds, its *testenv.Space
	// start is the time of the situation.
	start time.Time
	// uids has the real UIDs of Bindings, by those of the situation; wdsUID is that of the WDS.
	uids   map[types.UID]types.UID
	wdsUID types.UID
	// version is that of the object.
	version string
}

// shifted returns a time of the situation.
func (f *fleet) shifted(at time.Time) time.Time { return f.start.Add(at.Sub(situations.Now)) }

// object returns a typed object as JSON has it.
func object(t *testing.T, typed any) map[string]any {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		t.Fatal(err)
	}
	return fields
}

// create creates an object without what a server sets; it goes at the end of the test.
func (f *fleet) create(space *testenv.Space, resource schema.GroupVersionResource, kind string, fields map[string]any) *unstructured.Unstructured {
	f.t.Helper()
	o := &unstructured.Unstructured{Object: maps.Clone(fields)}
	o.SetAPIVersion(resource.GroupVersion().String())
	o.SetKind(kind)
	o.SetUID("")
	o.SetGeneration(0)
	o.SetCreationTimestamp(metav1.Time{})
	deleted := o.GetDeletionTimestamp() != nil
	o.SetDeletionTimestamp(nil)
	if deleted && len(o.GetFinalizers()) == 0 {
		o.SetFinalizers([]string{"example.com/wait"})
	}
	namespace, name := o.GetNamespace(), o.GetName()
	client := space.Client.Resource(resource).Namespace(namespace)
	created, err := client.Create(f.t.Context(), o, metav1.CreateOptions{})
	if err != nil {
		f.t.Fatalf("create %s %s/%s: %v", kind, namespace, name, err)
	}
	f.t.Cleanup(func() { space.Remove(f.t, resource, namespace, name) })
	if deleted {
		space.Delete(f.t, resource, namespace, name)
		return space.Get(f.t, resource, namespace, name) // its generation is another one
	}
	return created
}

// report writes the status of an object.
func (f *fleet) report(space *testenv.Space, resource schema.GroupVersionResource, o *unstructured.Unstructured, of any) {
	f.t.Helper()
	raw, err := json.Marshal(map[string]any{"status": of})
	if err != nil {
		f.t.Fatal(err)
	}
	space.Patch(f.t, resource, o.GetNamespace(), o.GetName(), string(raw), "status")
}

// conditions returns conditions with the time that they must have.
func (f *fleet) conditions(all []metav1.Condition) []metav1.Condition {
	all = slices.Clone(all)
	for i := range all {
		if all[i].LastTransitionTime.IsZero() {
			all[i].LastTransitionTime = metav1.NewTime(f.start)
		}
		if all[i].Reason == "" {
			all[i].Reason = "Reason"
		}
	}
	return all
}

// write writes a situation.
func (f *fleet) write(w *situations.World) {
	f.t.Helper()
	generation := int64(0)
	if w.Live.Value != nil {
		generation = w.Live.Value.GetGeneration()
	}
	live := f.writeObject(w)
	if live != nil {
		f.version = live.GetResourceVersion()
	}
	for i := range w.Policies.Value {
		f.writePolicy(&w.Policies.Value[i])
	}
	for _, b := range w.Loose {
		f.writeBinding(b, nil)
	}
	if w.Binding.Labels[controlv1alpha1.LabelPackageRepository] != "" { // it delivers a package
		f.writeBinding(w.Binding, nil)
	}
	if w.Holds.Value != nil {
		f.writeBinding(w.Holds.Value, nil)
	}
	if running := w.Running.Value.Transaction; running != "" {
		f.create(f.wds, pkgv1alpha1.Transactions, "Transaction", map[string]any{
			"metadata": map[string]any{"name": running}, "spec": map[string]any{"change": "Delete", "delete": map[string]any{"source": "example.com/aws"}},
		})
		f.create(f.wds, pkgv1beta1.Locks, "Lock", map[string]any{
			"metadata": map[string]any{"name": pkgv1beta1.LockName, "annotations": map[string]any{pkgv1beta1.AnnotationCurrentTransaction: running}},
		})
	}
	for _, ct := range w.CustomTransforms.Value {
		f.create(f.wds, controlv1alpha1.CustomTransforms, "CustomTransform", object(f.t, ct))
	}
	for _, c := range w.Clusters.Value {
		f.writeCluster(c)
	}
	for name, box := range w.Mailboxes {
		f.its.Apply(f.t, "{apiVersion: v1, kind: Namespace, metadata: {name: "+name+"}}")
		for _, work := range box.Works.Value {
			f.writeWork(w, work, live)
		}
		if report := box.Reports.Value[w.Ref]; report != nil && len(w.Packages.Value) > 0 {
			report.Source = status.Source{} // the object is not in the WDS
			f.writeReport(w, name, "Deployment", report)
		} else if report != nil && live != nil {
			switch of := report.Source.Generation; { // the object has another one here
			case generation > 0 && of == generation:
				report.Source = status.Source{UID: live.GetUID(), Generation: live.GetGeneration()}
			case of > 0 && of < generation:
				report.Source = status.Source{UID: live.GetUID(), Generation: 1}
			case report.Source.UID != "":
				report.Source.UID = live.GetUID()
			}
			f.writeReport(w, name, live.GetKind(), report)
		}
	}
}

func (f *fleet) writeObject(w *situations.World) *unstructured.Unstructured {
	f.t.Helper()
	if w.Ref.Namespace != "" {
		f.wds.Apply(f.t, "{apiVersion: v1, kind: Namespace, metadata: {name: "+w.Ref.Namespace+", labels: {team: a}}}")
	}
	// An object that may not be read exists nevertheless.
	o := w.Live.Value
	if o == nil && w.Live.Unread != "" {
		o = situations.NewWorld(f.t).Live.Value
	}
	if o == nil {
		return nil
	}
	resource := w.Ref.GroupResource().WithVersion(o.GroupVersionKind().Version)
	if w.Ref.Name == "kube-root-ca.crt" {
		return f.wds.Get(f.t, resource, w.Ref.Namespace, w.Ref.Name) // of a controller
	}
	edited := o.GetKind() == "Deployment" && o.GetGeneration() > 1
	created := f.create(f.wds, resource, o.GetKind(), o.Object)
	if edited {
		for _, paused := range []string{"true", "null"} {
			created = f.wds.Patch(f.t, resource, w.Ref.Namespace, w.Ref.Name, `{"spec":{"paused":`+paused+`}}`)
		}
	}
	return created
}

func (f *fleet) writePolicy(s *coreexplain.Selection) {
	f.t.Helper()
	fields := object(f.t, s.Policy)
	delete(fields, "status")
	created := f.create(f.wds, controlv1alpha1.BindingPolicies, "BindingPolicy", fields)
	st := s.Policy.Status.DeepCopy()
	st.Conditions = f.conditions(st.Conditions)
	st.ObservedGeneration = max(created.GetGeneration()-(s.Policy.Generation-s.Policy.Status.ObservedGeneration), 0)
	f.report(f.wds, controlv1alpha1.BindingPolicies, created, st)
	for _, b := range s.Bindings.Value {
		f.writeBinding(b, created)
	}
}

// writeBinding writes a Binding, which a policy owns if there is one.
func (f *fleet) writeBinding(b *controlv1alpha1.Binding, owner *unstructured.Unstructured) {
	f.t.Helper()
	b = b.DeepCopy()
	for i := range b.Spec.Workload.NamespaceScope {
		entry := &b.Spec.Workload.NamespaceScope[i]
		entry.ResourceVersion = cmp.Or(entry.ResourceVersion, f.version, "1")
	}
	fields := object(f.t, b)
	delete(fields, "status")
	o := &unstructured.Unstructured{Object: fields}
	if owner != nil {
		o.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.GroupVersionKind())})
	}
	created := f.create(f.wds, controlv1alpha1.Bindings, "Binding", o.Object)
	f.uids[b.UID] = created.GetUID()
	st := b.Status.DeepCopy()
	st.Conditions = f.conditions(st.Conditions)
	st.ObservedGeneration = created.GetGeneration() - (b.Generation - b.Status.ObservedGeneration)
	f.report(f.wds, controlv1alpha1.Bindings, created, st)
}

func (f *fleet) writeCluster(c *foresight.Cluster) {
	f.t.Helper()
	f.its.Apply(f.t, "{apiVersion: v1, kind: Namespace, metadata: {name: "+c.Name+"}}")
	fields := map[string]any{
		"metadata": map[string]any{"name": c.Name, "labels": asAny(c.Labels)},
		"spec":     map[string]any{"hubAcceptsClient": c.Accepted, "leaseDurationSeconds": int64(60)},
	}
	if c.Leaving {
		fields["metadata"].(map[string]any)["deletionTimestamp"] = f.start.Format(time.RFC3339) //nolint:forcetypeassert // see above
	}
	created := f.create(f.its, clusters.ManagedClusters, "ManagedCluster", fields)
	all := []metav1.Condition{{Type: "ManagedClusterConditionAvailable", Status: c.Available.Status, Message: c.Available.Message, LastTransitionTime: metav1.NewTime(f.shifted(c.Available.Since))}}
	if c.Joined {
		all = append(all, metav1.Condition{Type: "ManagedClusterJoined", Status: metav1.ConditionTrue})
	}
	if c.NameTaken != "" {
		all = append(all, metav1.Condition{Type: controlv1alpha1.ManagedClusterConditionNameTaken, Status: metav1.ConditionTrue, Message: c.NameTaken})
	}
	f.report(f.its, clusters.ManagedClusters, created, map[string]any{"conditions": f.conditions(all), "version": map[string]any{"kubernetes": c.Kubernetes}})
	if lease := c.Lease.Value; lease != nil {
		f.create(f.its, leases, "Lease", map[string]any{
			"metadata": map[string]any{"name": "managed-cluster-lease", "namespace": c.Name},
			"spec":     map[string]any{"renewTime": f.shifted(lease.Renewed).UTC().Format(metav1.RFC3339Micro)},
		})
	}
	if c.AddOn.Value != nil {
		o := f.create(f.its, addOns, "ManagedClusterAddOn", map[string]any{
			"metadata": map[string]any{"name": "addon-status", "namespace": c.Name}, "spec": map[string]any{},
		})
		available := c.AddOn.Value.Available
		is := metav1.Condition{Type: "Available", Status: available.Status, Message: available.Message}
		if !available.Since.IsZero() {
			is.LastTransitionTime = metav1.NewTime(f.shifted(available.Since))
		}
		f.report(f.its, addOns, o, map[string]any{"conditions": f.conditions([]metav1.Condition{is})})
	}
}

func asAny(labels map[string]string) map[string]any {
	fields := map[string]any{}
	for key, value := range labels {
		fields[key] = value
	}
	return fields
}

// writeWork writes a work with the content of the object: its current content, if the situation
// says that the mailbox has it.
func (f *fleet) writeWork(w *situations.World, work *plan.Work, live *unstructured.Unstructured) {
	f.t.Helper()
	m := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
		Name: work.Name, Namespace: work.Mailbox, Finalizers: []string{workv1.ManifestWorkFinalizer},
		Labels:      map[string]string{controlv1alpha1.LabelBindingUID: string(work.BindingUID), controlv1alpha1.LabelWDSUID: string(f.wdsUID)},
		Annotations: map[string]string{controlv1alpha1.AnnotationBinding: work.Binding},
	}}
	if uid, known := f.uids[work.BindingUID]; known {
		m.Labels[controlv1alpha1.LabelBindingUID] = string(uid)
	}
	if work.Foreign != (plan.WDS{}) {
		m.Labels[controlv1alpha1.LabelWDSUID], m.Labels[controlv1alpha1.LabelWDSName] = string(work.Foreign.UID), work.Foreign.Name
	}
	if work.Restored != "" {
		m.Annotations[controlv1alpha1.AnnotationRestored] = work.Restored
	}
	var entries []plan.Entry
	for i := range work.Items {
		item := &work.Items[i]
		entries = append(entries, plan.Entry{Ref: item.Ref, Options: item.Options, Kind: item.Kind})
		m.Spec.Workload.Manifests = append(m.Spec.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: f.manifest(w, item, live)}})
	}
	m.Annotations[controlv1alpha1.AnnotationKinds] = works.Kinds(entries)
	rest := works.Remainder(entries)
	m.Spec.ManifestConfigs, m.Spec.DeleteOption = rest.ManifestConfigs, rest.DeleteOption
	created := f.create(f.its, manifestWorks, "ManifestWork", object(f.t, m))
	f.report(f.its, manifestWorks, created, f.applied(work, created.GetGeneration()))
}

// manifest returns the content of an item.
func (f *fleet) manifest(w *situations.World, item *plan.Item, live *unstructured.Unstructured) []byte {
	f.t.Helper()
	if item.Ref != w.Ref || live == nil || item.Withdrawn {
		withdrawn, err := transform.Withdrawn(item.Ref, schema.GroupVersionKind{Group: item.Ref.Group, Version: item.Version, Kind: item.Kind}, item.Source)
		if err != nil {
			f.t.Fatal(err)
		}
		return withdrawn.JSON
	}
	content := live.DeepCopy()
	if w.Live.Value != nil {
		if current := situations.ContentOf(f.t, w.Ref, w.Live.Value); item.Content() != current.Content() {
			content.SetAnnotations(map[string]string{"example.com/older": "true"})
		}
	}
	delivered := situations.ContentOf(f.t, w.Ref, content)
	if item.Source == "" { // it is delivered without its source
		var err error
		if delivered, err = delivered.Shared(false); err != nil {
			f.t.Fatal(err)
		}
	}
	return delivered.JSON
}

// applied returns what the agent reports of a work.
func (f *fleet) applied(work *plan.Work, generation int64) workv1.ManifestWorkStatus {
	st := workv1.ManifestWorkStatus{}
	for i := range work.Items {
		item := &work.Items[i]
		m := workv1.ManifestCondition{ResourceMeta: workv1.ManifestResourceMeta{
			Ordinal: int32(i),
			Group:   item.Ref.Group, Version: item.Version, Kind: item.Kind, Resource: item.Ref.Resource, Namespace: item.Ref.Namespace, Name: item.Ref.Name,
		}, Conditions: []metav1.Condition{}}
		since := metav1.NewTime(f.shifted(time.Unix(item.Since, 0)))
		c := metav1.Condition{Type: workv1.ManifestApplied, Status: metav1.ConditionTrue, Reason: "AppliedManifestComplete", ObservedGeneration: generation, LastTransitionTime: since}
		if item.State == plan.Failed {
			c.Status, c.Reason, c.Message = metav1.ConditionFalse, item.Reason, item.Message
		}
		if item.State != plan.Pending {
			m.Conditions = append(m.Conditions, c)
		}
		st.ResourceStatus.Manifests = append(st.ResourceStatus.Manifests, m)
	}
	return st
}

func (f *fleet) writeReport(w *situations.World, cluster, kind string, report *status.Report) {
	f.t.Helper()
	raw, err := json.Marshal(report.Status)
	if err != nil {
		f.t.Fatal(err)
	}
	ws := &controlv1alpha1.WorkStatus{
		ObjectMeta: metav1.ObjectMeta{
			Name: status.ReportName(w.Ref), Namespace: cluster, Annotations: map[string]string{controlv1alpha1.AnnotationGeneration: "1"},
		},
		Spec: controlv1alpha1.WorkStatusSpec{SourceRef: controlv1alpha1.SourceRef{
			Group: w.Ref.Group, Version: "v1", Resource: w.Ref.Resource, Kind: kind, Name: w.Ref.Name, Namespace: w.Ref.Namespace,
		}},
	}
	if source := report.Source.String(); source != "" {
		ws.Annotations[controlv1alpha1.AnnotationSourceGeneration] = source
	}
	if report.Gone {
		ws.Annotations[controlv1alpha1.AnnotationGone] = "true"
	}
	fields := object(f.t, ws)
	delete(fields, "status")
	created := f.create(f.its, controlv1alpha1.WorkStatuses, "WorkStatus", fields)
	f.its.Patch(f.t, controlv1alpha1.WorkStatuses, cluster, created.GetName(), `{"status":`+strings.TrimSpace(string(raw))+`}`, "status")
}

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	workv1 "open-cluster-management.io/api/work/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/localfleet"
	"github.com/starlinghq/starling/test/testenv"
)

// A walk makes random changes of a WDS for some time, stops processes of the fleet meanwhile, and
// expects that each cluster then has exactly what the policies select, with the content of the WDS.
// An object that was to be in a cluster all the time must not have been re-created there. See
// walkOf.
type walk struct {
	*story
	random *rand.Rand

	objects  []*walkObject
	policies map[string][]string // the clusters of each policy that exists
	served   bool                // whether the WDS serves the custom kind
	resume   func()              // of the component that is paused

	// spans counts for each copy how often it was no longer to be in its cluster.
	spans map[walkCopy]int
	// seen are the copies that were found in their clusters.
	seen map[walkCopy]walkSeen
	log  []string
	// interrupted: since the last check a process was killed without which OCM's agent cannot work.
	interrupted bool
	// left is the number of copies that OCM's agent left in clusters.
	left int
}

type walkObject struct {
	resource schema.GroupVersionResource
	name     string
	// exists, policy and value are what the WDS has: the label that one policy selects, and the
	// content.
	exists        bool
	policy, value string
}

type walkCopy struct{ cluster, resource, name string }

type walkSeen struct {
	span int
	uid  types.UID
}

var (
	walkClusters = []string{"cluster1", "cluster2"}
	walkPolicies = []string{"a", "b"}
	widgets      = schema.GroupVersionResource{Group: "walk.example.com", Version: "v1", Resource: "widgets"}
	appliedWorks = schema.GroupVersionResource{Group: "work.open-cluster-management.io", Version: "v1", Resource: "appliedmanifestworks"}
	definitions  = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

const widgetDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.walk.example.com}
spec:
  group: walk.example.com
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// walkOf returns for how long a walk lasts and with which seed: STARLING_WALK is a duration,
// STARLING_WALK_SEED a number that repeats the choices of an earlier walk.
func walkOf(t *testing.T) (duration time.Duration, seed uint64) {
	t.Helper()
	duration, seed = 2*time.Minute, rand.Uint64()
	var err error
	if text := os.Getenv("STARLING_WALK"); text != "" {
		if duration, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	if text := os.Getenv("STARLING_WALK_SEED"); text != "" {
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	return duration, seed
}

func TestWalk(t *testing.T) {
	duration, seed := walkOf(t)
	t.Logf("to repeat its choices: STARLING_WALK=%s STARLING_WALK_SEED=%d", duration, seed)
	w := &walk{
		story: tell(t, testenv.Shared(t)), random: rand.New(rand.NewPCG(seed, 0)), served: true, resume: func() {},
		policies: map[string][]string{}, spans: map[walkCopy]int{}, seen: map[walkCopy]walkSeen{},
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the walk:\n%s", strings.Join(w.log, "\n"))
		}
	})
	w.prepare()
	t.Cleanup(func() { // before all is removed
		if t.Failed() {
			w.logWorks()
		}
	})
	changes := []struct {
		weight int
		do     func()
	}{
		{10, w.edit}, {10, w.relabel}, {6, w.createOrDelete}, {3, w.setClusters}, {2, w.togglePolicy}, {2, w.serve}, {2, w.kill}, {1, w.pause},
	}
	var deck []func()
	for _, c := range changes {
		deck = append(deck, slices.Repeat([]func(){c.do}, c.weight)...)
	}
	const between = 25 // changes from one check to the next
	for end := time.Now().Add(duration); time.Now().Before(end); {
		for range between {
			deck[w.random.IntN(len(deck))]()
		}
		w.check()
	}
	t.Logf("%d changes; OCM's agent left %d copies", len(w.log), w.left)
}

// prepare creates the kind, the Namespace, and all objects and policies.
func (w *walk) prepare() {
	w.Helper()
	for _, space := range append([]string{"wds1"}, walkClusters...) {
		w.create(space, definitions, widgetDefinition)
	}
	for _, cluster := range walkClusters {
		w.create(cluster, grouped("rbac.authorization.k8s.io", "clusterroles"), `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: $NAME, labels: {open-cluster-management.io/aggregate-to-work: "true"}}
rules: [{apiGroups: [walk.example.com], resources: [widgets], verbs: ["*"]}]`)
	}
	w.namespace()
	w.policy(both) // the Namespace stays in the clusters
	for i := range 10 {
		w.objects = append(w.objects, &walkObject{resource: configMaps, name: fmt.Sprint("map-", i)})
	}
	for i := range 4 {
		w.objects = append(w.objects, &walkObject{resource: widgets, name: fmt.Sprint("widget-", i)})
	}
	for _, o := range w.objects {
		w.createObject(o)
	}
	for _, name := range walkPolicies {
		w.createPolicy(name)
	}
	w.Cleanup(func() { // before the Namespace goes: what is not served cannot be deleted
		w.awaken()
		w.setServed(true)
		for _, name := range walkPolicies {
			w.remove("wds1", controlv1alpha1.BindingPolicies, "", w.name+"-"+name)
		}
	})
	w.check()
}

// eventually repeats a change until the WDS has it: processes are killed meanwhile.
func (w *walk) eventually(what string, change func(context.Context) error) {
	w.Helper()
	w.log = append(w.log, time.Now().Format(time.TimeOnly)+" "+what)
	var last error
	err := wait.PollUntilContextTimeout(contextOf(w.T), 20*time.Millisecond, arrival, true, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		last = change(ctx)
		return last == nil, nil
	})
	if err != nil {
		w.Fatalf("%s: %v", what, last)
	}
}

// changed notes which copies are no longer to be in their clusters.
func (w *walk) changed(change func()) {
	before := w.wanted()
	change()
	after := w.wanted()
	for c := range before {
		if _, still := after[c]; !still {
			w.spans[c]++
		}
	}
}

// wanted returns the copies that are to be in the clusters.
func (w *walk) wanted() map[walkCopy]*walkObject {
	copies := map[walkCopy]*walkObject{}
	for _, o := range w.objects {
		for _, cluster := range w.policies[o.policy] {
			if o.exists {
				copies[walkCopy{cluster, o.resource.Resource, o.name}] = o
			}
		}
	}
	return copies
}

// some returns a random object that can be changed now, nil if there is none.
func (w *walk) some(exists bool) *walkObject {
	var found []*walkObject
	for _, o := range w.objects {
		if o.exists == exists && (w.served || o.resource != widgets) {
			found = append(found, o)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return found[w.random.IntN(len(found))]
}

func (w *walk) patchObject(ctx context.Context, o *walkObject, patch string) error {
	_, err := w.space("wds1", o.resource).Namespace(w.name).Patch(ctx, o.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

func (w *walk) edit() {
	o := w.some(true)
	if o == nil {
		return
	}
	o.value = fmt.Sprint(w.random.IntN(1000))
	w.eventually("edit "+o.name+" to "+o.value, func(ctx context.Context) error {
		return w.patchObject(ctx, o, fmt.Sprintf(`{"data":{"value":%q}}`, o.value))
	})
}

func (w *walk) relabel() {
	o := w.some(true)
	if o == nil {
		return
	}
	policy := []string{"a", "b", "a", "b", "none"}[w.random.IntN(5)]
	w.changed(func() { o.policy = policy })
	w.eventually("give "+o.name+" to "+o.policy, func(ctx context.Context) error {
		return w.patchObject(ctx, o, fmt.Sprintf(`{"metadata":{"labels":{"walk":%q}}}`, o.policy))
	})
}

func (w *walk) createOrDelete() {
	if o := w.some(false); o != nil && w.random.IntN(3) > 0 {
		w.createObject(o)
		return
	}
	o := w.some(true)
	if o == nil {
		return
	}
	w.changed(func() { o.exists = false })
	w.eventually("delete "+o.name, func(ctx context.Context) error {
		err := w.space("wds1", o.resource).Namespace(w.name).Delete(ctx, o.name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

func (w *walk) createObject(o *walkObject) {
	w.Helper()
	o.exists, o.policy, o.value = true, walkPolicies[w.random.IntN(2)], fmt.Sprint(w.random.IntN(1000))
	kind := map[schema.GroupVersionResource]string{configMaps: "ConfigMap", widgets: "Widget"}[o.resource]
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": o.resource.GroupVersion().String(), "kind": kind, "data": map[string]any{"value": o.value},
		"metadata": map[string]any{"name": o.name, "labels": map[string]any{"walk": o.policy}},
	}}
	w.eventually("create "+o.name+" for "+o.policy, func(ctx context.Context) error {
		_, err := w.space("wds1", o.resource).Namespace(w.name).Create(ctx, obj, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) { // the first attempt was not answered
			return nil
		}
		return err
	})
}

// someClusters returns one cluster, or both.
func (w *walk) someClusters() []string {
	if i := w.random.IntN(4); i < len(walkClusters) {
		return walkClusters[i : i+1]
	}
	return walkClusters
}

func selectorOf(clusters []string) []any {
	values := make([]any, len(clusters))
	for i, cluster := range clusters {
		values[i] = cluster
	}
	return []any{map[string]any{"matchExpressions": []any{map[string]any{"key": "name", "operator": "In", "values": values}}}}
}

func (w *walk) setClusters() {
	name := walkPolicies[w.random.IntN(2)]
	if w.policies[name] == nil {
		return
	}
	clusters := w.someClusters()
	w.changed(func() { w.policies[name] = clusters })
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"clusterSelectors": selectorOf(clusters)}})
	if err != nil {
		w.Fatal(err)
	}
	w.eventually(fmt.Sprintf("policy %s for %v", name, clusters), func(ctx context.Context) error {
		_, err := w.space("wds1", controlv1alpha1.BindingPolicies).Patch(ctx, w.name+"-"+name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
}

func (w *walk) togglePolicy() {
	name := walkPolicies[w.random.IntN(2)]
	if w.policies[name] == nil {
		w.createPolicy(name)
		return
	}
	w.changed(func() { delete(w.policies, name) })
	w.eventually("delete policy "+name, func(ctx context.Context) error {
		err := w.space("wds1", controlv1alpha1.BindingPolicies).Delete(ctx, w.name+"-"+name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

// createPolicy creates a policy, when the last one of its name is gone. That one waits for objects
// of a kind that is not served: another policy could select them.
func (w *walk) createPolicy(name string) {
	w.Helper()
	w.awaken()
	if !w.served {
		w.setServed(true)
	}
	clusters := w.someClusters()
	policy := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "control.kubestellar.io/v1alpha1", "kind": "BindingPolicy", "metadata": map[string]any{"name": w.name + "-" + name},
		"spec": map[string]any{
			"clusterSelectors": selectorOf(clusters),
			"downsync": []any{map[string]any{
				"namespaces": []any{w.name}, "objectSelectors": []any{map[string]any{"matchLabels": map[string]any{"walk": name}}},
			}},
		},
	}}
	w.policies[name] = clusters
	w.eventually(fmt.Sprintf("create policy %s for %v", name, clusters), func(ctx context.Context) error {
		client := w.space("wds1", controlv1alpha1.BindingPolicies)
		_, err := client.Create(ctx, policy, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		last, err := client.Get(ctx, policy.GetName(), metav1.GetOptions{})
		if err == nil && last.GetDeletionTimestamp() != nil {
			return fmt.Errorf("the last one is still being deleted: %v", last.Object["status"])
		}
		return err
	})
}

// serve lets the WDS serve the custom kind, or no longer.
func (w *walk) serve() { w.setServed(!w.served) }

func (w *walk) setServed(served bool) {
	w.Helper()
	w.served = served
	w.eventually(fmt.Sprintf("the kind is served: %t", served), func(ctx context.Context) error {
		patch := fmt.Appendf(nil, `[{"op":"replace","path":"/spec/versions/0/served","value":%t}]`, served)
		_, err := w.space("wds1", definitions).Patch(ctx, "widgets.walk.example.com", types.JSONPatchType, patch, metav1.PatchOptions{})
		if err != nil || !served {
			return err
		}
		_, err = w.space("wds1", widgets).Namespace(w.name).List(ctx, metav1.ListOptions{})
		return err
	})
}

// kill kills a process of the fleet, which its supervisor starts again.
func (w *walk) kill() {
	var running []localfleet.ComponentStatus
	for _, c := range w.fleet.Components(w) {
		if c.PID != 0 {
			running = append(running, c)
		}
	}
	victim := running[w.random.IntN(len(running))]
	w.log = append(w.log, time.Now().Format(time.TimeOnly)+" kill "+victim.Name)
	testenv.KillProcess(w, victim) // one that was killed a moment ago may end others
	for _, needed := range []string{"klusterlet", "kube-apiserver", "etcd"} {
		w.interrupted = w.interrupted || strings.HasSuffix(victim.Name, needed)
	}
}

// pause stops a controller for a while, so that it is late.
func (w *walk) pause() {
	w.awaken()
	names := []string{"wds1/transport-controller", "wds1/binding-controller", "cluster1/klusterlet", "cluster2/klusterlet"}
	c := w.fleet.Component(w, names[w.random.IntN(len(names))])
	if c.PID == 0 {
		return
	}
	w.log = append(w.log, time.Now().Format(time.TimeOnly)+" pause "+c.Name)
	w.resume = testenv.PauseProcess(w, c)
}

// awaken ends a pause.
func (w *walk) awaken() {
	w.resume()
	w.resume = func() {}
}

// check waits until each cluster has exactly what it is to have, and compares UIDs with those of
// the last check.
func (w *walk) check() {
	w.Helper()
	w.awaken()
	if !w.served {
		w.setServed(true)
	}
	wanted := w.wanted()
	var found map[walkCopy]*unstructured.Unstructured
	var left leftovers
	// An agent that is killed may delete an object for one work that it has just applied for
	// another one: it read its owners before. Then it looks for the copy after four to six minutes.
	testenv.Eventually(w, 4*arrival, func() (bool, string) {
		var err error
		if found, err = w.found(); err != nil {
			return false, err.Error()
		}
		wrong := difference(wanted, found)
		if len(wrong) == 0 {
			return true, ""
		}
		unlisted, err := w.unlisted(wanted, found)
		if err != nil {
			return false, err.Error()
		}
		if w.interrupted && len(unlisted) == len(wrong) && left.stay(unlisted) {
			err = w.removeLeftovers(unlisted)
			return false, fmt.Sprintf("OCM's agent left %v (%v)", unlisted, err)
		}
		return false, fmt.Sprintf("%d copies are wrong: %s; in no AppliedManifestWork: %v",
			len(wrong), strings.Join(wrong[:min(len(wrong), 9)], ", "), unlisted)
	})
	w.interrupted = false
	for c, obj := range found {
		if before, known := w.seen[c]; known && before.span == w.spans[c] && before.uid != obj.GetUID() {
			w.Errorf("%s %s in %s was re-created", c.resource, c.name, c.cluster)
		}
		w.seen[c] = walkSeen{w.spans[c], obj.GetUID()}
	}
	w.log = append(w.log, time.Now().Format(time.TimeOnly)+" checked")
}

// logWorks logs what the clusters have reported of the works that hold something of the walk.
func (w *walk) logWorks() {
	for _, cluster := range walkClusters {
		list, err := w.space("its1", manifestWorks).Namespace(cluster).List(contextOf(w.T), metav1.ListOptions{})
		if err != nil {
			w.Log(err)
			continue
		}
		for i := range list.Items {
			work := &list.Items[i]
			if binding := work.GetAnnotations()[controlv1alpha1.AnnotationBinding]; strings.HasPrefix(binding, w.name) {
				manifests, _, _ := unstructured.NestedSlice(work.Object, "status", "resourceStatus", "manifests")
				text, _ := json.Marshal(manifests)
				w.Logf("%s %s of %s, generation %d, deleted %v: %s", cluster, work.GetName(), binding, work.GetGeneration(), work.GetDeletionTimestamp(), text)
			}
		}
	}
}

// mostLeft is more than OCM's agent leaves in ten minutes.
const mostLeft = 5

// leftovers are copies that OCM's agent has left in a cluster: it applies an object, then makes its
// AppliedManifestWork the owner, then reports the object, then records it there. If it is
// interrupted in between, by its end or that of an API server, and the object leaves its work
// before it is back, the object stays (TestReportBeforeAccount in test/integration/workagent,
// docs/orphans.md).
type leftovers struct {
	copies []walkCopy
	since  time.Time
}

// stay reports whether these copies have been the leftovers for so long that the agent cannot be
// about to record them.
func (l *leftovers) stay(copies []walkCopy) bool {
	if !slices.Equal(l.copies, copies) {
		l.copies, l.since = copies, time.Now()
	}
	return time.Since(l.since) > 10*time.Second
}

// unlisted returns the copies that are not wanted and that no AppliedManifestWork lists, sorted:
// nothing will ever remove them.
func (w *walk) unlisted(wanted map[walkCopy]*walkObject, found map[walkCopy]*unstructured.Unstructured) (copies []walkCopy, err error) {
	w.Helper()
	for _, cluster := range walkClusters {
		list, err := w.space(cluster, appliedWorks).List(contextOf(w.T), metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		listed := map[walkCopy]bool{}
		for i := range list.Items {
			account := &workv1.AppliedManifestWork{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, account); err != nil {
				return nil, err
			}
			for _, r := range account.Status.AppliedResources {
				listed[walkCopy{cluster, r.Resource, r.Name}] = true
			}
		}
		for c := range found {
			if _, is := wanted[c]; !is && c.cluster == cluster && !listed[c] {
				copies = append(copies, c)
			}
		}
	}
	slices.SortFunc(copies, func(a, b walkCopy) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return copies, nil
}

// removeLeftovers removes copies as an administrator would.
func (w *walk) removeLeftovers(copies []walkCopy) error {
	w.Helper()
	resources := map[string]schema.GroupVersionResource{configMaps.Resource: configMaps, widgets.Resource: widgets}
	if w.left += len(copies); w.left > mostLeft {
		w.Fatalf("%d copies were left in clusters, the last of them %v: OCM's agent leaves one at times, and not so many", w.left, copies)
	}
	for _, c := range copies {
		w.log = append(w.log, time.Now().Format(time.TimeOnly)+" OCM's agent left "+c.name+" in "+c.cluster)
		err := w.space(c.cluster, resources[c.resource]).Namespace(w.name).Delete(contextOf(w.T), c.name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// found returns the copies that are in the clusters.
func (w *walk) found() (map[walkCopy]*unstructured.Unstructured, error) {
	found := map[walkCopy]*unstructured.Unstructured{}
	for _, cluster := range walkClusters {
		for _, resource := range []schema.GroupVersionResource{configMaps, widgets} {
			list, err := w.space(cluster, resource).Namespace(w.name).List(contextOf(w.T), metav1.ListOptions{LabelSelector: "walk"})
			if err != nil {
				return nil, err
			}
			for i := range list.Items {
				found[walkCopy{cluster, resource.Resource, list.Items[i].GetName()}] = &list.Items[i]
			}
		}
	}
	return found, nil
}

// difference returns what clusters lack, what they have though they should not, and what differs,
// sorted.
func difference(wanted map[walkCopy]*walkObject, found map[walkCopy]*unstructured.Unstructured) (wrong []string) {
	copies := maps.Clone(found)
	for c, o := range wanted {
		obj := copies[c]
		delete(copies, c)
		if obj == nil {
			wrong = append(wrong, fmt.Sprintf("%s lacks %s", c.cluster, c.name))
			continue
		}
		if value, _, _ := unstructured.NestedString(obj.Object, "data", "value"); value != o.value || obj.GetLabels()["walk"] != o.policy {
			wrong = append(wrong, fmt.Sprintf("%s has %s with %q for %q, want %q for %q", c.cluster, c.name, value, obj.GetLabels()["walk"], o.value, o.policy))
		}
	}
	for c := range copies {
		wrong = append(wrong, fmt.Sprintf("%s has %s", c.cluster, c.name))
	}
	slices.Sort(wrong)
	return wrong
}

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

var (
	deployments   = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	namespaces    = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	manifestWorks = schema.GroupVersionResource{Group: "work.open-cluster-management.io", Version: "v1", Resource: "manifestworks"}
)

const (
	// name is the name of the namespace and the policy that are measured.
	name = "starling-perf"
	// objects is the number of objects that are edited in turn. A status that changes often is
	// reported once a second, but the first change after a pause is measured.
	objects = 8
	// bareName is the name of the namespace and the objects that only OCM delivers.
	bareName = "starling-perf-bare"
)

// A Deployment without replicas: its controller only changes its status after each change of its
// spec. The edited field is minReadySeconds.
const object = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: $OBJECT, namespace: $NAME, labels: {measured: starling-perf}}
spec:
  replicas: 0
  minReadySeconds: 1
  selector: {matchLabels: {app: perf}}
  template:
    metadata: {labels: {app: perf}}
    spec: {containers: [{name: perf, image: "example.com/perf:1"}]}`

const namespace = `{apiVersion: v1, kind: Namespace, metadata: {name: $NAME, labels: {measured: starling-perf}}}`

// bystander is an object that is not edited, with 200 bytes of data.
const bystander = `{apiVersion: v1, kind: ConfigMap, metadata: {name: $OBJECT, namespace: $NAME, labels: {measured: starling-perf}}, data: {key: "` +
	"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789" +
	"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789" + `"}}`

const policy = `
apiVersion: control.kubestellar.io/v1alpha1
kind: BindingPolicy
metadata: {name: starling-perf}
spec:
  clusterSelectors: [{matchLabels: {starling-perf: here}}]
  downsync:
  - objectSelectors: [{matchLabels: {measured: starling-perf}}]
    wantSingletonReportedState: true`

var managedClusters = schema.GroupVersionResource{Group: "cluster.open-cluster-management.io", Version: "v1", Resource: "managedclusters"}

// editPath is the measured path: some objects, and a watch at each place on their path.
type editPath struct {
	cluster       string
	wds, its, wec *dynamic.DynamicClient

	works, placed, bare, reports, returned *observer
	// generation is that of the object in the WEC after the last edit.
	generation int64
}

func newEditPath(_ context.Context, o *options) (*editPath, error) {
	p := &editPath{cluster: o.wec}
	for context, client := range map[string]**dynamic.DynamicClient{o.wds: &p.wds, o.its: &p.its, o.wec: &p.wec} {
		config, err := contextConfig(o.kubeconfig, context)
		if err != nil {
			return nil, err
		}
		if *client, err = dynamic.NewForConfig(config); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// prepare places the objects, with others beside them, and blocks until their status has returned
// once. It returns how long after the policy was created all of them were in the WEC.
func (p *editPath) prepare(ctx context.Context, others int) (took time.Duration, err error) {
	_, err = p.its.Resource(managedClusters).Patch(ctx, p.cluster, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"starling-perf":"here"}}}`), metav1.PatchOptions{})
	if err != nil {
		return 0, err
	}
	p.works = observe(ctx, p.its.Resource(manifestWorks).Namespace(p.cluster), workVersion)
	p.placed = observe(ctx, p.wec.Resource(deployments).Namespace(name), specAndStatus)
	p.bare = observe(ctx, p.wec.Resource(deployments).Namespace(bareName), specAndStatus)
	p.reports = observe(ctx, p.its.Resource(controlv1alpha1.WorkStatuses).Namespace(p.cluster), reportVersion)
	p.returned = observe(ctx, p.wds.Resource(deployments).Namespace(name), specAndStatus)

	if _, err := p.wds.Resource(namespaces).Create(ctx, parse(namespace, name, ""), metav1.CreateOptions{}); err != nil {
		return 0, err
	}
	for i := range objects {
		if _, err := p.wds.Resource(deployments).Namespace(name).Create(ctx, parse(object, name, nameOf(i)), metav1.CreateOptions{}); err != nil {
			return 0, err
		}
	}
	for i := range others {
		if _, err := p.wds.Resource(configMaps).Namespace(name).Create(ctx, parse(bystander, name, nameOf(i)), metav1.CreateOptions{}); err != nil {
			return 0, err
		}
	}
	copies := observe(ctx, p.wec.Resource(configMaps).Namespace(name), func(obj *unstructured.Unstructured) []state {
		return []state{{object: placeOf(obj)}}
	})
	begin := time.Now()
	if _, err := p.wds.Resource(controlv1alpha1.BindingPolicies).Create(ctx, parse(policy, name, ""), metav1.CreateOptions{}); err != nil {
		return 0, err
	}
	if err := seeAll(ctx, copies, others, state{}); err != nil {
		return 0, fmt.Errorf("wait for the ConfigMaps in the WEC: %w", err)
	}
	if err := seeAll(ctx, p.placed, objects, state{}); err != nil {
		return 0, fmt.Errorf("wait for the Deployments in the WEC: %w", err)
	}
	took = time.Since(begin)
	// The same content as the works of the measured objects: OCM applies all of a work when one
	// part of it changes.
	manifests := []any{parse(namespace, bareName, "").Object}
	for i := range objects {
		manifests = append(manifests, parse(object, bareName, nameOf(i)).Object)
	}
	work := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": manifestWorks.GroupVersion().String(),
		"kind":       "ManifestWork",
		"metadata":   map[string]any{"name": bareName},
		"spec":       map[string]any{"workload": map[string]any{"manifests": manifests}},
	}}
	if _, err := p.its.Resource(manifestWorks).Namespace(p.cluster).Create(ctx, work, metav1.CreateOptions{}); err != nil {
		return 0, err
	}
	if _, err := p.bare.wait(ctx, state{object: carriedBare(objects - 1), spec: 1}); err != nil {
		return 0, fmt.Errorf("wait for OCM to deliver: %w", err)
	}
	if err := seeAll(ctx, p.returned, objects, state{status: 1}); err != nil {
		return 0, fmt.Errorf("wait for the status in the WDS: %w", err)
	}
	return took, nil
}

// seeAll blocks until a state of the first n objects was seen.
func seeAll(ctx context.Context, o *observer, n int, wanted state) error {
	waiting := map[string]bool{}
	for i := range n {
		waiting[measured(i)] = true
	}
	for len(waiting) > 0 {
		came, err := o.wait(ctx, wanted)
		if err != nil {
			return fmt.Errorf("of %d objects: %w", len(waiting), err)
		}
		o.passed = nil
		delete(waiting, came.state.object)
	}
	return nil
}

// editObject edits one of the objects in the WDS. It returns when the API server accepted the edit,
// and when the edit was seen after each stage. The value must be different in each call.
func (p *editPath) editObject(ctx context.Context, value int64) ([]time.Time, error) {
	edited := measured(int(value % objects))
	accepted, err := p.wds.Resource(deployments).Namespace(name).Patch(ctx, nameOf(int(value%objects)), types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"minReadySeconds":%d}}`, value), metav1.PatchOptions{})
	times := []time.Time{time.Now()}
	if err != nil {
		return nil, err
	}
	work, err := p.works.wait(ctx, state{object: edited, spec: value})
	if err != nil {
		return nil, fmt.Errorf("wait for the work in the mailbox: %w", err)
	}
	placed, err := p.placed.wait(ctx, state{object: edited, spec: value})
	if err != nil {
		return nil, fmt.Errorf("wait for the object in the WEC: %w", err)
	}
	times = append(times, work.at, placed.at)
	// The cluster counts generations itself. A status in the WDS is about a generation of the WDS
	// or of the cluster.
	p.generation = placed.generation
	inCluster := state{object: edited, status: placed.generation}
	for _, place := range []struct {
		what     string
		observer *observer
		answered []state
	}{
		{"the status in the WEC", p.placed, []state{inCluster}},
		{"the WorkStatus", p.reports, []state{inCluster}},
		{"the status in the WDS", p.returned, []state{inCluster, {object: edited, status: accepted.GetGeneration()}}},
	} {
		answer, err := place.observer.wait(ctx, place.answered...)
		if err != nil {
			return nil, fmt.Errorf("wait for %s: %w", place.what, err)
		}
		times = append(times, answer.at)
	}
	return times, nil
}

// editWork edits an object directly in a work, and returns how long the edit took to the WEC.
func (p *editPath) editWork(ctx context.Context, value int64) (time.Duration, error) {
	edited := value % objects
	_, err := p.its.Resource(manifestWorks).Namespace(p.cluster).Patch(ctx, bareName, types.JSONPatchType,
		fmt.Appendf(nil, `[{"op":"replace","path":"/spec/workload/manifests/%d/spec/minReadySeconds","value":%d}]`, edited+1, value), metav1.PatchOptions{})
	accepted := time.Now()
	if err != nil {
		return 0, err
	}
	arrived, err := p.bare.wait(ctx, state{object: carriedBare(int(edited)), spec: value})
	return arrived.at.Sub(accepted), err
}

// clear removes what prepare created, and blocks until it is removed.
func (p *editPath) clear(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	var errs []error
	remove := func(resource dynamic.ResourceInterface, what string) {
		if err := removed(ctx, resource, what); err != nil {
			errs = append(errs, fmt.Errorf("remove %s: %w", what, err))
		}
	}
	remove(p.its.Resource(manifestWorks).Namespace(p.cluster), bareName)
	remove(p.wds.Resource(controlv1alpha1.BindingPolicies), name)
	remove(p.wds.Resource(namespaces), name)
	_, err := p.its.Resource(managedClusters).Patch(ctx, p.cluster, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"starling-perf":null}}}`), metav1.PatchOptions{})
	return errors.Join(append(errs, err)...)
}

func removed(ctx context.Context, resource dynamic.ResourceInterface, what string) error {
	for {
		err := resource.Delete(ctx, what, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil && !apierrors.IsConflict(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// state is the state of an object, named with its namespace: the edited value in its spec, and the
// generation that its status is about. In a query, empty fields match everything.
type state struct {
	object       string
	spec, status int64
}

func nameOf(i int) string { return fmt.Sprintf("%s-%d", name, i) }

func measured(i int) string { return name + "/" + nameOf(i) }

func carriedBare(i int) string { return bareName + "/" + nameOf(i) }

func placeOf(obj *unstructured.Unstructured) string { return obj.GetNamespace() + "/" + obj.GetName() }

func specAndStatus(obj *unstructured.Unstructured) []state {
	return []state{{object: placeOf(obj), spec: number(obj, "spec", "minReadySeconds"), status: number(obj, "status", "observedGeneration")}}
}

// workVersion is the state of the objects in a work.
func workVersion(work *unstructured.Unstructured) []state {
	manifests, _, err := unstructured.NestedSlice(work.Object, "spec", "workload", "manifests")
	if err != nil {
		return nil
	}
	var states []state
	for _, manifest := range manifests {
		if fields, ok := manifest.(map[string]any); ok {
			obj := &unstructured.Unstructured{Object: fields}
			states = append(states, state{object: placeOf(obj), spec: number(obj, "spec", "minReadySeconds")})
		}
	}
	return states
}

func reportVersion(report *unstructured.Unstructured) []state {
	namespace, _, err := unstructured.NestedString(report.Object, "spec", "sourceRef", "namespace")
	if err != nil {
		return nil
	}
	about, _, err := unstructured.NestedString(report.Object, "spec", "sourceRef", "name")
	if err != nil {
		return nil
	}
	return []state{{object: namespace + "/" + about, status: number(report, "status", "observedGeneration")}}
}

// seen is a state and when its event was received.
type seen struct {
	state      state
	generation int64
	at         time.Time
}

// observer watches the objects at one place.
type observer struct {
	events chan seen
	// passed are events that were received before wait was called for them.
	passed []seen
	err    error
}

// observe watches until the context ends.
func observe(ctx context.Context, resource dynamic.ResourceInterface, read func(*unstructured.Unstructured) []state) *observer {
	o := &observer{events: make(chan seen, 4096)}
	go func() {
		defer close(o.events)
		var version string
		for ctx.Err() == nil {
			watcher, err := resource.Watch(ctx, metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true})
			if err != nil {
				o.err = err
				return
			}
			for event := range watcher.ResultChan() {
				obj, ok := event.Object.(*unstructured.Unstructured)
				if !ok || event.Type == watch.Error {
					version = ""
					break
				}
				version = obj.GetResourceVersion()
				if event.Type == watch.Bookmark {
					continue
				}
				now := time.Now()
				for _, s := range read(obj) {
					o.events <- seen{s, obj.GetGeneration(), now}
				}
			}
			watcher.Stop()
		}
	}()
	return o
}

// wait blocks until one of the states is seen, and returns it. Earlier events are dropped.
func (o *observer) wait(ctx context.Context, wanted ...state) (seen, error) {
	matches := func(s seen) bool {
		return slices.ContainsFunc(wanted, func(want state) bool {
			return (want.object == "" || s.state.object == want.object) && (want.spec == 0 || s.state.spec == want.spec) && (want.status == 0 || s.state.status == want.status)
		})
	}
	for i, s := range o.passed {
		if matches(s) {
			o.passed = o.passed[i:] // the next call may wait for the same event
			return s, nil
		}
	}
	o.passed = nil
	ctx, cancel := context.WithTimeout(ctx, margin)
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			return seen{}, fmt.Errorf("state %+v was not seen: %w", wanted, ctx.Err())
		case s, open := <-o.events:
			if !open {
				return seen{}, fmt.Errorf("watch ended: %w", o.err)
			}
			if matches(s) {
				o.passed = []seen{s}
				return s, nil
			}
		}
	}
}

func parse(text, namespace, named string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(strings.NewReplacer("$NAME", namespace, "$OBJECT", named).Replace(text)), obj); err != nil {
		panic(err) // the texts are constants
	}
	return obj
}

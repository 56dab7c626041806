package main

import (
	"context"
	"errors"
	"fmt"
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
	// name is the name of the namespace, the policy and the object that are measured.
	name = "starling-perf"
	// bareName is the name of the namespace and the object that OCM carries alone.
	bareName = "starling-perf-bare"
)

// A Deployment without replicas: its controller answers each change of its spec with a change of its status, and with
// nothing else. The field that is edited is minReadySeconds.
const object = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: $NAME, namespace: $NAME, labels: {measured: starling-perf}}
spec:
  replicas: 0
  minReadySeconds: 1
  selector: {matchLabels: {app: perf}}
  template:
    metadata: {labels: {app: perf}}
    spec: {containers: [{name: perf, image: "example.com/perf:1"}]}`

const namespace = `{apiVersion: v1, kind: Namespace, metadata: {name: $NAME, labels: {measured: starling-perf}}}`

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

// course is the way that is measured: one object, and a watch at each place that it passes.
type course struct {
	cluster       string
	wds, its, wec *dynamic.DynamicClient

	works, placed, bare, reports, returned *observer
}

func newCourse(_ context.Context, o *options) (*course, error) {
	c := &course{cluster: o.wec}
	for context, client := range map[string]**dynamic.DynamicClient{o.wds: &c.wds, o.its: &c.its, o.wec: &c.wec} {
		config, err := contextConfig(o.kubeconfig, context)
		if err != nil {
			return nil, err
		}
		if *client, err = dynamic.NewForConfig(config); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// prepare places the object, and sees that its status has come back once.
func (c *course) prepare(ctx context.Context) error {
	_, err := c.its.Resource(managedClusters).Patch(ctx, c.cluster, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"starling-perf":"here"}}}`), metav1.PatchOptions{})
	if err != nil {
		return err
	}
	c.works = observe(ctx, c.its.Resource(manifestWorks).Namespace(c.cluster), workVersion)
	c.placed = observe(ctx, c.wec.Resource(deployments).Namespace(name), specAndStatus)
	c.bare = observe(ctx, c.wec.Resource(deployments).Namespace(bareName), specAndStatus)
	c.reports = observe(ctx, c.its.Resource(controlv1alpha1.WorkStatuses).Namespace(c.cluster), reportVersion)
	c.returned = observe(ctx, c.wds.Resource(deployments).Namespace(name), specAndStatus)

	if _, err := c.create(ctx, c.wds, namespaces, "", namespace, name); err != nil {
		return err
	}
	if _, err := c.create(ctx, c.wds, deployments, name, object, name); err != nil {
		return err
	}
	if _, err := c.create(ctx, c.wds, controlv1alpha1.BindingPolicies, "", policy, name); err != nil {
		return err
	}
	work := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": manifestWorks.GroupVersion().String(),
		"kind":       "ManifestWork",
		"metadata":   map[string]any{"name": bareName},
		"spec": map[string]any{"workload": map[string]any{"manifests": []any{
			parse(namespace, bareName).Object, parse(object, bareName).Object,
		}}},
	}}
	if _, err := c.its.Resource(manifestWorks).Namespace(c.cluster).Create(ctx, work, metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := c.bare.wait(ctx, state{spec: 1}); err != nil {
		return fmt.Errorf("wait for OCM to deliver: %w", err)
	}
	if _, err := c.placed.wait(ctx, state{spec: 1}); err != nil {
		return fmt.Errorf("wait for the object in the WEC: %w", err)
	}
	if _, err := c.returned.wait(ctx, state{spec: 1, status: 1}); err != nil {
		return fmt.Errorf("wait for the status in the WDS: %w", err)
	}
	return nil
}

// editObject edits the object in the WDS and returns when it was accepted, and when it was seen to have passed each stage.
func (c *course) editObject(ctx context.Context, value int64) ([]time.Time, error) {
	_, err := c.wds.Resource(deployments).Namespace(name).Patch(ctx, name, types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"minReadySeconds":%d}}`, value), metav1.PatchOptions{})
	times := []time.Time{time.Now()}
	if err != nil {
		return nil, err
	}
	work, err := c.works.wait(ctx, state{spec: value})
	if err != nil {
		return nil, fmt.Errorf("wait for the work in the mailbox: %w", err)
	}
	placed, err := c.placed.wait(ctx, state{spec: value})
	if err != nil {
		return nil, fmt.Errorf("wait for the object in the WEC: %w", err)
	}
	times = append(times, work.at, placed.at)
	// The cluster counts generations of its own.
	answered := state{status: placed.generation}
	for _, place := range []struct {
		what     string
		observer *observer
	}{
		{"the status in the WEC", c.placed},
		{"the WorkStatus", c.reports},
		{"the status in the WDS", c.returned},
	} {
		answer, err := place.observer.wait(ctx, answered)
		if err != nil {
			return nil, fmt.Errorf("wait for %s: %w", place.what, err)
		}
		times = append(times, answer.at)
	}
	return times, nil
}

// editWork edits the object of a work directly and returns how long it took to the WEC.
func (c *course) editWork(ctx context.Context, value int64) (time.Duration, error) {
	_, err := c.its.Resource(manifestWorks).Namespace(c.cluster).Patch(ctx, bareName, types.JSONPatchType,
		fmt.Appendf(nil, `[{"op":"replace","path":"/spec/workload/manifests/1/spec/minReadySeconds","value":%d}]`, value), metav1.PatchOptions{})
	accepted := time.Now()
	if err != nil {
		return 0, err
	}
	arrived, err := c.bare.wait(ctx, state{spec: value})
	return arrived.at.Sub(accepted), err
}

func (c *course) create(ctx context.Context, client dynamic.Interface, gvr schema.GroupVersionResource, in, text, named string) (*unstructured.Unstructured, error) {
	return client.Resource(gvr).Namespace(in).Create(ctx, parse(text, named), metav1.CreateOptions{})
}

// clear removes what prepare made, and waits until it is gone.
func (c *course) clear(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	var errs []error
	remove := func(resource dynamic.ResourceInterface, what string) {
		if err := removed(ctx, resource, what); err != nil {
			errs = append(errs, fmt.Errorf("remove %s: %w", what, err))
		}
	}
	remove(c.its.Resource(manifestWorks).Namespace(c.cluster), bareName)
	remove(c.wds.Resource(controlv1alpha1.BindingPolicies), name)
	remove(c.wds.Resource(namespaces), name)
	_, err := c.its.Resource(managedClusters).Patch(ctx, c.cluster, types.MergePatchType,
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

// state is what an object says of the edit: the value in its spec, and the generation that its status speaks of. Zero stands
// for whatever.
type state struct{ spec, status int64 }

func specAndStatus(obj *unstructured.Unstructured) state {
	return state{spec: number(obj, "spec", "minReadySeconds"), status: number(obj, "status", "observedGeneration")}
}

// workVersion is the state in a work of the measured object.
func workVersion(work *unstructured.Unstructured) state {
	manifests, _, err := unstructured.NestedSlice(work.Object, "spec", "workload", "manifests")
	if err != nil || work.GetName() == bareName {
		return state{}
	}
	for _, manifest := range manifests {
		if fields, ok := manifest.(map[string]any); ok {
			obj := &unstructured.Unstructured{Object: fields}
			if obj.GetKind() == "Deployment" && obj.GetName() == name {
				return state{spec: number(obj, "spec", "minReadySeconds")}
			}
		}
	}
	return state{}
}

func reportVersion(report *unstructured.Unstructured) state {
	kind, _, err := unstructured.NestedString(report.Object, "spec", "sourceRef", "kind")
	about, _, errName := unstructured.NestedString(report.Object, "spec", "sourceRef", "name")
	if err != nil || errName != nil || kind != "Deployment" || about != name {
		return state{}
	}
	return state{status: number(report, "status", "observedGeneration")}
}

// seen is a state and when we got to know it.
type seen struct {
	state      state
	generation int64
	at         time.Time
}

// observer watches objects of a place.
type observer struct {
	events chan seen
	// passed are events that were taken before anybody asked for them.
	passed []seen
	err    error
}

// observe watches until the context ends. The read function gives a zero state for an object that is of no interest.
func observe(ctx context.Context, resource dynamic.ResourceInterface, read func(*unstructured.Unstructured) state) *observer {
	o := &observer{events: make(chan seen, 1024)}
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
				if s := read(obj); event.Type != watch.Bookmark && s != (state{}) {
					o.events <- seen{s, obj.GetGeneration(), time.Now()}
				}
			}
			watcher.Stop()
		}
	}()
	return o
}

// wait returns the first sight of a state; what was seen before it is forgotten.
func (o *observer) wait(ctx context.Context, want state) (seen, error) {
	matches := func(s seen) bool {
		return (want.spec == 0 || s.state.spec == want.spec) && (want.status == 0 || s.state.status == want.status)
	}
	for i, s := range o.passed {
		if matches(s) {
			o.passed = o.passed[i:] // the next question may be about the same event
			return s, nil
		}
	}
	o.passed = nil
	ctx, cancel := context.WithTimeout(ctx, margin)
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			return seen{}, fmt.Errorf("state %+v was not seen: %w", want, ctx.Err())
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

func parse(text, named string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(text, "$NAME", named)), obj); err != nil {
		panic(err) // the texts are constants
	}
	return obj
}

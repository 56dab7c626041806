package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

const (
	agentMemoryGoal = 120 << 20
	wecName         = "cluster1"

	// thing is a kind with a status. Only this program writes its objects.
	thing = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.perf.starling.io}
spec:
  group: perf.starling.io
  scope: Namespaced
  names: {kind: Thing, listKind: ThingList, plural: things, singular: thing}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}`
)

var (
	things       = schema.GroupVersionResource{Group: "perf.starling.io", Version: "v1", Resource: "things"}
	appliedWorks = schema.GroupVersionResource{Group: "work.open-cluster-management.io", Version: "v1", Resource: "appliedmanifestworks"}
)

// agentMemory measures the memory of an agent in a cluster with many objects of a kind, of which
// few are delivered: when it has reported these, and after all objects have changed.
func agentMemory(ctx context.Context, o *statusOptions) (r result, err error) {
	s, closeStage, err := o.stage(ctx, 1)
	defer func() { err = errors.Join(err, closeStage()) }()
	if err != nil {
		return result{}, err
	}
	kubeconfig := filepath.Join(s.dir, "kubeconfig")
	wec, err := newSpace(kubeconfig, wecName, 10000, 20000)
	if err != nil {
		return result{}, err
	}
	if err := fillWEC(ctx, s, wec, o); err != nil {
		return result{}, err
	}
	address, err := freeAddress(ctx)
	if err != nil {
		return result{}, err
	}
	agent := &controller{
		name: "status-agent", address: address, log: filepath.Join(s.dir, "perf-status-agent.log"),
		args: []string{
			"agent", "--cluster-name", wecName, "--hub-kubeconfig", kubeconfig, "--hub-context", s.o.its,
			"--wec-kubeconfig", kubeconfig, "--wec-context", wecName, "--health-address", address,
		},
	}
	s.controllers = append(s.controllers, agent)
	if err := agent.start(); err != nil {
		return result{}, err
	}
	if err := agent.waitReady(ctx); err != nil {
		return result{}, err
	}
	if err := waitForReports(ctx, s, o.wecOurs, 1); err != nil {
		return result{}, err
	}
	r.memory = map[string]usage{}
	what := fmt.Sprintf("resident memory of an agent, %d objects of which %d are delivered", o.wecObjects, o.wecOurs)
	note := func(when string) error {
		if err := s.waitIdle(ctx); err != nil {
			return err
		}
		u, err := usageOf(agent.pid)
		if err != nil {
			return err
		}
		r.memory[agent.name] = u
		r.figures = append(r.figures, figure{
			what: what + ", " + when, value: fmt.Sprintf("%s, at most %s", mib(u.rss), mib(u.peak)),
			goal: "under " + mib(agentMemoryGoal), missed: u.peak >= agentMemoryGoal,
		})
		return nil
	}
	if err := note("all reported"); err != nil {
		return r, err
	}
	done := step("change all %d objects", o.wecObjects)
	if err := eachThing(ctx, s, wec, o.wecObjects, 2); err != nil {
		return r, err
	}
	done()
	if err := waitForReports(ctx, s, o.wecOurs, 2); err != nil {
		return r, err
	}
	return r, note("after all changed")
}

// fillWEC creates the objects in the cluster. As with OCM, an AppliedManifestWork owns some of
// them.
func fillWEC(ctx context.Context, s *stage, wec *space, o *statusOptions) error {
	done := step("create %d objects", o.wecObjects)
	defer done()
	if err := s.installWEC(ctx, wec); err != nil {
		return err
	}
	for _, space := range []struct {
		client    *space
		namespace string
	}{{s.its, wecName}, {wec, name}} {
		err := create(ctx, space.client.dynamic.Resource(namespaces), map[string]any{
			"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": space.namespace},
		})
		if err != nil {
			return err
		}
	}
	_, err := s.its.dynamic.Resource(manifestWorks).Namespace(wecName).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": manifestWorks.GroupVersion().String(), "kind": "ManifestWork",
		"metadata": map[string]any{"name": "perf", "labels": map[string]any{controlv1alpha1.LabelWDSUID: "perf", controlv1alpha1.LabelWDSName: "wds1"}},
		"spec":     map[string]any{"workload": map[string]any{"manifests": []any{}}},
	}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	applied, err := wec.dynamic.Resource(appliedWorks).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": appliedWorks.GroupVersion().String(), "kind": "AppliedManifestWork",
		"metadata": map[string]any{"name": "perf"}, "spec": map[string]any{"hubHash": "perf", "agentID": "perf", "manifestWorkName": "perf"},
	}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	filler := strings.Repeat("0123456789", 100)
	err = s.parallel(ctx, o.wecObjects, func(ctx context.Context, i int) error {
		metadata := map[string]any{"name": objectName(i), "labels": map[string]any{"app": "perf"}}
		if i < o.wecOurs {
			metadata["ownerReferences"] = []any{map[string]any{
				"apiVersion": applied.GetAPIVersion(), "kind": applied.GetKind(), "name": applied.GetName(), "uid": string(applied.GetUID()),
			}}
		}
		return create(ctx, wec.dynamic.Resource(things).Namespace(name), map[string]any{
			"apiVersion": things.GroupVersion().String(), "kind": "Thing", "metadata": metadata, "spec": map[string]any{"filler": filler},
		})
	})
	if err != nil {
		return err
	}
	if err := eachThing(ctx, s, wec, o.wecObjects, 1); err != nil {
		return err
	}
	var held []any
	for i := range o.wecOurs {
		held = append(held, map[string]any{
			"group": things.Group, "version": things.Version, "resource": things.Resource, "namespace": name, "name": objectName(i), "uid": "perf",
		})
	}
	applied.Object["status"] = map[string]any{"appliedResources": held}
	_, err = wec.dynamic.Resource(appliedWorks).UpdateStatus(ctx, applied, metav1.UpdateOptions{})
	return err
}

// installWEC installs the CRDs in the cluster.
func (s *stage) installWEC(ctx context.Context, wec *space) error {
	ocm, err := moduleDir(ctx, "open-cluster-management.io/api")
	if err != nil {
		return err
	}
	if err := wec.apply(ctx, filepath.Join(ocm, "work/v1/0000_01_work.open-cluster-management.io_appliedmanifestworks.crd.yaml")); err != nil {
		return err
	}
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(thing), &crd.Object); err != nil {
		return err
	}
	return wec.define(ctx, crd)
}

// eachThing writes the status of that round to all objects.
func eachThing(ctx context.Context, s *stage, wec *space, n, round int) error {
	status := fmt.Appendf(nil, `{"status":{"round":%d,"filler":%q,"conditions":[{"type":"Ready","status":"True"}]}}`, round, strings.Repeat("0123456789", 100))
	return s.parallel(ctx, n, func(ctx context.Context, i int) error {
		_, err := wec.dynamic.Resource(things).Namespace(name).Patch(ctx, objectName(i), types.MergePatchType, status, metav1.PatchOptions{}, "status")
		return err
	})
}

// waitForReports blocks until the mailbox has n reports of that round.
func waitForReports(ctx context.Context, s *stage, n, round int) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		list, err := s.its.dynamic.Resource(controlv1alpha1.WorkStatuses).Namespace(wecName).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		have := 0
		for i := range list.Items {
			if number(&list.Items[i], "status", "round") == int64(round) {
				have++
			}
		}
		if have == n {
			return nil
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return fmt.Errorf("%d of %d objects are reported: %w", have, n, err)
		}
	}
}

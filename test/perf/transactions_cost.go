package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	"github.com/starlinghq/starling/pkg/transactions"
)

// transactionCost is what a Transaction took.
type transactionCost struct {
	moments
	// applied is when the package was applied.
	applied time.Time
	// writes and reads are those of the binding-controller in the WDS, by resource. A write that
	// the API server only tries is in tries.
	writes, reads, tries requests
	cpu                  time.Duration
}

// apply applies a package, and blocks until its Transaction has ended and the controllers are idle.
func (t *transactionStage) apply(ctx context.Context, kind, name, path, tag string) (c transactionCost, err error) {
	if err := t.waitIdle(ctx); err != nil {
		return c, err
	}
	before, err := t.counts(ctx)
	if err != nil {
		return c, err
	}
	cpu, err := t.cpu()
	if err != nil {
		return c, err
	}
	c.applied = time.Now()
	generation, err := t.applyOnly(ctx, kind, name, path, tag)
	if err != nil {
		return c, err
	}
	if c.moments, err = t.watch.await(ctx, name, generation); err != nil {
		return c, err
	}
	if err := t.waitIdle(ctx); err != nil {
		return c, err
	}
	after, err := t.counts(ctx)
	if err != nil {
		return c, err
	}
	now, err := t.cpu()
	c.cpu = now[bindingController] - cpu[bindingController]
	c.writes, c.reads, c.tries = after[0].minus(before[0]), after[1].minus(before[1]), after[2].minus(before[2])
	return c, err
}

// applyOnly applies a package and returns its generation.
func (t *transactionStage) applyOnly(ctx context.Context, kind, name, path, tag string) (int64, error) {
	found, _ := transactions.KindOf(kind)
	image := t.registry.Source(path) + ":" + tag
	created, err := t.wds.dynamic.Resource(found.Packages).Patch(ctx, name, types.ApplyPatchType, fmt.Appendf(nil,
		`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q},"spec":{"package":%q,"commonLabels":{"app":"perf"}}}`, pkgv1.GroupVersion, kind, name, image),
		metav1.PatchOptions{FieldManager: "starling-perf"})
	if err != nil {
		return 0, fmt.Errorf("apply %s %q: %w", kind, name, err)
	}
	return created.GetGeneration(), nil
}

// counts returns the writes, the reads and the tried writes of the binding-controller in the WDS
// until now, by resource.
func (t *transactionStage) counts(ctx context.Context) (all [3]requests, err error) {
	text, err := t.controllers[0].get(ctx, "/metrics")
	if err != nil {
		return all, err
	}
	for n := range all {
		all[n] = requests{}
	}
	writes, reads, tries := all[0], all[1], all[2]
	err = eachSample(text, "kubestellar_apiserver_call_latency_seconds_count", func(labels map[string]string, value float64) {
		if labels["space"] != "wds1" {
			return
		}
		resource, _, _ := cutResource(labels["resource"])
		switch method := labels["method"]; method {
		case "get", "list":
			reads[method+" "+resource] += int(value)
		case "create", "update":
			tries[resource] += int(value)
		}
	})
	if err != nil {
		return all, err
	}
	return all, eachSample(text, "starling_writes_total", func(labels map[string]string, value float64) {
		if labels["space"] != "wds1" {
			return
		}
		verb, resource := labels["verb"], labels["resource"]
		writes[verb+" "+resource] += int(value)
		if verb == "create" || verb == "update" {
			tries[resource] -= int(value)
		}
	})
}

// cutResource splits "pods.v1.group".
func cutResource(text string) (resource, version string, found bool) {
	gvr, _ := schema.ParseResourceArg(text)
	if gvr == nil {
		return text, "", false
	}
	return gvr.Resource, gvr.Version, true
}

func total(r requests) (sum int) {
	for _, n := range r {
		sum += n
	}
	return sum
}

// bareWrites updates all CRDs of a provider as an update of the provider does, the first ones with
// another schema, and returns how long that took. It begins with objects that were read before.
func (t *transactionStage) bareWrites(ctx context.Context, provider string, changed, edition int) (time.Duration, error) {
	objects := make([]*unstructured.Unstructured, t.o.definitions)
	for n := range objects {
		desired := definition(groupOf(provider), fmt.Sprintf("Kind%03d", n), t.o.fields, edition)
		o, err := t.wds.dynamic.Resource(crds).Get(ctx, desired.GetName(), metav1.GetOptions{})
		if err != nil {
			return 0, err
		}
		if n < changed {
			o.Object["spec"] = desired.Object["spec"]
		}
		o.SetAnnotations(map[string]string{"starling-perf": fmt.Sprint(edition)})
		objects[n] = o
	}
	began := time.Now()
	err := t.parallel(ctx, len(objects), func(ctx context.Context, n int) error {
		_, err := t.wds.dynamic.Resource(crds).Update(ctx, objects[n], metav1.UpdateOptions{})
		return err
	})
	return time.Since(began), err
}

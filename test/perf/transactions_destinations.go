package main

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	"github.com/starlinghq/starling/pkg/core/objref"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
)

const (
	// situations is in how many situations the clusters of manyDestinations are.
	situations = 5
	// deliveredKinds is the number of CRDs that all clusters have, and objectsOfKind how many
	// objects of each one a cluster has.
	deliveredKinds, objectsOfKind = 3, 10
	deliveredProvider             = "delivered"
)

func resourceIn(group, plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural}
}

// manyDestinations updates a provider whose CRDs are on many clusters. A fifth of the clusters has
// the same objects of their kinds.
func manyDestinations(ctx context.Context, t *transactionStage) (r result, err error) {
	names, err := t.simulate(ctx, t.o.clusters)
	if err != nil {
		return r, err
	}
	for edition, tag := range []string{"v1.0.0", "v1.1.0"} {
		pkg := t.provider(deliveredProvider, deliveredKinds, deliveredKinds, edition)
		if _, err := t.registry.PushPackage(ctx, "org/"+deliveredProvider, tag, pkg); err != nil {
			return r, err
		}
	}
	if _, err := t.apply(ctx, pkgv1.KindProvider, deliveredProvider, "org/"+deliveredProvider, "v1.0.0"); err != nil {
		return r, err
	}
	if err := t.start(ctx, "transport-controller"); err != nil { // without one, a hold waits five seconds
		return r, err
	}
	if err := t.deliver(ctx, names); err != nil {
		return r, err
	}
	before, err := t.destinationCounts(ctx)
	if err != nil {
		return r, err
	}
	c, err := t.apply(ctx, pkgv1.KindProvider, deliveredProvider, "org/"+deliveredProvider, "v1.1.0")
	if err != nil {
		return r, err
	}
	after, err := t.destinationCounts(ctx)
	if err != nil {
		return r, err
	}
	counted := after.minus(before)
	what := fmt.Sprintf("an update for %d clusters in %d situations", t.o.clusters, situations)
	r.figures = append(r.figures,
		figure{what: what + ": destinations", value: fmt.Sprint(counted["destinations"]), goal: fmt.Sprint(t.o.clusters), missed: counted["destinations"] != t.o.clusters},
		figure{what: what + ": validations", value: fmt.Sprint(counted["validations"]), goal: fmt.Sprint(situations), missed: counted["validations"] != situations},
		timeFigure(what+": validation", c.validated.Sub(c.acquired), destinationsGoal))
	r.figures = append(r.figures, c.figures(what)...)
	r.samples = append(r.samples, sample{name: what, took: c.validated.Sub(c.acquired)})
	return r, nil
}

// deliver creates custom resources, policies that bring the CRDs to all clusters and the custom
// resources to a fifth of them each, and what agents report of the CRDs. It blocks until the
// policies are bound.
func (t *transactionStage) deliver(ctx context.Context, names []string) error {
	done := step("bind %d CRDs and their objects to %d clusters", deliveredKinds, len(names))
	defer done()
	for k := range deliveredKinds {
		for n := range situations * objectsOfKind {
			group := fmt.Sprintf("group-%d", n%situations)
			if err := t.object(ctx, deliveredProvider, fmt.Sprintf("Kind%03d", k), fmt.Sprintf("object-%03d", n), map[string]any{"group": group}); err != nil {
				return err
			}
		}
	}
	if err := t.parallel(ctx, len(names), func(ctx context.Context, n int) error {
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{"group":"group-%d"}}}`, n%situations)
		if _, err := t.its.dynamic.Resource(managedClusters).Patch(ctx, names[n], types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return err
		}
		return t.report(ctx, names[n])
	}); err != nil {
		return err
	}
	crdClause := map[string]any{
		"apiGroup": "apiextensions.k8s.io", "resources": []any{"customresourcedefinitions"},
		"objectSelectors": []any{map[string]any{"matchLabels": map[string]any{"app": "perf"}}},
	}
	if err := t.policy(ctx, "all", map[string]any{clusterLabel(len(names)): "here"}, crdClause); err != nil {
		return err
	}
	for n := range situations {
		group := map[string]any{"group": fmt.Sprintf("group-%d", n)}
		objects := map[string]any{"apiGroup": groupOf(deliveredProvider), "objectSelectors": []any{map[string]any{"matchLabels": group}}}
		if err := t.policy(ctx, fmt.Sprintf("group-%d", n), group, objects); err != nil {
			return err
		}
	}
	return until(ctx, "the Bindings", func() (bool, error) { return t.bound(ctx, len(names)) })
}

func (t *transactionStage) policy(ctx context.Context, named string, clusters, downsync map[string]any) error {
	_, err := t.wds.dynamic.Resource(controlv1alpha1.BindingPolicies).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": controlv1alpha1.GroupVersion.String(), "kind": "BindingPolicy", "metadata": map[string]any{"name": named},
		"spec": map[string]any{"clusterSelectors": []any{map[string]any{"matchLabels": clusters}}, "downsync": []any{downsync}},
	}}, metav1.CreateOptions{})
	return err
}

// bound reports whether the Bindings have all clusters and objects.
func (t *transactionStage) bound(ctx context.Context, clusters int) (bool, error) {
	list, err := t.wds.dynamic.Resource(controlv1alpha1.Bindings).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, err
	}
	destinations, objects := 0, 0
	for n := range list.Items {
		to, _, _ := unstructured.NestedSlice(list.Items[n].Object, "spec", "destinations")
		scoped, _, _ := unstructured.NestedSlice(list.Items[n].Object, "spec", "workload", "clusterScope")
		destinations, objects = destinations+len(to), objects+len(scoped)
	}
	return destinations == 2*clusters && objects == deliveredKinds*(1+situations*objectsOfKind), nil
}

// report writes what the agent of a cluster reports of the CRDs.
func (t *transactionStage) report(ctx context.Context, cluster string) error {
	for k := range deliveredKinds {
		crd := definition(groupOf(deliveredProvider), fmt.Sprintf("Kind%03d", k), 0, 0)
		ref := objref.New(crds.GroupResource(), "", crd.GetName())
		body, err := json.Marshal(map[string]any{
			"apiVersion": controlv1alpha1.GroupVersion.String(), "kind": "WorkStatus",
			"metadata": map[string]any{"name": corestatus.ReportName(ref), "namespace": cluster},
			"spec": map[string]any{"sourceRef": map[string]any{
				"group": ref.Group, "version": "v1", "resource": ref.Resource, "kind": "CustomResourceDefinition", "namespace": "", "name": ref.Name,
			}},
		})
		if err != nil {
			return err
		}
		resource := controlv1alpha1.WorkStatuses
		path := []string{"apis", resource.Group, resource.Version, "namespaces", cluster, resource.Resource}
		if err := t.its.raw.Post().AbsPath(path...).SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Error(); err != nil {
			return err
		}
		patch := []byte(`[{"op":"add","path":"/status","value":{"storedVersions":["v1"]}}]`)
		if err := t.its.raw.Patch(types.JSONPatchType).AbsPath(append(path, corestatus.ReportName(ref), "status")...).Body(patch).Do(ctx).Error(); err != nil {
			return err
		}
	}
	return nil
}

// destinationCounts returns how many destinations were validated until now, with how many
// validations.
func (t *transactionStage) destinationCounts(ctx context.Context) (requests, error) {
	text, err := t.controllers[0].get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	counts := requests{}
	err = eachSample(text, "starling_transaction_destinations_total", func(labels map[string]string, value float64) {
		counts[labels["count"]] += int(value)
	})
	return counts, err
}

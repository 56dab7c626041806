package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	"github.com/starlinghq/starling/test/testxpkg"
)

// figures returns what a Transaction took, without goals.
func (c *transactionCost) figures(what string) []figure {
	return []figure{
		timeFigure(what+": from the package to Ready", c.ready.Sub(c.applied), 0),
		timeFigure(what+": Lock held", c.held(), 0),
		{what: what + ": writes", value: fmt.Sprintf("%d (%s)", total(c.writes), c.writes)},
		{what: what + ": tried writes", value: fmt.Sprintf("%d (%s)", total(c.tries), c.tries)},
		{what: what + ": reads", value: fmt.Sprintf("%d (%s)", total(c.reads), c.reads)},
		timeFigure(what+": CPU of "+bindingController, c.cpu, 0),
	}
}

// coldTree installs a Configuration with a deep tree of packages, and nothing cached.
func coldTree(ctx context.Context, t *transactionStage) (r result, err error) {
	root, err := t.pushTree(ctx)
	if err != nil {
		return r, err
	}
	t.registry.Requests()
	c, err := t.apply(ctx, pkgv1.KindConfiguration, root, "tree/"+root, "v1.0.0")
	if err != nil {
		return r, err
	}
	what := fmt.Sprintf("%d packages, cold", t.o.packages)
	r.figures = append(r.figures, timeFigure(what+": from the package to Validated", c.validated.Sub(c.applied), coldGoal))
	r.figures = append(r.figures, c.figures(what)...)
	r.figures = append(r.figures, figure{what: what + ": requests to the registry", value: requestsText(t.registry.Requests())})
	r.samples = append(r.samples, sample{name: what + " validated", took: c.validated.Sub(c.applied)}, sample{name: what + " ready", took: c.ready.Sub(c.applied)})
	return r, nil
}

// patchProvider updates one of many providers, in turn with bare writes of the CRDs of another one.
func patchProvider(ctx context.Context, t *transactionStage) (r result, err error) {
	all := t.o.definitions
	done := step("install %d providers with %d CRDs each", t.o.providers, all)
	for n := range t.o.providers {
		name := fmt.Sprintf("provider-%02d", n)
		if _, err := t.registry.PushPackage(ctx, "org/"+name, "v1.0.0", t.provider(name, all, 0, 0)); err != nil {
			return r, err
		}
		generation, err := t.applyOnly(ctx, pkgv1.KindProvider, name, "org/"+name, "v1.0.0")
		if err != nil {
			return r, err
		}
		if _, err := t.watch.await(ctx, name, generation); err != nil {
			return r, err
		}
	}
	done()
	edition := 0
	for _, changed := range slices.Compact([]int{1, all}) {
		what := fmt.Sprintf("%d of %d CRDs change, %d in the WDS", changed, all, t.o.providers*all)
		var held, bare []time.Duration
		var last transactionCost
		for round := range t.o.rounds + 1 {
			edition++
			c, took, err := t.patchOnce(ctx, changed, edition)
			if err != nil {
				return r, err
			}
			if round > 0 {
				held, bare, last = append(held, c.held()), append(bare, took), c
			}
		}
		r.figures = append(r.figures, last.figures(what)...)
		most := all + besides
		r.figures = append(r.figures, figure{
			what: what + ": writes, beside those of its objects", value: fmt.Sprint(total(last.writes) - all), goal: fmt.Sprintf("at most %d", besides),
			missed: total(last.writes) > most,
		})
		r.times(what, what+": Lock held", held, bare, quantileGoal{50, patchGoal})
	}
	f, err := t.memoryFigure("patch", patchMemory)
	r.figures = append(r.figures, f)
	return r, err
}

// patchOnce updates the first provider, and writes the CRDs of the last one.
func (t *transactionStage) patchOnce(ctx context.Context, changed, edition int) (c transactionCost, bare time.Duration, err error) {
	tag := fmt.Sprintf("v1.0.%d", edition)
	if _, err = t.registry.PushPackage(ctx, "org/provider-00", tag, t.provider("provider-00", t.o.definitions, changed, edition)); err != nil {
		return c, 0, err
	}
	if c, err = t.apply(ctx, pkgv1.KindProvider, "provider-00", "org/provider-00", tag); err != nil {
		return c, 0, err
	}
	bare, err = t.bareWrites(ctx, fmt.Sprintf("provider-%02d", t.o.providers-1), changed, edition)
	return c, bare, err
}

// installLarge installs one provider with very many CRDs.
func installLarge(ctx context.Context, t *transactionStage) (r result, err error) {
	n := t.o.providers * t.o.definitions
	before, err := t.memoryFigure("idle", 0)
	if err != nil {
		return r, err
	}
	pkg := t.provider("large", n, 0, 0)
	image, err := testxpkg.Image(pkg)
	if err != nil {
		return r, err
	}
	if _, err := t.registry.Push(ctx, "org/large", "v1.0.0", image); err != nil {
		return r, err
	}
	c, err := t.apply(ctx, pkgv1.KindProvider, "large", "org/large", "v1.0.0")
	if err != nil {
		return r, err
	}
	what := fmt.Sprintf("one provider with %d CRDs", n)
	r.figures = append(r.figures, before, timeFigure(what+": from the package to Validated", c.validated.Sub(c.applied), 0))
	r.figures = append(r.figures, c.figures(what)...)
	f, err := t.memoryFigure(what, 0)
	r.figures = append(r.figures, f)
	r.samples = append(r.samples, sample{name: what + " ready", took: c.ready.Sub(c.applied)})
	return r, err
}

// object creates a custom resource of a provider.
func (t *transactionStage) object(ctx context.Context, provider, kind, named string, labels map[string]any) error {
	crd := definition(groupOf(provider), kind, 0, 0)
	plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	_, err := t.wds.dynamic.Resource(resourceIn(groupOf(provider), plural)).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": groupOf(provider) + "/v1", "kind": kind, "metadata": map[string]any{"name": named, "labels": labels},
		"spec": map[string]any{"size": int64(7)},
	}}, metav1.CreateOptions{})
	return err
}

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
)

const (
	variantWrites  = 6 // per target, from publication of the upstream to its draft
	approvalWrites = 4 // per target, from approval to its mailbox
	variantCPU     = 50 * time.Millisecond
	// variantGrowth is the maximum factor of the CPU time per target with ten times as many
	// targets, and its inverse the minimum: a first set that is too expensive would hide growth.
	variantGrowth = 1.2
	// variantObjects is the number of objects in the package of a set.
	variantObjects = 50
	// warmTargets is the number of clusters of a set before the others, which is not counted.
	warmTargets = 20
)

// cost is the duration of an operation, the CPU time of Starling's processes, and the writes in the
// spaces by resource.
type cost struct {
	writes requests
	cpu    map[string]time.Duration
	took   time.Duration
}

// phase is a part of the measurement of a set.
type phase struct {
	name   string
	writes int // maximum per target, besides its ManifestWorks
}

var (
	publishPhase  = phase{"upstream publish to last draft", variantWrites}
	approvalPhase = phase{"approval to last mailbox", approvalWrites}
)

// fanOut measures a set for the first number of clusters, and then sets for more clusters, which
// include the first ones.
func fanOut(ctx context.Context, p *packageStage) (result, error) {
	if err := p.connectClusters(ctx); err != nil {
		return result{}, err
	}
	if _, err := p.fanOutTo(ctx, "warm", warmTargets); err != nil {
		return result{}, fmt.Errorf("%d targets: %w", warmTargets, err)
	}
	var r result
	first := map[phase]time.Duration{} // CPU per target of the first set
	for _, n := range p.o.targets {
		costs, err := p.fanOutTo(ctx, fmt.Sprintf("base-%d", n), n)
		if err != nil {
			return r, fmt.Errorf("%d targets: %w", n, err)
		}
		for _, of := range []phase{publishPhase, approvalPhase} {
			c := costs[of]
			r.figures = append(r.figures, c.figures(of, n)...)
			r.samples = append(r.samples, sample{name: fmt.Sprintf("%d targets, %s", n, of.name), took: c.took})
			per := sum(c.cpu) / time.Duration(n)
			before, compared := first[of]
			if !compared {
				first[of] = per
				continue
			}
			growth := per.Seconds() / before.Seconds()
			r.figures = append(r.figures, figure{
				what:  fmt.Sprintf("%d targets, %s: CPU per target beside that with %d", n, of.name, p.o.targets[0]),
				value: fmt.Sprintf("%.2f", growth), goal: fmt.Sprintf("%.2f to %.2f", 1/variantGrowth, variantGrowth), missed: growth > variantGrowth || growth < 1/variantGrowth,
			})
		}
	}
	end, err := p.result()
	r.memory = end.memory
	return r, err
}

// figures returns the cost of a phase per target.
func (c cost) figures(of phase, n int) []figure {
	all := 0
	for what, written := range c.writes {
		if what != "POST manifestworks" { // the package has as many as it is large
			all += written
		}
	}
	writes, cpu := float64(all)/float64(n), sum(c.cpu)/time.Duration(n)
	return []figure{
		{
			what:  fmt.Sprintf("%d targets, %s: writes per target, besides its ManifestWorks (%s)", n, of.name, c.writes),
			value: fmt.Sprintf("%.2f", writes), goal: fmt.Sprintf("%d at most", of.writes),
			missed: writes > float64(of.writes)+float64(perSet)/float64(n),
		},
		{
			what:  fmt.Sprintf("%d targets, %s: CPU per target of our processes, ms (%s)", n, of.name, shares(c.cpu, n)),
			value: ms(cpu), goal: ms(variantCPU) + " at most", missed: cpu > variantCPU,
		},
		{what: fmt.Sprintf("%d targets, %s: s", n, of.name), value: fmt.Sprintf("%.1f", c.took.Seconds())},
	}
}

// perSet is the number of writes that may be about the upstream and the set, not about targets.
const perSet = 20

func shares(cpu map[string]time.Duration, n int) string {
	var parts []string
	for _, name := range []string{packageServer, "binding-controller", "transport-controller", "kube-apiserver", "etcd"} {
		if spent, measured := cpu[name]; measured {
			parts = append(parts, name+" "+ms(spent/time.Duration(n)))
		}
	}
	return strings.Join(parts, ", ")
}

// connectClusters adds an ITS and all controllers to the stage.
func (p *packageStage) connectClusters(ctx context.Context) (err error) {
	if p.its, err = newSpace(filepath.Join(p.dir, "kubeconfig"), "its1", 5000, 5000); err != nil {
		return err
	}
	root, err := moduleDir(ctx, "github.com/starlinghq/starling")
	if err != nil {
		return err
	}
	if err := p.installITS(ctx, root); err != nil {
		return err
	}
	for _, of := range []struct {
		program string
		flags   []string
	}{{"binding-controller", []string{"--cluster-repository-namespaces=" + name}}, {"transport-controller", nil}} {
		c, err := ownController(ctx, p.dir, "wds1", "its1", of.program, of.flags...)
		if err != nil {
			return err
		}
		p.controllers = append(p.controllers, c)
		if err := c.waitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// fanOutTo measures one set, which has the name of its upstream.
func (p *packageStage) fanOutTo(ctx context.Context, upstream string, n int) (map[phase]cost, error) {
	mailboxes, err := p.simulate(ctx, n)
	if err != nil {
		return nil, err
	}
	first, err := p.publish(ctx, upstream, "v1", initTask(), variantFiles(upstream, 1))
	if err != nil {
		return nil, err
	}
	err = create(ctx, p.wds.dynamic.Resource(configv1alpha2.PackageVariantSets).Namespace(name), map[string]any{
		"apiVersion": configv1alpha2.GroupVersion.String(), "kind": "PackageVariantSet", "metadata": map[string]any{"name": upstream},
		"spec": map[string]any{
			"upstream": map[string]any{"repo": catalog, "package": upstream, "revision": "latest"},
			"targets": []any{map[string]any{
				"objectSelector": map[string]any{
					"apiVersion": managedClusters.GroupVersion().String(), "kind": "ManagedCluster", "matchLabels": map[string]any{clusterLabel(n): "here"},
				},
				"template": map[string]any{"packageContext": map[string]any{"dataExprs": []any{map[string]any{"key": "cluster", "valueExpr": "target.name"}}}},
			}},
		},
	})
	if err != nil {
		return nil, err
	}
	if err := p.waitVariants(ctx, upstream, n, 1, configv1alpha1.VariantDraft); err != nil {
		return nil, err
	}
	revisions, err := p.downstreamOf(ctx, upstream)
	if err != nil || len(revisions) != n {
		return nil, errors.Join(err, fmt.Errorf("found %d drafts", len(revisions)))
	}
	done := step("propose %d drafts", n)
	err = p.parallel(ctx, n, func(ctx context.Context, i int) (err error) {
		_, err = p.move(ctx, revisions[i], "Proposed")
		return err
	})
	done()
	if err != nil {
		return nil, err
	}
	if err := p.waitVariants(ctx, upstream, n, 1, configv1alpha1.VariantProposed); err != nil {
		return nil, err
	}
	if revisions, err = p.downstreamOf(ctx, upstream); err != nil {
		return nil, err
	}
	costs := map[phase]cost{}
	works, err := p.works(ctx)
	if err != nil {
		return nil, err
	}
	costs[approvalPhase], err = p.cost(ctx, fmt.Sprintf("approve %d drafts", n), func() error {
		if err := p.parallel(ctx, n, func(ctx context.Context, i int) (err error) {
			_, err = p.move(ctx, revisions[i], "Published", "approval")
			return err
		}); err != nil {
			return err
		}
		return until(ctx, fmt.Sprintf("%d works", len(mailboxes)), func() (bool, error) {
			now, err := p.works(ctx)
			return now-works >= n, err
		})
	})
	if err != nil {
		return nil, err
	}
	costs[publishPhase], err = p.cost(ctx, fmt.Sprintf("publish the upstream of %d targets", n), func() error {
		task := map[string]any{"type": "edit", "edit": map[string]any{"sourceRef": map[string]any{"name": first}}}
		if _, err := p.publish(ctx, upstream, "v2", task, variantFiles(upstream, 2)); err != nil {
			return err
		}
		return p.waitVariants(ctx, upstream, n, 2, configv1alpha1.VariantDraft)
	})
	return costs, err
}

// variantFiles returns the files of the upstream of a set. Sets share clusters, so their packages
// must have different objects to avoid conflicts.
func variantFiles(upstream string, number int) map[string]any {
	files := map[string]any{"Kptfile": "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata: {name: base}\npipeline:\n  mutators:\n" +
		"  - {image: \"set-labels:v0.2\", configMap: {team: shop}}\n"}
	for i := range variantObjects {
		files[fmt.Sprintf("config-%d.yaml", i)] = fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s-%d\n  namespace: shop\ndata:\n  number: \"%d\"\n", upstream, i, number)
	}
	return files
}

// cost calls do, blocks until the controllers are idle, and returns the cost of that.
func (p *packageStage) cost(ctx context.Context, what string, do func() error) (c cost, err error) {
	if err := p.waitIdle(ctx); err != nil {
		return c, err
	}
	count := func() (requests, map[string]time.Duration, error) {
		all := requests{}
		for _, s := range []*space{p.wds, p.its} {
			found, err := s.requestsBy(ctx, kept, func(labels map[string]string) string {
				if labels["subresource"] != "" {
					return labels["verb"] + " " + labels["resource"] + "/" + labels["subresource"]
				}
				return labels["verb"] + " " + labels["resource"]
			})
			if err != nil {
				return nil, nil, err
			}
			for verb, n := range found {
				all[verb] += n
			}
		}
		cpu := map[string]time.Duration{}
		for _, c := range p.controllers {
			if cpu[c.name], err = familyCPU(c.pid); err != nil {
				return nil, nil, err
			}
		}
		return all, cpu, nil
	}
	writes, cpu, err := count()
	if err != nil {
		return c, err
	}
	done := step("%s", what)
	began := time.Now()
	if err := do(); err != nil {
		return c, err
	}
	c.took = time.Since(began)
	done()
	if err := p.waitIdle(ctx); err != nil {
		return c, err
	}
	writesAfter, cpuAfter, err := count()
	if err != nil {
		return c, err
	}
	for name := range cpuAfter {
		cpuAfter[name] -= cpu[name]
	}
	c.writes, c.cpu = writesAfter.minus(writes), cpuAfter
	return c, nil
}

// kept selects requests that write to etcd. It excludes requests that are forwarded to
// package-server, which writes itself, reviews of access rights, and Leases.
func kept(labels map[string]string) bool {
	return slices.Contains(writeVerbs, labels["verb"]) && labels["group"] != "porch.kpt.dev" && labels["group"] != "authorization.k8s.io" && labels["group"] != "authentication.k8s.io" &&
		labels["group"] != "coordination.k8s.io"
}

// works returns the number of ManifestWorks.
func (p *packageStage) works(ctx context.Context) (int, error) {
	list, err := p.its.dynamic.Resource(manifestWorks).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, err
	}
	n := len(list.Items)
	if left := list.GetRemainingItemCount(); left != nil {
		n += int(*left)
	}
	return n, nil
}

// downstreamOf returns the newest revisions of the packages with that name in the Repositories of
// clusters.
func (p *packageStage) downstreamOf(ctx context.Context, packageName string) ([]*unstructured.Unstructured, error) {
	list, err := p.served().List(ctx, metav1.ListOptions{FieldSelector: "spec.packageName=" + packageName})
	if err != nil {
		return nil, err
	}
	var found []*unstructured.Unstructured
	for i := range list.Items {
		if repository, _, _ := unstructured.NestedString(list.Items[i].Object, "spec", "repository"); repository != catalog {
			found = append(found, &list.Items[i])
		}
	}
	return found, nil
}

// waitVariants blocks until n PackageVariants of a set have a state, each with that revision of the
// upstream.
func (p *packageStage) waitVariants(ctx context.Context, set string, n int, revision int64, state configv1alpha1.VariantState) error {
	what := fmt.Sprintf("%d PackageVariants of %s to be %s of v%d", n, set, state, revision)
	return until(ctx, what, func() (bool, error) {
		list, err := p.wds.dynamic.Resource(configv1alpha1.PackageVariants).Namespace(name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		there := 0
		for i := range list.Items {
			obj := list.Items[i].Object
			of, _, _ := unstructured.NestedString(obj, "spec", "upstream", "package")
			at, _, _ := unstructured.NestedInt64(obj, "status", "upstream", "revision")
			is, _, _ := unstructured.NestedString(obj, "status", "state")
			if of == set && at == revision && is == string(state) {
				there++
			}
		}
		return there == n, nil
	})
}

// until calls done every second, and blocks until it returns true.
func until(ctx context.Context, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("timed out after %s waiting for %s", limit, what))
	defer cancel()
	for {
		if there, err := done(); there || err != nil {
			return err
		}
		if err := sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}

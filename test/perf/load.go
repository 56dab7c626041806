package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

// lostAfter is how long after the last edit of churn an edit that did not arrive is lost.
const lostAfter = 30 * time.Second

// churn edits objects at a constant rate, each once.
func churn(ctx context.Context, s *stage) (result, error) {
	mailboxes, err := s.simulate(ctx, s.o.churnClusters)
	if err != nil {
		return result{}, err
	}
	w, err := s.fill(ctx, "churn", s.o.churnObjects, mailboxes)
	if err != nil {
		return result{}, err
	}
	if err := w.placeAndWait(ctx); err != nil {
		return result{}, err
	}
	edits := s.o.churnRate * s.o.churnSeconds
	marks := make([]mark, edits)
	for i := range marks {
		marks[i] = mark{object: i * 7919 % s.o.churnObjects, edit: 1}
	}
	bindings := func() (requests, error) { return s.wds.requests(ctx, ofResource(controlv1alpha1.Bindings.Resource)) }
	beforeWDS, err := bindings()
	if err != nil {
		return result{}, err
	}
	beforeITS, err := s.its.requests(ctx, ofResource(manifestWorks.Resource))
	if err != nil {
		return result{}, err
	}
	cpu, err := s.cpu()
	if err != nil {
		return result{}, err
	}
	done := step("edit %d times a second for %d s", s.o.churnRate, s.o.churnSeconds)
	began := time.Now()
	for i, m := range marks {
		if err := sleep(ctx, time.Until(began.Add(time.Duration(i)*time.Second/time.Duration(s.o.churnRate)))); err != nil {
			return result{}, err
		}
		if err := w.edit(ctx, m); err != nil {
			return result{}, err
		}
	}
	last := time.Now()
	late := time.Duration(0)
	lost := s.watcher.missing(placed, mailboxes, marks)
	for ; lost > 0 && time.Since(last) < lostAfter; lost = s.watcher.missing(placed, mailboxes, marks) {
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return result{}, err
		}
		late = time.Since(last)
	}
	if err := s.waitIdle(ctx); err != nil {
		return result{}, err
	}
	took := time.Since(began)
	done()
	used, err := s.cpu()
	if err != nil {
		return result{}, err
	}
	afterWDS, err := bindings()
	if err != nil {
		return result{}, err
	}
	afterITS, err := s.its.requests(ctx, ofResource(manifestWorks.Resource))
	if err != nil {
		return result{}, err
	}
	r, err := s.result()
	if err != nil {
		return result{}, err
	}
	name := fmt.Sprintf("%d edits a second of %d objects on %d clusters for %d s: ", s.o.churnRate, s.o.churnObjects, s.o.churnClusters, s.o.churnSeconds)
	writes := afterWDS.minus(beforeWDS).total(writeVerbs...)
	rate := float64(writes) / took.Seconds()
	r.figures = []figure{
		{name + "Binding writes a second", fmt.Sprintf("%.2f (%d)", rate, writes), "at most 1", rate > 1},
		{name + "edits that did not arrive", fmt.Sprint(lost), "0", lost > 0},
		{name + "the last one arrived everywhere after", ms(late) + " ms", "", false},
		{name + "requests in the ITS", afterITS.minus(beforeITS).String(), "", false},
		{name + "CPU of the controllers", fmt.Sprintf("%s s", seconds(sum(used)-sum(cpu))), "", false},
	}
	r.samples = []sample{{name: "churn, last edit", took: late}, {name: "churn, CPU", took: sum(used) - sum(cpu)}}
	return r, nil
}

// restart restarts the controllers with the placements of edit-large and churn.
func restart(ctx context.Context, s *stage) (result, error) {
	for _, c := range s.controllers {
		if !c.own() {
			return result{}, errLeftOut
		}
	}
	for _, part := range []struct {
		name              string
		objects, clusters int
	}{{"edit", s.o.largeObjects, s.o.largeClusters}, {"churn", s.o.churnObjects, s.o.churnClusters}} {
		mailboxes, err := s.simulate(ctx, part.clusters)
		if err != nil {
			return result{}, err
		}
		w, err := s.fill(ctx, part.name, part.objects, mailboxes)
		if err != nil {
			return result{}, err
		}
		if err := w.placeAndWait(ctx); err != nil {
			return result{}, err
		}
	}
	const rounds = 3
	var worst, cpu time.Duration
	var samples []sample
	writes := requests{}
	done := step("restart %d times", rounds)
	defer done()
	// Late writes of the placement, such as statuses that are written once a second, do not count
	// for the restart.
	if err := s.quiet(ctx); err != nil {
		return result{}, err
	}
	for range rounds {
		before, err := s.everything(ctx)
		if err != nil {
			return result{}, err
		}
		ready, err := s.restarted(ctx, func() error { return nil })
		if err != nil {
			return result{}, err
		}
		worst = max(worst, ready)
		samples = append(samples, sample{name: "restart, ready", took: ready})
		times, err := s.cpu()
		if err != nil {
			return result{}, err
		}
		cpu = max(cpu, sum(times))
		after, err := s.everything(ctx)
		if err != nil {
			return result{}, err
		}
		for verb, n := range after.minus(before) {
			writes[verb] += n
		}
	}
	r, err := s.result()
	if err != nil {
		return result{}, err
	}
	name := fmt.Sprintf("restart with %d x %d and %d x %d placed: ", s.o.largeObjects, s.o.largeClusters, s.o.churnObjects, s.o.churnClusters)
	const most = 15 * time.Second
	n := writes.total(writeVerbs...)
	r.figures = []figure{
		{name + fmt.Sprintf("writes in %d restarts", rounds), writes.only(writeVerbs...).String(), "none", n > 0},
		{name + "ready, at worst", seconds(worst) + " s", "less than " + seconds(most) + " s", worst >= most},
		{name + "CPU of the controllers until quiet", seconds(cpu) + " s", "", false},
	}
	r.samples = samples
	return r, nil
}

// start restarts the controllers with very many objects placed on one cluster: once without any
// change, and once with an edit of a user at the same moment.
func start(ctx context.Context, s *stage) (result, error) {
	return s.succeeded(ctx, "start", func(context.Context) error { return nil }, s.restarted)
}

// handOver is like start, but other controllers, which stand by, become the leaders.
func handOver(ctx context.Context, s *stage) (result, error) {
	return s.succeeded(ctx, "hand-over", s.elect, s.handedOver)
}

// succeeded places very many objects on one cluster, calls prepare, and lets other processes follow
// the controllers twice: once without any change, and once with an edit at the same moment. The
// function next ends the controllers, does something when the next ones may begin, and blocks until
// they are idle. It returns how long it took until they were ready.
func (s *stage) succeeded(
	ctx context.Context, what string, prepare func(context.Context) error,
	next func(ctx context.Context, meanwhile func() error) (ready time.Duration, err error),
) (result, error) {
	for _, c := range s.controllers {
		if !c.own() {
			return result{}, errLeftOut
		}
	}
	mailboxes, err := s.simulate(ctx, 1)
	if err != nil {
		return result{}, err
	}
	done := step("place %d objects by %d policies", s.o.startObjects, s.o.startPolicies)
	each := s.o.startObjects / s.o.startPolicies
	arrivals := s.watcher.expect(placed, mailboxes, func(in mailbox) bool { return in.objects() >= each*s.o.startPolicies })
	var last *workload
	for i := range s.o.startPolicies {
		if last, err = s.fill(ctx, fmt.Sprintf("start-%d", i), each, mailboxes); err != nil {
			return result{}, err
		}
		if err := last.place(ctx); err != nil {
			return result{}, err
		}
	}
	if err := s.watcher.wait(ctx, arrivals, limit); err != nil {
		return result{}, err
	}
	done()
	if err := s.quiet(ctx); err != nil {
		return result{}, err
	}
	if err := prepare(ctx); err != nil {
		return result{}, err
	}
	before, err := s.everything(ctx)
	if err != nil {
		return result{}, err
	}
	worksBefore, err := s.its.requests(ctx, ofResource(manifestWorks.Resource))
	if err != nil {
		return result{}, err
	}
	ready, err := next(ctx, func() error { return nil })
	if err != nil {
		return result{}, err
	}
	after, err := s.everything(ctx)
	if err != nil {
		return result{}, err
	}
	worksAfter, err := s.its.requests(ctx, ofResource(manifestWorks.Resource))
	if err != nil {
		return result{}, err
	}
	var delivered time.Duration
	_, err = next(ctx, func() error {
		want := mark{object: each / 2, edit: 1}
		arrivals := s.watcher.expect(placed, mailboxes, func(in mailbox) bool { return in.edited(want) })
		began := time.Now()
		if err := last.edit(ctx, want); err != nil {
			return err
		}
		err := s.watcher.wait(ctx, arrivals, limit)
		delivered = arrivals.since(began).last
		return err
	})
	if err != nil {
		return result{}, err
	}
	r, err := s.result()
	if err != nil {
		return result{}, err
	}
	name := fmt.Sprintf("%s with %d objects of %d policies placed: ", what, s.o.startObjects, s.o.startPolicies)
	writes, works := after.minus(before), worksAfter.minus(worksBefore)
	const most = 5 * time.Second
	r.figures = []figure{
		{name + "writes of ManifestWorks", works.only(writeVerbs...).String(), "none", works.total(writeVerbs...) > 0},
		{name + "all writes", writes.only(writeVerbs...).String(), "none", writes.total(writeVerbs...) > 0},
		{name + "ready after", seconds(ready) + " s", "", false},
		{name + "an edit at the same moment was in the mailbox after", seconds(delivered) + " s", "less than " + seconds(most) + " s", delivered >= most},
	}
	return r, nil
}

// restarted ends the controllers and starts them again, then does something, and blocks until they
// are ready and idle. It returns how long after the start they were ready.
func (s *stage) restarted(ctx context.Context, meanwhile func() error) (ready time.Duration, err error) {
	done := step("restart")
	defer done()
	for _, c := range s.controllers {
		if err := c.stop(); err != nil {
			return 0, err
		}
	}
	began := time.Now()
	for _, c := range s.controllers {
		if err := c.start(); err != nil {
			return 0, err
		}
	}
	if err := meanwhile(); err != nil {
		return 0, err
	}
	for _, c := range s.controllers {
		if err := c.waitReady(ctx); err != nil {
			return 0, err
		}
	}
	ready = time.Since(began)
	return ready, s.quiet(ctx)
}

// quiet blocks until the controllers are idle, and have written the statuses that they delay.
func (s *stage) quiet(ctx context.Context) error {
	if err := sleep(ctx, 3*time.Second); err != nil {
		return err
	}
	return s.waitIdle(ctx)
}

// everything counts the requests for all resources that a controller of this API writes, except
// Leases, in both spaces.
func (s *stage) everything(ctx context.Context) (requests, error) {
	wds, err := s.wds.requests(ctx, ofResources("bindingpolicies", "bindings", "customtransforms", "combinedstatuses", "statuscollectors", configMaps.Resource))
	if err != nil {
		return nil, err
	}
	its, err := s.its.requests(ctx, ofResources(manifestWorks.Resource, managedClusters.Resource, "workstatuses"))
	if err != nil {
		return nil, err
	}
	for verb, n := range its {
		wds[verb] += n
	}
	return wds, nil
}

// many creates many objects in the WDS, places few of them with many policies, and measures the
// controller of policies.
func many(ctx context.Context, s *stage) (result, error) {
	const bindingController, clusters, namespacesOfMany, added = "binding-controller", 10, 100, 400
	mailboxes, err := s.simulate(ctx, clusters)
	if err != nil {
		return result{}, err
	}
	w := &workload{stage: s, name: "starling-perf-many", objects: s.o.manyBound, mailboxes: mailboxes}
	home := func(i int) string { return fmt.Sprintf("%s-%d", w.name, i%namespacesOfMany) }
	for i := range namespacesOfMany {
		if err := create(ctx, s.wds.dynamic.Resource(namespaces), map[string]any{
			"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": home(i)},
		}); err != nil {
			return result{}, err
		}
		s.clear = append(s.clear, func(ctx context.Context) error { return removed(ctx, s.wds.dynamic.Resource(namespaces), home(i)) })
	}
	each := s.o.manyBound / s.o.manyRules // objects of a policy
	label := func(i int) string { return fmt.Sprintf("many-%d", i/each) }
	add := func(from, to int) error {
		return s.parallel(ctx, to-from, func(ctx context.Context, i int) error {
			i += from
			return create(ctx, s.wds.dynamic.Resource(configMaps).Namespace(home(i)), s.object(home(i), objectName(i), label(i), mark{i, 0}))
		})
	}
	done := step("create %d objects", s.o.manyObjects)
	if err := add(0, s.o.manyObjects); err != nil {
		return result{}, err
	}
	done()
	done = step("place %d of them by %d policies", s.o.manyRules*each, s.o.manyRules)
	arrivals := s.watcher.expect(placed, mailboxes, func(in mailbox) bool { return in.objects() >= s.o.manyRules*each })
	for i := range s.o.manyRules {
		if err := w.placeAs(ctx, fmt.Sprintf("%s-%d", w.name, i), label(i*each)); err != nil {
			return result{}, err
		}
	}
	if err := s.watcher.wait(ctx, arrivals, limit); err != nil {
		return result{}, err
	}
	if err := s.waitIdle(ctx); err != nil {
		return result{}, err
	}
	done()
	r, err := s.result()
	if err != nil {
		return result{}, err
	}
	name := fmt.Sprintf("%d objects in the WDS, %d of them bound by %d policies: ", s.o.manyObjects, s.o.manyRules*each, s.o.manyRules)
	const most = 400 << 20
	u, known := r.memory[bindingController]
	r.figures = append(r.figures, figure{name + "resident memory of the " + bindingController, mib(u.rss), "less than " + mib(most), known && u.rss >= most})

	var policies *controller
	for _, c := range s.controllers {
		if c.name == bindingController {
			policies = c
		}
	}
	if policies == nil {
		return r, nil
	}
	if f, err := s.reevaluated(ctx, w, policies, label, each); err != nil {
		return result{}, err
	} else if f != nil {
		f.what = name + f.what
		r.figures = append(r.figures, *f)
	}
	done = step("add %d objects", added)
	defer done()
	before, err := usageOf(policies.pid)
	if err != nil {
		return result{}, err
	}
	if err := add(s.o.manyObjects, s.o.manyObjects+added); err != nil {
		return result{}, err
	}
	if err := s.waitIdle(ctx); err != nil {
		return result{}, err
	}
	after, err := usageOf(policies.pid)
	if err != nil {
		return result{}, err
	}
	one := (after.cpu - before.cpu) / added
	const mostCPU = 5 * time.Millisecond
	r.figures = append(r.figures, figure{
		name + "CPU of the " + bindingController + " for one more object", ms(one) + " ms", "less than " + ms(mostCPU) + " ms", one >= mostCPU,
	})
	return r, nil
}

// reevaluated edits one policy so that it selects other objects, and returns how many objects were
// tested for it, if the controller has a metric for that.
func (s *stage) reevaluated(ctx context.Context, w *workload, policies *controller, label func(int) string, each int) (*figure, error) {
	const tests = "starling_match_tests_total"
	before, found, err := policies.metric(ctx, tests)
	if err != nil {
		return nil, err
	}
	if !found {
		if policies.own() {
			return nil, fmt.Errorf("%s has no metric %s", policies.name, tests)
		}
		return nil, nil // another implementation does not have the metric
	}
	patch := fmt.Appendf(nil, `[{"op":"replace","path":"/spec/downsync/0/objectSelectors/0/matchLabels/starling-perf","value":%q}]`,
		label(s.o.manyRules*each)) // the first objects that no policy selects
	_, err = s.wds.dynamic.Resource(controlv1alpha1.BindingPolicies).Patch(ctx, w.name+"-0", types.JSONPatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return nil, err
	}
	if err := s.waitIdle(ctx); err != nil {
		return nil, err
	}
	after, _, err := policies.metric(ctx, tests)
	if err != nil {
		return nil, err
	}
	tested, reachable := int(after-before), 2*each
	return &figure{
		what: "objects tested after the edit of one policy", value: fmt.Sprint(tested), goal: fmt.Sprintf("at most %d", reachable), missed: tested > reachable,
	}, nil
}

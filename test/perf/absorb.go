package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
)

// absorber simulates the agents of many clusters.
type absorber struct {
	*stage
	mailboxes []string
	names     []string
	// wds is the UID of the measured WDS, which its WorkStatuses have as a label.
	wds string
	// returned watches the objects in the WDS.
	returned *observer
}

const (
	// absorbPolicy returns status of all objects and combines it.
	absorbPolicy = `
apiVersion: control.kubestellar.io/v1alpha1
kind: BindingPolicy
metadata: {name: $NAME}
spec:
  clusterSelectors: [{matchLabels: {$OBJECT: here}}]
  downsync:
  - resources: [deployments]
    objectSelectors: [{matchLabels: {measured: starling-perf}}]
    wantMultiWECReportedState: true
    statusCollectors: [starling-perf]`
	// absorbCollector groups the clusters by how many replicas they have.
	absorbCollector = `
apiVersion: control.kubestellar.io/v1alpha1
kind: StatusCollector
metadata: {name: starling-perf}
spec:
  groupBy: [{name: available, def: "returned.status.availableReplicas"}]
  combinedFields: [{name: clusters, type: COUNT}, {name: replicas, type: SUM, subject: "returned.status.replicas"}]
  limit: 10`
	// evaluationsMetric counts rows of CombinedStatuses that were evaluated.
	evaluationsMetric = "starling_status_evaluations_total"
	memoryGoal        = 400 << 20
	absorbGoal        = 50 // percent of the rate of bare writes
)

// absorb makes all clusters report all objects at once. It ends when the status of each object in
// the WDS includes the report of the last cluster: a report has a number, and the returned status
// has the smallest one of all clusters. For comparison, the same WorkStatuses are written for
// another WDS, which no controller reads.
func absorb(ctx context.Context, o *statusOptions) (r result, err error) {
	s, closeStage, err := o.stage(ctx, 0, "binding-controller")
	defer func() { err = errors.Join(err, closeStage()) }()
	if err != nil {
		return result{}, err
	}
	a, err := newAbsorber(ctx, s, o)
	if err != nil {
		return result{}, err
	}
	what := fmt.Sprintf("%d clusters x %d objects", o.clusters, o.objects)
	var rates []float64
	for round := range o.rounds + 1 {
		var took, bare time.Duration
		steps := []func() error{
			func() (err error) { bare, err = a.write(ctx, true, round); return err },
			func() (err error) { took, err = a.absorbed(ctx, round); return err },
		}
		for i := range steps {
			if err := s.waitIdle(ctx); err != nil {
				return result{}, err
			}
			which := (i + round) % 2
			done := step("round %d, %s", round, []string{"bare", "read by the binding-controller"}[which])
			if err := steps[which](); err != nil {
				return result{}, err
			}
			done()
		}
		rate := 100 * bare.Seconds() / took.Seconds()
		name := "first reports, " + what
		if round > 0 {
			name = "further reports of all, " + what
			rates = append(rates, rate)
		}
		f := figure{what: fmt.Sprintf("%s: s, beside bare writes", name), value: fmt.Sprintf("%s beside %s: %.0f %% of their rate", seconds(took), seconds(bare), rate)}
		if round == 0 {
			f.goal, f.missed = fmt.Sprintf("%d %%", absorbGoal), rate < absorbGoal
		}
		r.figures = append(r.figures, f)
		r.samples = append(r.samples, sample{name: name, took: took, bare: bare})
	}
	slices.Sort(rates)
	median := rates[len(rates)/2]
	r.figures = append(r.figures, figure{
		what: "further reports of all, median", value: fmt.Sprintf("%.0f %%", median),
		goal: fmt.Sprintf("%d %%", absorbGoal), missed: median < absorbGoal,
	})
	further, err := a.further(ctx, o.rounds)
	if err != nil {
		return r, err
	}
	r.figures = append(r.figures, further)
	r.memory = map[string]usage{}
	for _, c := range s.controllers {
		u, err := usageOf(c.pid)
		if err != nil {
			return r, err
		}
		r.memory[c.name] = u
		r.figures = append(r.figures, figure{what: "resident memory of " + c.name + ", at most", value: mib(u.peak), goal: "under " + mib(memoryGoal), missed: u.peak >= memoryGoal})
	}
	return r, nil
}

func newAbsorber(ctx context.Context, s *stage, o *statusOptions) (*absorber, error) {
	a := &absorber{stage: s}
	var err error
	if a.mailboxes, err = s.simulate(ctx, o.clusters); err != nil {
		return nil, err
	}
	system, err := s.wds.dynamic.Resource(namespaces).Get(ctx, "kube-system", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	a.wds = string(system.GetUID())
	wds := s.wds.dynamic
	if _, err := wds.Resource(namespaces).Create(ctx, parse(namespace, name, ""), metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	for i := range o.objects {
		a.names = append(a.names, nameOf(i))
		if _, err := wds.Resource(deployments).Namespace(name).Create(ctx, parse(object, name, nameOf(i)), metav1.CreateOptions{}); err != nil {
			return nil, err
		}
	}
	if _, err := wds.Resource(controlv1alpha1.StatusCollectors).Create(ctx, parse(absorbCollector, name, ""), metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	policy := parse(absorbPolicy, name, clusterLabel(o.clusters))
	if _, err := wds.Resource(controlv1alpha1.BindingPolicies).Create(ctx, policy, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	a.returned = observe(ctx, wds.Resource(deployments).Namespace(name), func(obj *unstructured.Unstructured) []state {
		return []state{{object: obj.GetName(), status: number(obj, "status", "availableReplicas")}}
	})
	// The reports start when the binding-controller has requested the status.
	waitCtx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		binding, err := wds.Resource(controlv1alpha1.Bindings).Get(waitCtx, name, metav1.GetOptions{})
		if err == nil {
			destinations, _, _ := unstructured.NestedSlice(binding.Object, "spec", "destinations")
			workload, _, _ := unstructured.NestedSlice(binding.Object, "spec", "workload", "namespaceScope")
			if len(destinations) == o.clusters && len(workload) == o.objects {
				return a, nil
			}
		}
		if err := sleep(waitCtx, 50*time.Millisecond); err != nil {
			return nil, fmt.Errorf("wait for the Binding: %w", err)
		}
	}
}

// report returns a WorkStatus, and its status in that round, which has the size of a real
// Deployment's.
func (a *absorber) report(index int, bare bool) map[string]any {
	ref := objref.New(deployments.GroupResource(), name, a.names[index])
	reportName, uid := corestatus.ReportName(ref), a.wds
	if bare {
		reportName, uid = "bare-"+reportName[:len(reportName)-5], "00000000-0000-0000-0000-000000000000"
	}
	return map[string]any{
		"apiVersion": controlv1alpha1.GroupVersion.String(), "kind": "WorkStatus",
		"metadata": map[string]any{"name": reportName, "labels": map[string]any{
			controlv1alpha1.LabelWDSUID: uid, controlv1alpha1.LabelWDSName: "wds1",
		}},
		"spec": map[string]any{"sourceRef": map[string]any{
			"group": ref.Group, "version": "v1", "resource": ref.Resource, "kind": "Deployment", "namespace": ref.Namespace, "name": ref.Name,
		}},
	}
}

func statusOf(round int) map[string]any {
	n := round + 1
	condition := func(kind, reason, message string) map[string]any {
		return map[string]any{
			"type": kind, "status": "True", "reason": reason, "message": message,
			"lastUpdateTime": "2026-01-02T03:04:05Z", "lastTransitionTime": "2026-01-02T03:04:05Z",
		}
	}
	return map[string]any{
		"observedGeneration": 1, "replicas": n, "updatedReplicas": n, "readyReplicas": n, "availableReplicas": n,
		"conditions": []any{
			condition("Available", "MinimumReplicasAvailable", "Deployment has minimum availability."),
			condition("Progressing", "NewReplicaSetAvailable", `ReplicaSet "starling-perf-6f8d7c9b5d" has successfully progressed.`),
		},
	}
}

// write writes all reports of a round with the verbs of an agent, and creates the WorkStatuses in
// the first round. It blocks until all are written.
func (a *absorber) write(ctx context.Context, bare bool, round int) (time.Duration, error) {
	status, err := json.Marshal(statusOf(round))
	if err != nil {
		return 0, err
	}
	patch := fmt.Appendf(nil, `[{"op":"add","path":"/status","value":%s}]`, status)
	bodies, paths := make([][]byte, len(a.names)), make([]string, len(a.names))
	for i := range a.names {
		report := a.report(i, bare)
		paths[i] = (&unstructured.Unstructured{Object: report}).GetName()
		if bodies[i], err = json.Marshal(report); err != nil {
			return 0, err
		}
	}
	began := time.Now()
	all := len(a.names) * len(a.mailboxes)
	err = a.parallel(ctx, all, func(ctx context.Context, i int) error {
		i = i * 7919 % all // in a mixed order: 7919 is prime
		mailbox, object := a.mailboxes[i%len(a.mailboxes)], i/len(a.mailboxes)
		return a.send(ctx, mailbox, paths[object], bodies[object], patch, round == 0)
	})
	return time.Since(began), err
}

func (a *absorber) send(ctx context.Context, mailbox, named string, body, patch []byte, create bool) error {
	resource := controlv1alpha1.WorkStatuses
	path := []string{"apis", resource.Group, resource.Version, "namespaces", mailbox, resource.Resource}
	if create {
		if err := a.its.raw.Post().AbsPath(path...).SetHeader("Content-Type", "application/json").SetHeader("Accept", accept).
			Body(body).Do(ctx).Error(); err != nil {
			return err
		}
	}
	return a.its.raw.Patch(types.JSONPatchType).AbsPath(append(path, named, "status")...).SetHeader("Accept", accept).Body(patch).Do(ctx).Error()
}

// absorbed writes all reports of a round, and returns how long it took until every object in the
// WDS had the status of all clusters.
func (a *absorber) absorbed(ctx context.Context, round int) (time.Duration, error) {
	began := time.Now()
	last, waiting := began, map[string]struct{}{}
	for _, named := range a.names {
		waiting[named] = struct{}{}
	}
	written := make(chan error, 1)
	go func() {
		_, err := a.write(ctx, false, round)
		written <- err
	}()
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	for writing := true; writing || len(waiting) > 0; {
		select {
		case err := <-written:
			if err != nil {
				return 0, err
			}
			writing = false
		case came, open := <-a.returned.events:
			if !open {
				return 0, fmt.Errorf("watch ended: %w", a.returned.err)
			}
			if _, waits := waiting[came.state.object]; waits && came.state.status == int64(round+1) {
				delete(waiting, came.state.object)
				last = came.at
			}
		case <-timeout.C:
			return 0, fmt.Errorf("after %s, %d objects do not have the status that all clusters reported", limit, len(waiting))
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return last.Sub(began), nil
}

// further makes one cluster report one object again, and returns how many rows were evaluated for
// it.
func (a *absorber) further(ctx context.Context, round int) (figure, error) {
	f := figure{what: "one further report: rows evaluated", goal: "1"}
	if err := a.waitIdle(ctx); err != nil {
		return f, err
	}
	controller := a.controllers[0]
	before, found, err := controller.metric(ctx, evaluationsMetric)
	if err != nil || !found {
		return f, errors.Join(err, fmt.Errorf("%s has no metric %s", controller.name, evaluationsMetric))
	}
	status, err := json.Marshal(statusOf(round + 1))
	if err != nil {
		return f, err
	}
	named := (&unstructured.Unstructured{Object: a.report(0, false)}).GetName()
	patch := fmt.Appendf(nil, `[{"op":"add","path":"/status","value":%s}]`, status)
	if err := a.send(ctx, a.mailboxes[0], named, nil, patch, false); err != nil {
		return f, err
	}
	waitCtx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for now := before; now == before; {
		if err := sleep(waitCtx, 50*time.Millisecond); err != nil {
			return f, fmt.Errorf("wait for an evaluation: %w", err)
		}
		if now, _, err = controller.metric(waitCtx, evaluationsMetric); err != nil {
			return f, err
		}
	}
	if err := a.waitIdle(ctx); err != nil { // late evaluations count too
		return f, err
	}
	after, _, err := controller.metric(ctx, evaluationsMetric)
	if err != nil {
		return f, err
	}
	f.value, f.missed = fmt.Sprintf("%.0f of %d", after-before, len(a.names)*len(a.mailboxes)), after-before != 1
	return f, nil
}

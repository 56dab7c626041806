package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	starlingspace "github.com/starlinghq/starling/pkg/localfleet"
)

// repositories is the resource of Repositories, which have the packages.
var repositories = schema.GroupVersionResource{Group: "config.porch.kpt.dev", Version: "v1alpha1", Resource: "repositories"}

type packagesOptions struct {
	choice[*packageStage]

	revisions, packages     int
	clones, objects, atOnce int
	rounds                  int
	// targets are the numbers of clusters of the sets. The clusters of a set include those of the
	// one before.
	targets []int
}

func packagesScenarios() []scenario[*packageStage] {
	return []scenario[*packageStage]{
		{name: "list", what: "many revisions: kubectl get, the cost of a change for a watch, memory, idle CPU", run: listRevisions},
		{name: "approve", what: "approvals, compared with bare writes of revisions", run: approveRevisions},
		{name: "clone", what: "parallel clones of a package with a pipeline, compared with bare writes of the objects they store", run: cloneRevisions},
		{name: "variants", what: "a set for many simulated clusters: from publication of the upstream to the last draft, and from approval to the last mailbox", run: fanOut},
	}
}

const (
	listGoal      = 1500 * time.Millisecond
	serverMemory  = 300 << 20
	idleGoal      = 1 // percent of a CPU
	approveP99    = 150 * time.Millisecond
	cloneP50      = 150 * time.Millisecond
	cloneP99      = 500 * time.Millisecond
	packageServer = "package-server"
	revisionsPerP = 10 // of a package, in list
	idleFor       = 10 * time.Second
	watchFor      = 2 * time.Second
	catalog, edge = "catalog", "edge"
)

func newPackagesCommand() *cobra.Command {
	o := &packagesOptions{}
	o.all = packagesScenarios()
	cmd := o.command("packages", "Measure the package store", "Each scenario starts a fleet and removes it.", o.run)
	f := cmd.Flags()
	f.IntVar(&o.revisions, "revisions", 10000, "Number of revisions in list.")
	f.IntVar(&o.packages, "packages", 1000, "Number of packages in approve, each with a proposed revision.")
	f.IntVar(&o.clones, "clones", 200, "Number of clones in each round of clone.")
	f.IntVar(&o.objects, "objects", 50, "Number of objects in the cloned package.")
	f.IntVar(&o.atOnce, "at-once", 16, "Number of parallel clones.")
	f.IntSliceVar(&o.targets, "targets", []int{100, 1000}, "Numbers of clusters in variants, one set after the other.")
	f.IntVar(&o.rounds, "rounds", 3, "Number of rounds of list and clone, after a first one that does not count.")
	return cmd
}

func (o *packagesOptions) validate() error {
	for _, n := range o.targets {
		if n < 1 {
			return fmt.Errorf("invalid --targets %d: must be greater than 0", n)
		}
	}
	return o.choice.validate(map[string]int{
		"revisions": o.revisions, "packages": o.packages, "clones": o.clones, "objects": o.objects, "at-once": o.atOnce, "rounds": o.rounds,
	})
}

func (o *packagesOptions) run(ctx context.Context) error {
	if err := o.validate(); err != nil {
		return err
	}
	return o.play(ctx, "BenchmarkPackages", "", o.playOn)
}

// playOn runs a scenario on a new stage.
func (o *packagesOptions) playOn(ctx context.Context, s scenario[*packageStage]) (r result, err error) {
	p, closeStage, err := newPackageStage(ctx, o)
	defer func() { err = errors.Join(err, closeStage()) }()
	if err != nil {
		return result{}, err
	}
	return s.run(ctx, p)
}

// packageStage is a fleet of API servers with a package-server, and a namespace with two
// repositories.
type packageStage struct {
	*stage
	o *packagesOptions
}

func newPackageStage(ctx context.Context, o *packagesOptions) (p *packageStage, closeStage func() error, err error) {
	p = &packageStage{stage: &stage{o: &placementOptions{concurrency: o.atOnce}}, o: o}
	dir, remove, err := ownFleet(ctx, "--wecs", "0", "--no-ocm", "--no-controllers", "--ephemeral", "--large")
	if err != nil {
		return p, func() error { return nil }, err
	}
	p.dir, closeStage = dir, func() error { return errors.Join(p.stop(), remove()) }
	if p.wds, err = newSpace(filepath.Join(p.dir, "kubeconfig"), "wds1", 5000, 5000); err != nil {
		return p, closeStage, err
	}
	pid, err := componentPID(ctx, p.dir, "wds1/"+packageServer)
	if err != nil {
		return p, closeStage, err
	}
	p.controllers = []*controller{{name: packageServer, pid: pid}}
	if err := create(ctx, p.wds.dynamic.Resource(namespaces), map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}); err != nil {
		return p, closeStage, err
	}
	for _, repository := range []string{catalog, edge} {
		err := create(ctx, p.wds.dynamic.Resource(repositories).Namespace(name), map[string]any{
			"apiVersion": repositories.GroupVersion().String(), "kind": "Repository", "metadata": map[string]any{"name": repository},
			"spec": map[string]any{"type": "hub"},
		})
		if err != nil {
			return p, closeStage, err
		}
	}
	return p, closeStage, nil
}

// componentPID returns the process ID of a component of a fleet.
func componentPID(ctx context.Context, dir, component string) (int, error) {
	out, err := exec.CommandContext(ctx, binary("starling"), "status", "-o", "json", "--dir", dir).Output()
	var status starlingspace.Status
	if jsonErr := json.Unmarshal(out, &status); jsonErr != nil { // the output is complete also if a component is not ready
		return 0, errors.Join(err, jsonErr)
	}
	for _, c := range status.Components {
		if c.Name == component && c.PID != 0 {
			return c.PID, nil
		}
	}
	return 0, fmt.Errorf("the fleet has no component %q", component)
}

func (p *packageStage) served() dynamic.ResourceInterface {
	return p.wds.dynamic.Resource(porchv1alpha1.ResourcePackageRevisions).Namespace(name)
}

func (p *packageStage) kept() dynamic.ResourceInterface {
	return p.wds.dynamic.Resource(storev1alpha1.PackageRevisions).Namespace(name)
}

// draft creates a revision with a task and returns it.
func (p *packageStage) draft(ctx context.Context, repository, packageName, workspace string, task map[string]any) (*unstructured.Unstructured, error) {
	return p.served().Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": porchv1alpha1.GroupVersion.String(), "kind": "PackageRevision", "metadata": map[string]any{},
		"spec": map[string]any{
			"repository": repository, "packageName": packageName, "workspaceName": workspace, "lifecycle": "Draft", "tasks": []any{task},
		},
	}}, metav1.CreateOptions{})
}

func initTask() map[string]any { return map[string]any{"type": "init", "init": map[string]any{}} }

// move sets the lifecycle of a revision. After a conflict it reads the revision again, because
// controllers write revisions too.
func (p *packageStage) move(ctx context.Context, revision *unstructured.Unstructured, lifecycle string, subresources ...string) (after *unstructured.Unstructured, err error) {
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := unstructured.SetNestedField(revision.Object, lifecycle, "spec", "lifecycle"); err != nil {
			return err
		}
		after, err = p.served().Update(ctx, revision, metav1.UpdateOptions{}, subresources...)
		if apierrors.IsConflict(err) {
			now, readErr := p.served().Get(ctx, revision.GetName(), metav1.GetOptions{})
			if readErr != nil {
				return readErr
			}
			revision = now
		}
		return err
	})
	return after, err
}

// template is a revision as it is stored, for copies of it.
func (p *packageStage) template(ctx context.Context, named string) (*unstructured.Unstructured, error) {
	obj, err := p.kept().Get(ctx, named, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"} {
		unstructured.RemoveNestedField(obj.Object, "metadata", field)
	}
	return obj, nil
}

// copyOf returns another revision with the same content. Revisions are copied because creating them
// takes long and is not measured.
func copyOf(template *unstructured.Unstructured, packageName, workspace string, revision int) *unstructured.Unstructured {
	obj := template.DeepCopy()
	spec, _ := obj.Object["spec"].(map[string]any)
	obj.SetName(fmt.Sprintf("%v.%s.%s", spec["repository"], packageName, workspace))
	spec["packageName"], spec["workspaceName"] = packageName, workspace
	if revision > 0 {
		spec["revision"] = int64(revision)
	}
	return obj
}

// listRevisions measures the cost of listing and watching many revisions.
func listRevisions(ctx context.Context, p *packageStage) (result, error) {
	first, err := p.draft(ctx, catalog, "template", "v1", initTask())
	if err != nil {
		return result{}, err
	}
	for _, to := range []struct {
		lifecycle    string
		subresources []string
	}{{"Proposed", nil}, {"Published", []string{"approval"}}} {
		if first, err = p.move(ctx, first, to.lifecycle, to.subresources...); err != nil {
			return result{}, err
		}
	}
	template, err := p.template(ctx, first.GetName())
	if err != nil {
		return result{}, err
	}
	done := step("create %d revisions", p.o.revisions)
	err = p.parallel(ctx, p.o.revisions-1, func(ctx context.Context, i int) error {
		n := i%revisionsPerP + 1
		obj := copyOf(template, fmt.Sprintf("package-%04d", i/revisionsPerP), fmt.Sprintf("v%d", n), n)
		labels := obj.GetLabels()
		if n != revisionsPerP {
			delete(labels, porchv1alpha1.LatestRevisionLabel)
		}
		obj.SetLabels(labels)
		made, err := p.kept().Create(ctx, obj, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		// Published revisions have no managedFields: package-server wrote them last and removed
		// them.
		made.SetManagedFields([]metav1.ManagedFieldsEntry{{}})
		_, err = p.kept().Update(ctx, made, metav1.UpdateOptions{})
		return err
	})
	done()
	if err != nil {
		return result{}, err
	}
	var r result
	if err := p.measureGet(ctx, &r); err != nil {
		return r, err
	}
	if err := p.measureWatch(ctx, &r, first.GetName()); err != nil {
		return r, err
	}
	err = p.measureRest(ctx, &r)
	return r, err
}

// measureGet measures kubectl get of revisions, in turn with kubectl get of the stored objects,
// which the API server serves alone. All are requested in one page: otherwise kubectl waits two
// seconds before it requests the last page.
func (p *packageStage) measureGet(ctx context.Context, r *result) error {
	gets := [][]string{{"packagerevisions." + porchv1alpha1.GroupName}, {"packagerevisions." + storev1alpha1.GroupName, "--chunk-size=0"}}
	took := make([][]time.Duration, len(gets))
	cpu, err := p.meter(ctx)
	if err != nil {
		return err
	}
	for round := range p.o.rounds + 1 {
		for i := range gets {
			i = (i + round) % len(gets)
			if err := p.waitIdle(ctx); err != nil {
				return err
			}
			if err := cpu.begin(); err != nil {
				return err
			}
			began := time.Now()
			args := []string{"kubectl", "--dir", p.dir, "--", "--context", "wds1", "-n", name, "get"}
			cmd := exec.CommandContext(ctx, binary("starling"), append(args, gets[i]...)...)
			out, err := cmd.Output()
			if err != nil {
				return fmt.Errorf("%s: %w", cmd, err)
			}
			if lines := strings.Count(string(out), "\n") - 1; lines != p.o.revisions {
				return fmt.Errorf("kubectl get %s printed %d of %d revisions", gets[i][0], lines, p.o.revisions)
			}
			if round == 0 {
				continue
			}
			took[i] = append(took[i], time.Since(began))
			if i == 0 {
				err = cpu.end()
			}
			if err != nil {
				return err
			}
		}
	}
	r.times("kubectl get", fmt.Sprintf("kubectl get of %d revisions", p.o.revisions), took[0], took[1], quantileGoal{50, listGoal})
	r.figures = append(r.figures, cpu.figure("each, without kubectl's own", p.o.rounds))
	return nil
}

// measureWatch counts the events of one change.
func (p *packageStage) measureWatch(ctx context.Context, r *result, changed string) error {
	list, err := p.served().List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return err
	}
	w, err := p.served().Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion(), AllowWatchBookmarks: true})
	if err != nil {
		return err
	}
	defer w.Stop()
	began := time.Now()
	if _, err := p.served().Patch(ctx, changed, types.MergePatchType, []byte(`{"metadata":{"labels":{"measured":"starling-perf"}}}`), metav1.PatchOptions{}); err != nil {
		return err
	}
	events, after := 0, time.Duration(0)
	end := time.NewTimer(watchFor)
	defer end.Stop()
	for running := true; running; {
		select {
		case event, open := <-w.ResultChan():
			if !open {
				return errors.New("the watch ended")
			}
			if event.Type != watch.Bookmark {
				events++
				if events == 1 {
					after = time.Since(began)
				}
			}
		case <-end.C:
			running = false
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	r.figures = append(r.figures,
		figure{what: "one change: events of a watch", value: fmt.Sprint(events), goal: "1", missed: events != 1},
		figure{what: "one change: from the request to the event, ms", value: ms(after)})
	return nil
}

// measureRest measures the CPU time and the memory of the server without requests.
func (p *packageStage) measureRest(ctx context.Context, r *result) error {
	if err := p.waitIdle(ctx); err != nil {
		return err
	}
	pid := p.controllers[0].pid
	before, err := usageOf(pid)
	if err != nil {
		return err
	}
	if err := sleep(ctx, idleFor); err != nil {
		return err
	}
	after, err := usageOf(pid)
	if err != nil {
		return err
	}
	percent := 100 * (after.cpu - before.cpu).Seconds() / idleFor.Seconds()
	r.memory = map[string]usage{packageServer: after}
	r.figures = append(r.figures,
		figure{what: fmt.Sprintf("resident memory of %s, at most", packageServer), value: mib(after.peak), goal: "under " + mib(serverMemory), missed: after.peak >= serverMemory},
		figure{what: fmt.Sprintf("idle CPU of %s", packageServer), value: fmt.Sprintf("%.1f %%", percent), goal: fmt.Sprintf("under %d %%", idleGoal), missed: percent >= idleGoal})
	return nil
}

// quantileGoal is the maximum of a percentile of the measurements.
type quantileGoal struct {
	p    int
	goal time.Duration
}

// times adds figures and samples of the measured durations, and of the bare ones in the same run.
func (r *result) times(sampled, what string, took, bare []time.Duration, goals ...quantileGoal) {
	ours, theirs := slices.Sorted(slices.Values(took)), slices.Sorted(slices.Values(bare))
	for _, g := range goals {
		x, y := quantile(ours, g.p), quantile(theirs, g.p)
		r.figures = append(r.figures, figure{
			what:  fmt.Sprintf("%s: p%d of %d, ms (bare; ratio)", what, g.p, len(ours)),
			value: fmt.Sprintf("%s (%s; %.1f)", ms(x), ms(y), x.Seconds()/y.Seconds()),
			goal:  "under " + ms(g.goal), missed: x >= g.goal,
		})
	}
	for i := range took {
		r.samples = append(r.samples, sample{name: sampled, took: took[i], bare: bare[min(i, len(bare)-1)]})
	}
}

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/yaml"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

type foresightOptions struct {
	choice[*stage]

	objects, policies, placed, clusters int
	rounds                              int
}

const (
	foresightGoal      = 5 * time.Second
	foresightSmallGoal = 300 * time.Millisecond
	// foresightSmall is how many objects and clusters a small fleet has.
	foresightSmall, foresightSmallClusters = 20, 2
)

func newForesightCommand() *cobra.Command {
	o := &foresightOptions{}
	o.all = []scenario[*stage]{
		{name: "small", what: "a fleet as on a laptop", run: func(ctx context.Context, s *stage) (result, error) {
			return o.foresee(ctx, s, foresightOptions{placed: foresightSmall, clusters: foresightSmallClusters, rounds: o.rounds}, foresightSmallGoal)
		}},
		{name: "large", what: "very many objects in the WDS, of which some go to each of many clusters, and the others to one each", run: func(ctx context.Context, s *stage) (result, error) {
			return o.foresee(ctx, s, *o, foresightGoal)
		}},
	}
	cmd := o.command("foresight", "Measure the commands that plan, explain and wait",
		"Each scenario starts a fleet with simulated clusters, and removes it. Times are until the first output of a command.", o.run)
	f := cmd.Flags()
	f.IntVar(&o.objects, "objects", 100000, "Number of further objects in large.")
	f.IntVar(&o.policies, "policies", 100, "Number of policies in large that select the further objects, each for one cluster.")
	f.IntVar(&o.placed, "placed", 100, "Number of objects in large that go to each cluster.")
	f.IntVar(&o.clusters, "clusters", 1000, "Number of clusters in large.")
	f.IntVar(&o.rounds, "rounds", 3, "How often each command is run.")
	return cmd
}

func (o *foresightOptions) run(ctx context.Context) error {
	err := o.validate(map[string]int{"objects": o.objects, "policies": o.policies, "placed": o.placed, "clusters": o.clusters, "rounds": o.rounds})
	if err != nil {
		return err
	}
	return o.play(ctx, "BenchmarkForesight", "", func(ctx context.Context, s scenario[*stage]) (r result, err error) {
		stage, closeStage, err := newStage(ctx, &placementOptions{
			wds: "wds1", its: "its1", qps: 5000, burst: 5000, concurrency: 32, objectSize: 500,
			controllers: []string{"binding-controller", "transport-controller"},
		})
		defer func() { err = errors.Join(err, closeStage()) }()
		if err != nil {
			return result{}, err
		}
		return s.run(ctx, stage)
	})
}

// foresee fills a fleet, and runs each command.
func (o *foresightOptions) foresee(ctx context.Context, s *stage, size foresightOptions, goal time.Duration) (result, error) {
	mailboxes, err := s.simulate(ctx, size.clusters)
	if err != nil {
		return result{}, err
	}
	w, err := s.fill(ctx, "foresight", size.placed, mailboxes)
	if err != nil {
		return result{}, err
	}
	if err := w.placeAndWait(ctx); err != nil {
		return result{}, err
	}
	if err := s.others(ctx, size.objects, size.policies, mailboxes); err != nil {
		return result{}, err
	}
	if err := s.waitIdle(ctx); err != nil {
		return result{}, err
	}
	files, err := os.MkdirTemp("", "starling-perf-files-")
	if err != nil {
		return result{}, err
	}
	defer os.RemoveAll(files)
	commands, err := w.foresightCommands(files)
	if err != nil {
		return result{}, err
	}
	what := fmt.Sprintf("%d objects, %d clusters", size.placed+size.objects, size.clusters)
	r, err := s.result()
	if err != nil {
		return result{}, err
	}
	bare, err := s.bareReads(ctx, size.rounds)
	if err != nil {
		return result{}, err
	}
	r.figures = append(r.figures, timeFigure(what+": bare lists of what plan reads", bare, 0))
	for _, command := range commands {
		done := step("%s", command.name)
		first, err := command.run(ctx, s.dir, size.rounds)
		if err != nil {
			return result{}, err
		}
		done()
		f := timeFigure(what+": "+command.name, first, goal)
		f.value += fmt.Sprintf(" (%.1f of bare)", first.Seconds()/bare.Seconds())
		r.figures = append(r.figures, f)
		r.samples = append(r.samples, sample{name: what + ", " + command.name, took: first})
	}
	return r, nil
}

// others creates further objects, and policies that each select some of them for one cluster.
func (s *stage) others(ctx context.Context, objects, policies int, clusters []string) error {
	if objects == 0 {
		return nil
	}
	done := step("create %d further objects and %d policies", objects, policies)
	defer done()
	group := func(i int) string { return fmt.Sprintf("starling-perf-group-%04d", i%policies) }
	err := s.parallel(ctx, policies, func(ctx context.Context, i int) error {
		err := create(ctx, s.wds.dynamic.Resource(namespaces), map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": group(i)}})
		if err != nil {
			return err
		}
		_, err = s.its.dynamic.Resource(managedClusters).Patch(ctx, clusters[i%len(clusters)], types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"labels":{%q:"here"}}}`, group(i)), metav1.PatchOptions{})
		return err
	})
	if err != nil {
		return err
	}
	err = s.parallel(ctx, objects, func(ctx context.Context, i int) error {
		return create(ctx, s.wds.dynamic.Resource(configMaps).Namespace(group(i)), s.object(group(i), objectName(i), group(i), mark{i, 0}))
	})
	if err != nil {
		return err
	}
	// The policies come last, so that each is placed once.
	return s.parallel(ctx, policies, func(ctx context.Context, i int) error {
		return create(ctx, s.wds.dynamic.Resource(controlv1alpha1.BindingPolicies), policyFor(group(i), group(i), group(i)))
	})
}

// bareReads returns how long it takes to list what a plan reads: the metadata of all objects, the
// Bindings, and the clusters.
func (s *stage) bareReads(ctx context.Context, rounds int) (time.Duration, error) {
	partial, err := metadata.NewForConfig(s.wds.config)
	if err != nil {
		return 0, err
	}
	var times []time.Duration
	for range rounds {
		began := time.Now()
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error {
			_, err := partial.Resource(configMaps).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
			return err
		})
		group.Go(func() error {
			_, err := s.wds.dynamic.Resource(controlv1alpha1.Bindings).List(ctx, metav1.ListOptions{})
			return err
		})
		group.Go(func() error {
			_, err := s.its.dynamic.Resource(managedClusters).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
			return err
		})
		if err := group.Wait(); err != nil {
			return 0, err
		}
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	return quantile(times, 50), nil
}

// foresightCommand is a command of kubectl starling.
type foresightCommand struct {
	name string
	args []string
	// code is its exit code.
	code int
}

// foresightCommands returns the commands that are measured. Files for them are in a directory.
func (w *workload) foresightCommands(dir string) ([]foresightCommand, error) {
	edit, err := yaml.Marshal(w.object(w.name, objectName(0), w.name, mark{0, 1}))
	if err != nil {
		return nil, err
	}
	narrow, err := yaml.Marshal(policyFor(w.name, clusterLabel(len(w.mailboxes)), "nothing"))
	if err != nil {
		return nil, err
	}
	editFile, policyFile := filepath.Join(dir, "edit.yaml"), filepath.Join(dir, "policy.yaml")
	if err := errors.Join(os.WriteFile(editFile, edit, 0o600), os.WriteFile(policyFile, narrow, 0o600)); err != nil {
		return nil, err
	}
	object, policy, cluster := "configmap/"+objectName(1), "policy/"+w.name, w.mailboxes[len(w.mailboxes)-1]
	label := "cluster/" + cluster + "=" + clusterLabel(len(w.mailboxes)) + "-"
	return []foresightCommand{
		{"plan of an edit", []string{"plan", "-f", editFile}, 2},
		{"plan of a policy", []string{"plan", "-f", policyFile}, 2},
		{"plan of a label of a cluster", []string{"plan", "--label", label}, 2},
		{"explain of an object in a cluster", []string{"explain", object, "--cluster", cluster}, 0},
		{"explain of an object", []string{"explain", object}, 0},
		{"explain of a policy", []string{"explain", policy}, 0},
		{"explain of a cluster", []string{"explain", "cluster/" + cluster}, 0},
		{"clusters", []string{"clusters"}, 0},
		{"rollout status of an object", []string{"rollout", "status", object, "--for=delivered"}, 0},
		{"rollout status of a policy", []string{"rollout", "status", policy, "--for=delivered"}, 0},
		{"tree of a policy", []string{"tree", policy}, 0},
	}, nil
}

// run runs the command several times. It returns the median of the time until it printed something.
func (c *foresightCommand) run(ctx context.Context, dir string, rounds int) (time.Duration, error) {
	var times []time.Duration
	for range rounds {
		cmd := exec.CommandContext(ctx, binary("kubectl-starling"), append(slices.Clone(c.args), "--context", "wds1", "-n", "starling-perf-foresight")...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(dir, "kubeconfig"), "STARLING_ITS_CONTEXT=its1")
		out := &firstWrite{began: time.Now()}
		var errOut bytes.Buffer
		cmd.Stdout, cmd.Stderr = out, &errOut
		err := cmd.Run()
		if code := cmd.ProcessState.ExitCode(); code != c.code {
			return 0, fmt.Errorf("%s: exit code %d, want %d: %w: %s", strings.Join(c.args, " "), code, c.code, err, &errOut)
		}
		times = append(times, out.took)
	}
	slices.Sort(times)
	return quantile(times, 50), nil
}

// firstWrite measures the time until the first output.
type firstWrite struct {
	began time.Time
	took  time.Duration
}

func (f *firstWrite) Write(p []byte) (int, error) {
	if f.took == 0 {
		f.took = time.Since(f.began)
	}
	return len(p), nil
}

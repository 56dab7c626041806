package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

var (
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	crds       = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// limit is the timeout of every wait.
const limit = 10 * time.Minute

// space has the clients of an API server.
type space struct {
	name    string
	config  *rest.Config
	dynamic *dynamic.DynamicClient
	raw     rest.Interface
}

func newSpace(kubeconfig, name string, qps float32, burst int) (*space, error) {
	config, err := contextConfig(kubeconfig, name)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = qps, burst
	s := &space{name: name, config: config}
	if s.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	rawConfig := dynamic.ConfigFor(config)
	rawConfig.GroupVersion, rawConfig.APIPath = &schema.GroupVersion{}, "/unused" // requests carry absolute paths
	if s.raw, err = rest.RESTClientFor(rawConfig); err != nil {
		return nil, err
	}
	return s, nil
}

// stage has the spaces and the controllers on which a scenario runs.
type stage struct {
	o           *placementOptions
	wds, its    *space
	controllers []*controller
	watcher     *watcher
	dir         string
	// clear removes what was created in spaces that this program did not start.
	clear []func(context.Context) error
}

// newStage connects to the spaces of --kubeconfig, or starts some. The caller must close it, also
// after an error.
func newStage(ctx context.Context, o *placementOptions) (s *stage, closeStage func() error, err error) {
	s = &stage{o: o}
	ctx, cancel := context.WithCancel(ctx)
	var remove func() error
	closeStage = func() error {
		defer cancel()
		var errs []error
		if o.kubeconfig != "" {
			for _, f := range s.clear {
				errs = append(errs, f(context.WithoutCancel(ctx)))
			}
		}
		errs = append(errs, s.stop())
		if remove != nil {
			errs = append(errs, remove())
		}
		return errors.Join(errs...)
	}
	kubeconfig := o.kubeconfig
	if kubeconfig == "" {
		flags := []string{"--wecs", strconv.Itoa(o.wecs), "--no-controllers", "--no-packages", "--ephemeral", "--large"}
		if !o.ocm {
			flags = append(flags, "--no-ocm")
		}
		if s.dir, remove, err = ownFleet(ctx, flags...); err != nil {
			return s, closeStage, err
		}
		kubeconfig = filepath.Join(s.dir, "kubeconfig")
	}
	if s.wds, err = newSpace(kubeconfig, o.wds, 5000, 5000); err != nil {
		return s, closeStage, err
	}
	if s.its, err = newSpace(kubeconfig, o.its, o.qps, o.burst); err != nil {
		return s, closeStage, err
	}
	if o.kubeconfig == "" {
		if err := s.install(ctx); err != nil {
			return s, closeStage, err
		}
		if err = s.run(ctx, o.controllers...); err != nil {
			return s, closeStage, err
		}
	} else {
		for name, pid := range o.pids {
			s.controllers = append(s.controllers, &controller{name: name, pid: pid})
		}
	}
	s.watcher = watchMailboxes(ctx, s.its)
	return s, closeStage, nil
}

// stop stops the controllers that run started.
func (s *stage) stop() error {
	var errs []error
	for _, c := range s.controllers {
		if c.own() {
			errs = append(errs, c.stop())
		}
	}
	return errors.Join(errs...)
}

// run starts controllers and blocks until they are ready.
func (s *stage) run(ctx context.Context, names ...string) (err error) {
	if s.controllers, err = ownControllers(ctx, s.dir, s.o.wds, s.o.its, map[string][]string{"transport-controller": s.o.transportFlags}, names...); err != nil {
		return err
	}
	for _, c := range s.controllers {
		if err := c.waitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// install installs the CRDs of Starling and of OCM in the spaces of a fleet that this program
// started.
func (s *stage) install(ctx context.Context) error {
	root, err := moduleDir(ctx, "github.com/starlinghq/starling")
	if err != nil {
		return err
	}
	ours, err := filepath.Glob(filepath.Join(root, "config/crd/*.yaml"))
	if err != nil {
		return err
	}
	for _, file := range ours {
		if err := s.wds.apply(ctx, file); err != nil {
			return err
		}
	}
	return s.installITS(ctx, root)
}

// installITS installs the CRDs of an ITS. The root is the directory of Starling's module.
func (s *stage) installITS(ctx context.Context, root string) error {
	ocm, err := moduleDir(ctx, "open-cluster-management.io/api")
	if err != nil {
		return err
	}
	for _, file := range []string{
		filepath.Join(root, "config/crd/control.kubestellar.io_workstatuses.yaml"),
		filepath.Join(ocm, "cluster/v1/0000_00_clusters.open-cluster-management.io_managedclusters.crd.yaml"),
		filepath.Join(ocm, "work/v1/0000_00_work.open-cluster-management.io_manifestworks.crd.yaml"),
	} {
		if err := s.its.apply(ctx, file); err != nil {
			return err
		}
	}
	return nil
}

// moduleDir returns the directory of a module's source.
func moduleDir(ctx context.Context, module string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("find the CRDs of %s: go list: %w", module, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// apply creates the CRD in the file, and blocks until it is served.
func (s *space) apply(ctx context.Context, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &crd.Object); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return s.define(ctx, crd)
}

// define creates the CRD, if OCM's hub has not, and blocks until it is served.
func (s *space) define(ctx context.Context, crd *unstructured.Unstructured) error {
	if err := create(ctx, s.dynamic.Resource(crds), crd.Object); err != nil {
		return fmt.Errorf("%s: %w", crd.GetName(), err)
	}
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	version, _, _ := unstructured.NestedString(versions[0].(map[string]any), "name")
	resource := schema.GroupVersionResource{Group: group, Version: version, Resource: plural}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		if _, err := s.dynamic.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1}); err == nil {
			return nil
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("%s is not served: %w", resource, err)
		}
	}
}

// parallel calls do n times, with the parallelism of bare writes.
func (s *stage) parallel(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	return parallel(ctx, s.o.concurrency, n, do)
}

func parallel(ctx context.Context, atOnce, n int, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

// create creates an object. An existing one is not changed.
func create(ctx context.Context, client dynamic.ResourceInterface, object map[string]any) error {
	_, err := client.Create(ctx, &unstructured.Unstructured{Object: object}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// simulate creates n accepted ManagedClusters with labels for policies, and their mailboxes, and
// returns their names.
func (s *stage) simulate(ctx context.Context, n int) ([]string, error) {
	done := step("simulate %d clusters", n)
	defer done()
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("perf-%06d", i)
	}
	atOnce := s.o.concurrency
	if s.o.ocm {
		atOnce = 4 // OCM's webhook checks five rights a second, and the API server waits 10 s for it
	}
	return names, parallel(ctx, atOnce, n, func(ctx context.Context, i int) error {
		err := create(ctx, s.its.dynamic.Resource(namespaces), map[string]any{
			"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": names[i]},
		})
		if err != nil {
			return err
		}
		cluster := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": managedClusters.GroupVersion().String(), "kind": "ManagedCluster",
			"metadata": map[string]any{"name": names[i], "labels": map[string]any{clusterLabel(n): "here"}},
			"spec":     map[string]any{"hubAcceptsClient": true},
		}}
		_, err = s.its.dynamic.Resource(managedClusters).Create(ctx, cluster, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		_, err = s.its.dynamic.Resource(managedClusters).Patch(ctx, names[i], types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"labels":{%q:"here"}}}`, clusterLabel(n)), metav1.PatchOptions{})
		return err
	})
}

// clusterLabel is the label of the first n clusters.
func clusterLabel(n int) string { return fmt.Sprintf("starling-perf-%d", n) }

// workload has objects and the policy that places them.
type workload struct {
	*stage
	name      string
	objects   int
	mailboxes []string
}

// fill creates the objects of a workload: ConfigMaps of about --object-size bytes. Their namespace
// is not placed, because no agent would report that it exists.
func (s *stage) fill(ctx context.Context, name string, objects int, mailboxes []string) (*workload, error) {
	done := step("create %d objects", objects)
	defer done()
	w := &workload{stage: s, name: "starling-perf-" + name, objects: objects, mailboxes: mailboxes}
	err := create(ctx, s.wds.dynamic.Resource(namespaces), map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": w.name},
	})
	if err != nil {
		return nil, err
	}
	s.clear = append(s.clear, func(ctx context.Context) error { return removed(ctx, s.wds.dynamic.Resource(namespaces), w.name) })
	return w, s.parallel(ctx, objects, func(ctx context.Context, i int) error {
		return create(ctx, s.wds.dynamic.Resource(configMaps).Namespace(w.name), s.object(w.name, objectName(i), w.name, mark{i, 0}))
	})
}

func objectName(i int) string { return fmt.Sprintf("object-%06d", i) }

func (s *stage) object(namespace, objectName, label string, m mark) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"namespace": namespace, "name": objectName, "labels": map[string]any{"starling-perf": label}},
		"data":     map[string]any{"mark": m.of(placed), "filler": strings.Repeat("0123456789", max(0, s.o.objectSize-250)/10)},
	}
}

// place creates the policy.
func (w *workload) place(ctx context.Context) error { return w.placeAs(ctx, w.name, w.name) }

func (w *workload) placeAs(ctx context.Context, policy, label string) error {
	w.clear = append(w.clear, func(ctx context.Context) error {
		return removed(ctx, w.wds.dynamic.Resource(controlv1alpha1.BindingPolicies), policy)
	})
	_, err := w.wds.dynamic.Resource(controlv1alpha1.BindingPolicies).Create(
		ctx, &unstructured.Unstructured{Object: policyFor(policy, clusterLabel(len(w.mailboxes)), label)}, metav1.CreateOptions{})
	return err
}

// policyFor returns a policy that selects the ConfigMaps with a label for the clusters with another
// one.
func policyFor(name, clusters, objects string) map[string]any {
	return map[string]any{
		"apiVersion": controlv1alpha1.BindingPolicies.GroupVersion().String(), "kind": "BindingPolicy",
		"metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"clusterSelectors": []any{map[string]any{"matchLabels": map[string]any{clusters: "here"}}},
			"downsync": []any{map[string]any{
				"resources":       []any{"configmaps"},
				"objectSelectors": []any{map[string]any{"matchLabels": map[string]any{"starling-perf": objects}}},
			}},
		},
	}
}

// full reports whether a mailbox has all objects of the workload.
func (w *workload) full(in mailbox) bool { return in.objects() >= w.objects }

func (w *workload) remove(ctx context.Context) error {
	return w.wds.dynamic.Resource(controlv1alpha1.BindingPolicies).Delete(ctx, w.name, metav1.DeleteOptions{})
}

func (w *workload) edit(ctx context.Context, m mark) error {
	_, err := w.wds.dynamic.Resource(configMaps).Namespace(w.name).Patch(ctx, objectName(m.object), types.MergePatchType,
		fmt.Appendf(nil, `{"data":{"mark":%q}}`, m.of(placed)), metav1.PatchOptions{})
	return err
}

// placeAndWait places the workload, and blocks until all mailboxes have it and the controllers are
// idle.
func (w *workload) placeAndWait(ctx context.Context) error {
	done := step("place %d objects on %d clusters", w.objects, len(w.mailboxes))
	defer done()
	arrivals := w.watcher.expect(placed, w.mailboxes, w.full)
	if err := w.place(ctx); err != nil {
		return err
	}
	if err := w.watcher.wait(ctx, arrivals, limit); err != nil {
		return err
	}
	return w.waitIdle(ctx)
}

// waitIdle blocks until the controllers are idle, if their processes are known.
func (s *stage) waitIdle(ctx context.Context) error {
	const interval, idle = 500 * time.Millisecond, 10 * time.Millisecond
	if len(s.controllers) == 0 {
		return sleep(ctx, 3*time.Second)
	}
	before := time.Duration(-1)
	for range int(limit / interval) {
		now, err := s.cpu()
		if err != nil {
			return err
		}
		if before >= 0 && sum(now)-before <= idle {
			return nil
		}
		before = sum(now)
		if err := sleep(ctx, interval); err != nil {
			return err
		}
	}
	return errors.New("the controllers do not become idle")
}

// cpu returns the CPU time of each controller.
func (s *stage) cpu() (map[string]time.Duration, error) {
	times := map[string]time.Duration{}
	for _, c := range s.controllers {
		u, err := usageOf(c.pid)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		times[c.name] = u.cpu
	}
	return times, nil
}

func sum(times map[string]time.Duration) (all time.Duration) {
	for _, t := range times {
		all += t
	}
	return all
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// step prints to stderr what the program does, and returns a function that prints how long it took.
func step(format string, args ...any) (done func()) {
	what, began := fmt.Sprintf(format, args...), time.Now()
	fmt.Fprintf(os.Stderr, "%s ...\n", what)
	return func() { fmt.Fprintf(os.Stderr, "%s: %.1f s\n", what, time.Since(began).Seconds()) }
}

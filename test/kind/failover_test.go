package kindtest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/starlinghq/starling/test/testenv"
)

const (
	manyObjects = 1000
	manyEdits   = 200
	// killings is how often the leaders are killed at least while edits are made.
	killings = 3
)

var manifestWorks = schema.GroupVersionResource{Group: "work.open-cluster-management.io", Version: "v1", Resource: "manifestworks"}

// failOver: the leaders of all controllers are killed several times, by turns without notice and by
// the deletion of their pods, while 1,000 objects are placed and at least 200 edits are made. Each
// time another replica leads. Every edit arrives, nothing in the cluster is created again, no value
// goes back, and no edit makes more than one write in the mailbox.
func (h *hub) failOver(t *testing.T) {
	many := h.watchMany(t)
	killer := h.killLeaders(t)

	h.wds.Apply(t, `
apiVersion: control.kubestellar.io/v1alpha1
kind: BindingPolicy
metadata: {name: many}
spec:
  clusterSelectors: [{matchLabels: {env: prod}}]
  downsync:
  - objectSelectors: [{matchLabels: {app: many}}]
---
apiVersion: v1
kind: Namespace
metadata: {name: many, labels: {app: many}}
`)
	configMaps := fastClient(t, h.wds).CoreV1().ConfigMaps("many")
	want := map[string]int{}
	for i := range manyObjects {
		name := "many-" + strconv.Itoa(i)
		configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "many"}}, Data: map[string]string{"edit": "0"}}
		if _, err := configMaps.Create(t.Context(), configMap, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		want[name] = 0
	}
	many.arrive(t, want)
	h.since(t, "1,000 objects are placed")

	before := many.writes()
	pace := time.NewTicker(100 * time.Millisecond) // so that many leaders are replaced between two edits of one object
	defer pace.Stop()
	edits := 0
	for edits < manyEdits || killer.goesOn() {
		<-pace.C
		edits++
		name := "many-" + strconv.Itoa(edits*7%manyObjects)
		want[name] = edits
		patch := fmt.Appendf(nil, `{"data":{"edit":"%d"}}`, edits)
		if _, err := configMaps.Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	killer.stop()
	many.arrive(t, want)
	h.since(t, fmt.Sprintf("%d edits have arrived", edits))
	if writes := many.writes() - before; writes > int64(edits) {
		t.Errorf("%d edits made %d writes of ManifestWorks", edits, writes)
	} else {
		t.Logf("%d edits made %d writes of ManifestWorks", edits, writes)
	}
	many.isSound(t)
}

// fastClient returns a client that does not limit its requests.
func fastClient(t *testing.T, space *testenv.Space) kubernetes.Interface {
	t.Helper()
	config := rest.CopyConfig(space.Config)
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// killer kills leaders, and observes that they are replaced.
type killer struct {
	hub    *hub
	t      *testing.T
	host   kubernetes.Interface
	spaces map[string]kubernetes.Interface

	// done is closed when the leaders were killed often enough, or cannot be.
	done chan struct{}
	stop func()
}

// goesOn reports whether leaders are still to be killed.
func (k *killer) goesOn() bool {
	select {
	case <-k.done:
		return false
	default:
		return true
	}
}

// killLeaders kills the leaders several times, each time when all replicas are ready: the kubelet
// starts one that was killed several times after a growing delay. It ends then, or when the test
// ends or stop is called.
func (h *hub) killLeaders(t *testing.T) *killer {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	k := &killer{hub: h, t: t, host: h.host.Client(t), spaces: map[string]kubernetes.Interface{}, done: make(chan struct{})}
	for _, space := range []*testenv.Space{h.wds, h.its} {
		k.spaces[space.Name] = fastClient(t, space)
	}
	go func() {
		defer close(k.done)
		for round := range killings {
			if err := k.round(ctx, round%2 == 1); err != nil {
				if ctx.Err() == nil {
					t.Errorf("kill the leaders: %v", err)
				}
				return
			}
		}
	}()
	k.stop = func() { cancel(); <-k.done }
	t.Cleanup(k.stop) // if it ends early
	return k
}

// round kills the leaders and blocks until other replicas lead.
func (k *killer) round(ctx context.Context, graceful bool) error {
	if err := k.ready(ctx); err != nil {
		return err
	}
	var leaders map[string][]leader
	if err := until(ctx, func() (bool, string) {
		var err error
		leaders, err = k.leaders(ctx)
		return err == nil && len(leaders) > 0, fmt.Sprintf("no replica leads (%v)", err)
	}); err != nil {
		return err
	}
	begin := time.Now()
	for pod := range leaders {
		if err := k.hub.endPod(ctx, k.host, pod, graceful); err != nil {
			return fmt.Errorf("kill pod %s: %w", pod, err)
		}
	}
	k.t.Logf("killed the leaders %v, with notice: %v", slices.Sorted(maps.Keys(leaders)), graceful)
	var group errgroup.Group
	for _, l := range slices.Concat(slices.Collect(maps.Values(leaders))...) {
		group.Go(func() error {
			if err := l.replaced(ctx); err != nil {
				return err
			}
			k.t.Logf("Lease %s of %s: another replica leads after %.1f s", l.lease.Name, l.space, time.Since(begin).Seconds())
			return nil
		})
	}
	return group.Wait()
}

// ready blocks until all replicas of the hub are ready.
func (k *killer) ready(ctx context.Context) error {
	return until(ctx, func() (bool, string) {
		list, err := k.host.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		for i := range list.Items {
			if !isAvailable(&list.Items[i]) {
				return false, "replicas of Deployment " + list.Items[i].Name + " are not ready"
			}
		}
		return true, ""
	})
}

// leaders returns the Leases of each pod that leads. One that was just released has no leader.
func (k *killer) leaders(ctx context.Context) (map[string][]leader, error) {
	leaders := map[string][]leader{}
	for name, space := range k.spaces {
		leases, err := space.CoordinationV1().Leases("starling-system").List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("read the Leases of %s: %w", name, err)
		}
		for i := range leases.Items {
			if pod, _, found := strings.Cut(holder(&leases.Items[i]), "_"); found && pod != "" {
				leaders[pod] = append(leaders[pod], leader{space, name, leases.Items[i]})
			}
		}
	}
	return leaders, nil
}

// leader is who holds a Lease.
type leader struct {
	client kubernetes.Interface
	space  string
	lease  coordinationv1.Lease
}

func holder(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// replaced blocks until another replica holds the Lease.
func (l leader) replaced(ctx context.Context) error {
	return until(ctx, func() (bool, string) {
		lease, err := l.client.CoordinationV1().Leases(l.lease.Namespace).Get(ctx, l.lease.Name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		now := holder(lease)
		return now != "" && now != holder(&l.lease), "Lease " + l.lease.Name + " of " + l.space + " has no other holder"
	})
}

// endPod deletes a pod of the hub, or kills its processes without notice.
func (h *hub) endPod(ctx context.Context, host kubernetes.Interface, name string, graceful bool) error {
	if graceful {
		return host.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	}
	pod, err := host.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	// Names of control groups have "_" for "-", depending on the driver.
	uid := strings.ReplaceAll(string(pod.UID), "-", "[-_]")
	const script = `for p in $(grep -l "$0" /proc/[0-9]*/cgroup | cut -d/ -f3); do
		if [ "$(cat /proc/$p/comm)" != pause ]; then kill -9 $p && killed=1; fi
	done; test -n "$killed"`
	_, err = command(ctx, "docker", "exec", h.host.Node(), "sh", "-c", script, uid)
	return err
}

// many is what happened to the objects of the Namespace "many".
type many struct {
	mu sync.Mutex
	// edits are the values of the objects in the cluster, by name, and uids their UIDs.
	edits map[string]int
	uids  map[string]types.UID
	// works are the works in the mailbox that hold objects, by UID, and held the values there.
	works map[types.UID]*workv1.ManifestWork
	held  map[string]int
	// wrong is what must not happen.
	wrong []string
}

// watchMany observes the objects in the cluster and the works in its mailbox, until the test ends.
func (h *hub) watchMany(t *testing.T) *many {
	t.Helper()
	m := &many{edits: map[string]int{}, uids: map[string]types.UID{}, works: map[types.UID]*workv1.ManifestWork{}, held: map[string]int{}}
	cluster, err := dynamic.NewForConfig(h.prod.Config)
	if err != nil {
		t.Fatal(err)
	}
	observe(t, cluster, corev1.SchemeGroupVersion.WithResource("configmaps"), "many", m.object, func(o *unstructured.Unstructured) {
		m.isWrong("ConfigMap %s was deleted in the cluster", o.GetName())
	})
	observe(t, h.its.Client, manifestWorks, "prod", m.work, func(*unstructured.Unstructured) {})
	return m
}

// observe calls changed and deleted for each object of a namespace, until the test ends.
func observe(t *testing.T, client dynamic.Interface, gvr schema.GroupVersionResource, namespace string, changed, deleted func(*unstructured.Unstructured)) {
	t.Helper()
	informer := dynamicinformer.NewFilteredDynamicInformer(client, gvr, namespace, 0, cache.Indexers{}, nil).Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { changed(o.(*unstructured.Unstructured)) },
		UpdateFunc: func(_, o any) { changed(o.(*unstructured.Unstructured)) },
		DeleteFunc: func(o any) {
			if unknown, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = unknown.Obj
			}
			deleted(o.(*unstructured.Unstructured))
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { informer.RunWithContext(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		t.Fatalf("%s of namespace %s cannot be observed", gvr.Resource, namespace)
	}
}

// object handles a change of an object in the cluster.
func (m *many) object(o *unstructured.Unstructured) {
	name := o.GetName()
	m.mu.Lock()
	defer m.mu.Unlock()
	if before, found := m.uids[name]; found && before != o.GetUID() {
		m.wrong = append(m.wrong, "ConfigMap "+name+" was created again in the cluster")
	}
	m.uids[name] = o.GetUID()
	m.follows(m.edits, o.Object, "the cluster")
}

// work handles a change of a work in the mailbox.
func (m *many) work(o *unstructured.Unstructured) {
	work := &workv1.ManifestWork{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, work); err != nil {
		m.isWrong("decode ManifestWork %s: %v", o.GetName(), err)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if before := m.works[work.UID]; before != nil && before.Generation == work.Generation {
		return // its status
	}
	for _, manifest := range work.Spec.Workload.Manifests {
		var object map[string]any
		if err := json.Unmarshal(manifest.Raw, &object); err != nil {
			m.wrong = append(m.wrong, err.Error())
			continue
		}
		if namespace, _, _ := unstructured.NestedString(object, "metadata", "namespace"); namespace == "many" {
			m.works[work.UID] = work
			m.follows(m.held, object, "ManifestWork "+work.Name)
		}
	}
}

// follows records the value of an object, which must not be older than before.
func (m *many) follows(values map[string]int, object map[string]any, where string) {
	name, _, _ := unstructured.NestedString(object, "metadata", "name")
	text, found, _ := unstructured.NestedString(object, "data", "edit")
	if !found {
		return // a ConfigMap that every namespace has
	}
	value, err := strconv.Atoi(text)
	if err != nil || value < values[name] {
		m.wrong = append(m.wrong, fmt.Sprintf("%s in %s has value %q after %d", name, where, text, values[name]))
	}
	values[name] = value
}

func (m *many) isWrong(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wrong = append(m.wrong, fmt.Sprintf(format, args...))
}

// writes returns how often the works were written.
func (m *many) writes() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	writes := int64(0)
	for _, work := range m.works {
		writes += work.Generation
	}
	return writes
}

// arrive blocks until the cluster has these values, and no others.
func (m *many) arrive(t *testing.T, want map[string]int) {
	t.Helper()
	testenv.Eventually(t, patience, func() (bool, string) {
		m.mu.Lock()
		defer m.mu.Unlock()
		missing := 0
		for name, value := range want {
			if got, found := m.edits[name]; !found || got != value {
				missing++
			}
		}
		return missing == 0 && len(m.edits) == len(want), fmt.Sprintf("%d hundred objects are missing or late", (missing+99)/100)
	})
}

// isSound fails the test if anything happened that must not.
func (m *many) isSound(t *testing.T) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, wrong := range m.wrong {
		t.Error(wrong)
	}
}

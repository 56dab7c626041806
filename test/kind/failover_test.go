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

	appsv1 "k8s.io/api/apps/v1"
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
	// killInterval is how long the leaders live at least.
	killInterval = 20 * time.Second
	// failOverKilled and failOverStopped are within which time another replica leads: after a
	// leader is killed with SIGKILL, and after it has released its Lease because its pod is
	// deleted.
	failOverKilled, failOverStopped = 15 * time.Second, 3 * time.Second
)

var manifestWorks = schema.GroupVersionResource{Group: "work.open-cluster-management.io", Version: "v1", Resource: "manifestworks"}

// failOver: the leaders of all controllers are killed about every 20 seconds, by turns without
// notice and by the deletion of their pods, while 1,000 objects are placed and 200 edits are made.
// Another replica leads soon. Every edit arrives, nothing in the cluster is created again, no value
// goes back, and no edit makes more than one write in the mailbox.
func (h *hub) failOver(t *testing.T) {
	many := h.watchMany(t)
	stop := h.killLeaders(t)

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
	pace := time.NewTicker(250 * time.Millisecond) // so that two leaders are killed meanwhile
	defer pace.Stop()
	for i := 1; i <= manyEdits; i++ {
		<-pace.C
		name := "many-" + strconv.Itoa(i*7%manyObjects)
		want[name] = i
		patch := fmt.Appendf(nil, `{"data":{"edit":"%d"}}`, i)
		if _, err := configMaps.Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	many.arrive(t, want)
	h.since(t, "200 edits have arrived")
	if rounds := stop(); rounds < 3 {
		t.Errorf("the leaders were killed %d times, want more", rounds)
	}
	if writes := many.writes() - before; writes > manyEdits {
		t.Errorf("%d edits made %d writes of ManifestWorks", manyEdits, writes)
	} else {
		t.Logf("%d edits made %d writes of ManifestWorks", manyEdits, writes)
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

// killLeaders kills the leaders again and again, each time when all replicas are ready: the kubelet
// starts one that was killed several times after a growing delay. It ends when the test ends or
// stop is called, which returns how often it killed them.
func (h *hub) killLeaders(t *testing.T) (stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	host := h.host.Client(t)
	spaces := map[string]kubernetes.Interface{}
	for _, space := range []*testenv.Space{h.wds, h.its} {
		spaces[space.Name] = fastClient(t, space)
	}
	var running sync.WaitGroup
	round := 0
	running.Go(func() {
		ticker := time.NewTicker(killInterval)
		defer ticker.Stop()
		for ; ; round++ {
			graceful := round%2 == 1
			if !areReady(ctx, host) {
				return
			}
			// The Leases of each pod that leads.
			leaders := map[string][]leader{}
			for name, space := range spaces {
				leases, err := space.CoordinationV1().Leases("starling-system").List(ctx, metav1.ListOptions{})
				if ctx.Err() != nil {
					return
				}
				if err != nil {
					t.Errorf("read the Leases of %s: %v", name, err)
					return
				}
				for i := range leases.Items {
					pod, _, _ := strings.Cut(holder(&leases.Items[i]), "_")
					leaders[pod] = append(leaders[pod], leader{space, name, leases.Items[i]})
				}
			}
			for _, pod := range slices.Sorted(maps.Keys(leaders)) {
				if err := h.endPod(t.Context(), host, pod, graceful); err != nil {
					t.Errorf("kill pod %s: %v", pod, err)
					return
				}
				for _, l := range leaders[pod] {
					running.Go(func() { l.isReplaced(ctx, t, graceful) })
				}
			}
			t.Logf("killed the leaders %v, with notice: %v", slices.Sorted(maps.Keys(leaders)), graceful)
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
		}
	})
	stop = func() int {
		cancel()
		running.Wait()
		return round
	}
	t.Cleanup(func() { stop() }) // if it ends early
	return stop
}

// areReady blocks until all replicas of the hub are ready, and returns false if the context ends.
func areReady(ctx context.Context, host kubernetes.Interface) bool {
	for ctx.Err() == nil {
		list, err := host.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{})
		if err == nil && !slices.ContainsFunc(list.Items, func(d appsv1.Deployment) bool { return !isAvailable(&d) }) {
			return true
		}
		time.Sleep(50 * time.Millisecond)
	}
	return false
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

// isReplaced fails the test if no other replica holds the Lease soon: after the leader was killed,
// or after it has released the Lease.
func (l leader) isReplaced(ctx context.Context, t *testing.T, graceful bool) {
	killed := time.Now()
	begin, limit := killed, failOverKilled
	if graceful {
		limit = failOverStopped
	}
	for {
		lease, err := l.client.CoordinationV1().Leases(l.lease.Namespace).Get(ctx, l.lease.Name, metav1.GetOptions{})
		if ctx.Err() != nil {
			return // the story is over
		}
		if err == nil {
			now := holder(lease)
			if now != "" && now != holder(&l.lease) {
				break
			}
			if graceful && now != "" {
				begin = time.Now()
			}
		}
		if time.Since(killed) > time.Minute {
			t.Errorf("Lease %s of %s: no other replica leads a minute after the leader was killed", l.lease.Name, l.space)
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	after := time.Since(begin)
	t.Logf("Lease %s of %s: another replica leads after %.1f s; with notice: %v", l.lease.Name, l.space, after.Seconds(), graceful)
	if after > limit {
		t.Errorf("Lease %s of %s: another replica leads after %s, want %s", l.lease.Name, l.space, after, limit)
	}
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

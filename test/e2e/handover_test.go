package e2e

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/test/testenv"
)

// TestHandOver lets an object pass to and fro between two policies, by its own label and by that of
// its cluster: it is never re-created.
func TestHandOver(t *testing.T) {
	s := tell(t, testenv.Shared(t))
	s.namespace()
	s.configMap("settings", "one")
	s.labelCluster("cluster1", map[string]string{"story-" + s.name: "a"})
	s.patch("wds1", configMaps, s.name, "settings", `{"metadata":{"labels":{"to":"a"}}}`)
	for _, side := range []string{"a", "b"} {
		// One of each pair follows the object's label, the other the cluster's.
		s.create("wds1", controlv1alpha1.BindingPolicies, fmt.Sprintf(`
apiVersion: control.kubestellar.io/v1alpha1
kind: BindingPolicy
metadata: {name: $NAME-%[1]s}
spec:
  clusterSelectors: [{matchLabels: {name: cluster2}}]
  downsync:
  - objectSelectors: [{matchLabels: {story: $NAME, to: %[1]s}}]
  - {resources: [namespaces], objectSelectors: [{matchLabels: {story: $NAME}}]}`, side))
		s.create("wds1", controlv1alpha1.BindingPolicies, fmt.Sprintf(`
apiVersion: control.kubestellar.io/v1alpha1
kind: BindingPolicy
metadata: {name: $NAME-cluster-%[1]s}
spec:
  clusterSelectors: [{matchLabels: {story-$NAME: %[1]s}}]
  downsync:
  - objectSelectors: [{matchLabels: {story: $NAME}}]`, side))
	}
	before := map[string]metav1.Object{}
	for _, cluster := range []string{"cluster1", "cluster2"} {
		before[cluster] = s.arrives(cluster, "settings", "one")
	}
	for i := range 10 {
		side := []string{"b", "a"}[i%2]
		value := fmt.Sprint("round ", i)
		s.patch("wds1", configMaps, s.name, "settings", fmt.Sprintf(`{"metadata":{"labels":{"to":%q}}}`, side))
		s.labelCluster("cluster1", map[string]string{"story-" + s.name: side})
		s.patch("wds1", configMaps, s.name, "settings", fmt.Sprintf(`{"data":{"key":%q}}`, value))
		for cluster, was := range before {
			if now := s.arrives(cluster, "settings", value); now.GetUID() != was.GetUID() {
				t.Fatalf("round %d: the object in %s was deleted and re-created", i, cluster)
			}
		}
	}
}

// handOver is many objects of a story, and two policies of which each selects those with its label.
type handOver struct {
	*story
	objects int
	// limit is what the delivery of all may take on a loaded machine.
	limit time.Duration
}

// deliver creates the objects for policy a, and waits until cluster1 has them. One cluster is
// enough: an agent applies all objects at each change of a work.
func (s *story) deliver(objects int, limit time.Duration) *handOver {
	s.Helper()
	h := &handOver{story: s, objects: objects, limit: limit}
	s.namespace()
	client := s.space("wds1", configMaps).Namespace(s.name)
	var creating errgroup.Group
	creating.SetLimit(16)
	for i := range objects {
		creating.Go(func() error {
			_, err := client.Create(s.Context(), &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"key": "value"},
				"metadata": map[string]any{"name": h.object(i), "labels": map[string]any{"story": s.name, "to": "a"}},
			}}, metav1.CreateOptions{})
			return err
		})
	}
	s.Cleanup(func() {
		if err := client.DeleteCollection(contextOf(s.T), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "story=" + s.name}); err != nil {
			s.Error(err)
		}
	})
	if err := creating.Wait(); err != nil {
		s.Fatal(err)
	}
	for _, side := range []string{"a", "b"} {
		s.create("wds1", controlv1alpha1.BindingPolicies, fmt.Sprintf(`
apiVersion: control.kubestellar.io/v1alpha1
kind: BindingPolicy
metadata: {name: $NAME-%[1]s}
spec:
  clusterSelectors: [{matchLabels: {name: cluster1}}]
  downsync:
  - {resources: [configmaps], objectSelectors: [{matchLabels: {story: $NAME, to: %[1]s}}]}
  - {resources: [namespaces], objectSelectors: [{matchLabels: {story: $NAME}}]}`, side))
	}
	s.Cleanup(func() { // before the other cleanups, which expect what few objects take
		for _, side := range []string{"a", "b"} {
			s.removeWithin(limit, "wds1", controlv1alpha1.BindingPolicies, "", s.name+"-"+side)
		}
	})
	h.haveArrived("a")
	return h
}

func (h *handOver) object(i int) string { return fmt.Sprintf("c%04d", i) }

// relabel gives all objects to a policy, in a stream; before each, it calls during, if that is not
// nil.
func (h *handOver) relabel(side string, perSecond int, during func(i int)) {
	h.Helper()
	began := time.Now()
	stream := time.NewTicker(time.Second / time.Duration(perSecond))
	defer stream.Stop()
	client := h.space("wds1", configMaps).Namespace(h.name)
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"to":%q}}}`, side)
	var relabelling errgroup.Group
	relabelling.SetLimit(8)
	for i := range h.objects {
		<-stream.C
		if during != nil {
			during(i)
		}
		relabelling.Go(func() error {
			_, err := client.Patch(h.Context(), h.object(i), types.MergePatchType, patch, metav1.PatchOptions{})
			return err
		})
	}
	if err := relabelling.Wait(); err != nil {
		h.Fatal(err)
	}
	h.Logf("relabelled %d objects in %s", h.objects, time.Since(began))
}

// haveArrived waits until the cluster has all objects as a policy delivers them, and the Binding of
// the other policy lists none.
func (h *handOver) haveArrived(side string) {
	h.Helper()
	testenv.Eventually(h, h.limit, func() (bool, string) {
		list, err := h.space("cluster1", configMaps).Namespace(h.name).List(h.Context(), metav1.ListOptions{LabelSelector: "to=" + side + ",story=" + h.name})
		if err != nil {
			return false, err.Error()
		}
		return len(list.Items) == h.objects, fmt.Sprintf("the cluster has %d objects of policy %s", len(list.Items), side)
	})
	other := map[string]string{"a": "b", "b": "a"}[side]
	testenv.Eventually(h, h.limit, func() (bool, string) {
		b, err := h.get("wds1", controlv1alpha1.Bindings, "", h.name+"-"+other)
		if err != nil {
			return false, err.Error()
		}
		listed, _, err := unstructured.NestedSlice(b.Object, "spec", "workload", "namespaceScope")
		return err == nil && len(listed) == 0, fmt.Sprintf("%d objects are listed by the other policy", len(listed))
	})
}

// uids returns the UIDs of the objects in the cluster.
func (h *handOver) uids() map[string]types.UID {
	h.Helper()
	list, err := h.space("cluster1", configMaps).Namespace(h.name).List(h.Context(), metav1.ListOptions{LabelSelector: "story=" + h.name})
	if err != nil {
		h.Fatal(err)
	}
	found := map[string]types.UID{}
	for i := range list.Items {
		found[list.Items[i].GetName()] = list.Items[i].GetUID()
	}
	return found
}

// expectSame fails the test if objects are gone or were re-created.
func (h *handOver) expectSame(when string, before map[string]types.UID) {
	h.Helper()
	now, recreated := h.uids(), 0
	for object, uid := range before {
		if now[object] != uid {
			recreated++
		}
	}
	if recreated > 0 {
		h.Errorf("%s: %d of %d objects were deleted or re-created", when, recreated, h.objects)
	}
}

// TestHandOverInAStream relabels many objects from one policy to another, in a stream that lasts
// longer than any write of a Binding or a work waits: none is re-created in the clusters.
func TestHandOverInAStream(t *testing.T) {
	h := tell(t, testenv.Shared(t)).deliver(300, 3*arrival)
	before := h.uids()
	h.relabel("b", 27, nil)
	h.haveArrived("b")
	h.expectSame("in a stream", before)
}

// TestHandOverWithoutTransport relabels objects to and fro between two policies while the
// transport-controller is stopped, stops again and again, and is restarted: none is re-created.
func TestHandOverWithoutTransport(t *testing.T) {
	const transport = "wds1/transport-controller"
	h := tell(t, testenv.Shared(t)).deliver(200, 2*arrival)
	before := h.uids()

	resume := h.fleet.Pause(t, transport)
	h.relabel("b", 200, nil)
	h.relabel("a", 200, nil)
	h.relabel("b", 200, nil)
	resume()
	h.haveArrived("b")
	h.expectSame("while it was stopped", before)

	resume = func() {}
	h.relabel("a", 100, func(i int) {
		switch i % 50 {
		case 10:
			resume = h.fleet.Pause(t, transport)
		case 40:
			resume()
		}
	})
	h.haveArrived("a")
	h.expectSame("while it was slow", before)

	h.relabel("b", 100, func(i int) {
		if i == h.objects/2 {
			h.fleet.Kill(t, transport)
		}
	})
	h.haveArrived("b")
	h.expectSame("while it was restarted", before)
}

package explain_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/foresight"
	"github.com/starlinghq/starling/pkg/core/foresight/explain"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/test/golden"
	"github.com/starlinghq/starling/test/situations"
)

const (
	broken  = foresight.Broken
	waiting = foresight.Waiting
	unknown = foresight.Unknown
)

// TestObject has each situation of an object.
func TestObject(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, s := range situations.All() {
		if names[s.Name] {
			t.Errorf("two situations are called %s", s.Name)
		}
		names[s.Name] = true
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			w := situations.NewWorld(t)
			s.Change(w)
			e := w.Explain()
			checkFirst(t, e, s.Want, s.State)
			golden.Compare(t, "object/"+s.Name, situations.Draw(e))
		})
	}
}

// checkFirst compares the first link that is not good, and checks what holds of all explanations.
func checkFirst(t *testing.T, e *explain.Explanation, want string, state foresight.State) {
	t.Helper()
	if e.Broken == nil {
		if want != "" {
			t.Errorf("all is good, want %s %s", want, state)
		}
		return
	}
	if e.Broken.Name != want || e.Broken.State != state {
		t.Errorf("the first link that is not good is %s %s, want %s %s: %s", e.Broken.Name, e.Broken.State, want, state, e.Broken.Text)
	}
	for _, links := range append([][]foresight.Link{e.Links}, linksOf(e)...) {
		for i, l := range links {
			if l.Text == "" || strings.Contains(l.Text, "%!") || strings.Contains(l.Text, "\n") {
				t.Errorf("link %s has no text, or a wrong one: %q", l.Name, l.Text)
			}
			if (l.State == broken || l.State == waiting) && i < len(links)-1 && l.Name != foresight.LinkAddOn && l.Name != explain.LinkRemoved {
				t.Errorf("a link follows %s, which is %s", l.Name, l.State)
			}
		}
	}
}

func linksOf(e *explain.Explanation) [][]foresight.Link {
	var all [][]foresight.Link
	for i := range e.Groups {
		all = append(all, e.Groups[i].Links)
	}
	return all
}

// TestHoldsUnread: what Transactions hold could not be read. The rest is judged nevertheless.
func TestHoldsUnread(t *testing.T) {
	t.Parallel()
	w := situations.NewWorld(t)
	w.Cluster = "c1"
	w.Holds = foresight.Unread[*controlv1alpha1.Binding]("you may not get bindings.control.kubestellar.io")
	w.Fails("c1", `namespaces "shop" not found`)
	links := w.Explain().Groups[0].Links
	if free := foresight.First(links); free == nil || free.Name != explain.LinkFree || free.State != unknown {
		t.Errorf("the first link that is not good is %v, want %s %s", free, explain.LinkFree, unknown)
	}
	if last := links[len(links)-1]; last.Name != explain.LinkApplied || last.State != broken {
		t.Errorf("the last link is %v, want %s %s", last, explain.LinkApplied, broken)
	}
}

// TestLeaving: an object was deleted in the WDS, and its policy says why clusters have it still.
func TestLeaving(t *testing.T) {
	t.Parallel()
	w := situations.NewWorld(t)
	w.Live.Value = nil
	w.Unlist()
	const said = "c2: deployments.apps shop/web stays until the cluster has reported that it will keep the object"
	w.Binding.Status.Conditions = []metav1.Condition{situations.Condition(controlv1alpha1.BindingConditionDelivered, metav1.ConditionFalse, controlv1alpha1.ReasonDelivering,
		"c1: deployments.apps shop/web2 stays; "+said)}
	first := w.Explain().Broken
	want := "deployments.apps shop/web does not exist in the WDS, and has not left the clusters. Binding web: " + said
	if first == nil || first.State != waiting || first.Text != want || len(first.Fix) > 0 {
		t.Errorf("got %+v, want %q", first, want)
	}
}

// TestTerminatingNamespace: what a Namespace waits for is in its status.
func TestTerminatingNamespace(t *testing.T) {
	t.Parallel()
	w := situations.NewWorld(t)
	at := metav1.NewTime(situations.Now)
	w.Ref = objref.Ref{Resource: "namespaces", Name: "shop"}
	w.Unlist()
	w.Live.Value.Object = map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "shop"}, "status": map[string]any{"conditions": []any{
		map[string]any{"type": "NamespaceDeletionDiscoveryFailure", "status": "False", "message": "All resources successfully discovered"},
		map[string]any{"type": "NamespaceContentRemaining", "status": "True", "message": "Some resources are remaining: configmaps. has 1 resource instances"},
	}}}
	w.Live.Value.SetDeletionTimestamp(&at)
	first := w.Explain().Broken
	want := "namespaces shop is being deleted, so it is not delivered any more. It stays in the WDS, and waits for the objects in it to leave the WDS: " +
		"Some resources are remaining: configmaps. has 1 resource instances"
	if first == nil || first.State != broken || first.Text != want {
		t.Errorf("got %+v, want %q", first, want)
	}
}

// TestAwaited: an object was re-created that is to stay in the cluster. The cluster reports whether
// the former one exists; who deletes it follows from the works.
func TestAwaited(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		uid   string
		inOne bool // another work has the former one
		lost  bool // it has left one, and the cluster has not reported that
		state foresight.State
		want  string
	}{
		"NotReported": {"", false, false, waiting, "It is delivered when cluster c2 has deleted the former object of that name"},
		"Leaves":      {"u0", true, false, waiting, "It is delivered when cluster c2 has deleted the former object of that name"},
		"HasLeft":     {"u0", false, true, waiting, "It is delivered when cluster c2 has deleted the former object of that name"},
		"Kept":        {"u0", false, false, broken, "It is delivered when that is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := situations.NewWorld(t)
			work := w.Mailboxes["c2"].Works.Value[0]
			former := *work
			former.Name, former.Items = "web-2", append([]plan.Item(nil), work.Items...)
			former.Items[0].Withdrawn = true
			if tc.lost {
				former.Items, former.Behind, former.Left = nil, true, plan.Left{plan.LeftKey(w.Ref): "u0"}
			}
			if tc.inOne || tc.lost {
				w.Mailboxes["c2"].Works.Value = append(w.Mailboxes["c2"].Works.Value, &former)
			}
			item := &work.Items[0]
			item.Observe, item.Withdrawn, item.Stage.Former, item.UID = true, true, "u0", tc.uid
			first := w.Explain().Broken
			if first == nil || first.Name != explain.LinkDelivered || first.State != tc.state || !strings.Contains(first.Text, tc.want) {
				t.Errorf("got %+v, want %s %q", first, tc.state, tc.want)
			}
		})
	}
}

// TestNotConverted: the remedies are what removes the annotation.
func TestNotConverted(t *testing.T) {
	t.Parallel()
	w := situations.NewWorld(t)
	w.Live.Value.SetAnnotations(map[string]string{controlv1alpha1.AnnotationNotConverted: "v1beta1"})
	first := w.Explain().Broken
	want := []string{
		"kubectl replace --filename FILE   # with the whole object in version v1",
		"kubectl annotate deployments.apps web --namespace shop starling.io/not-converted-from-   # if it is whole",
	}
	if first == nil || first.Name != explain.LinkRendered {
		t.Fatalf("got %+v", first)
	}
	if diff := cmp.Diff(want, first.Fix); diff != "" {
		t.Errorf("remedies (-want +got):\n%s", diff)
	}
}

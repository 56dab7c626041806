package ocm

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	workv1 "open-cluster-management.io/api/work/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/packing"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
	"github.com/starlinghq/starling/pkg/statusreports/mailboxes"
	"github.com/starlinghq/starling/pkg/transport/plugin"
	"github.com/starlinghq/starling/pkg/works"
)

var origin = plugin.Origin{Binding: "nginx", BindingUID: "uid"}

func newPlugin(t *testing.T) *Plugin {
	t.Helper()
	p, err := New(Config{
		Space: "its1", Hub: &rest.Config{Host: "localhost"}, WDSName: "wds1", WDSUID: "wds-uid", ReportLimits: mailboxes.DefaultLimits(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func object(t *testing.T, ref objref.Ref, kind schema.GroupVersionKind, content string) plan.Object {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"content": content, "odd": "<&>", "n": 1.5}}}
	o.SetGroupVersionKind(kind)
	o.SetNamespace(ref.Namespace)
	o.SetName(ref.Name)
	applied, err := transform.Standard().Apply(ref, o.Object)
	if err != nil {
		t.Fatal(err)
	}
	return plan.Object{Object: applied, Known: true}
}

var (
	settings   = objref.Ref{Resource: "configmaps", Namespace: "web", Name: "settings"}
	nginx      = objref.Ref{Group: "apps", Resource: "deployments", Namespace: "web", Name: "nginx"}
	rice       = objref.Ref{Group: "food", Resource: "rices", Namespace: "web", Name: "r"}
	configMap  = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	deployment = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	riceKind   = schema.GroupVersionKind{Group: "food", Version: "v1", Kind: "Rice"}
	limits     = packing.Limits{Count: 100, Bytes: 100000}
)

// hub is a hub with one mailbox, in JSON.
type hub struct {
	t     *testing.T
	p     *Plugin
	works map[string][]byte
}

func (h *hub) read() []*plan.Work {
	h.t.Helper()
	var all []*plan.Work
	for _, raw := range h.works {
		var work workv1.ManifestWork
		if err := json.Unmarshal(raw, &work); err != nil {
			h.t.Fatal(err)
		}
		all = append(all, works.Read(&work, works.NewManifests(1000)))
	}
	return all
}

func (h *hub) do(a *plan.Action) {
	h.t.Helper()
	switch a.Verb {
	case plan.Create:
		work, _, err := h.p.manifestWork(origin, a)
		if err != nil {
			h.t.Fatal(err)
		}
		work.UID, work.Generation = "work-uid", 1
		raw, err := json.Marshal(work)
		if err != nil {
			h.t.Fatal(err)
		}
		h.works[a.Name] = raw
	case plan.Delete:
		delete(h.works, a.Name)
	case plan.Nudge:
		raw, err := nudge(a)
		if err != nil {
			h.t.Fatal(err)
		}
		h.edit(a.Name, string(raw))
	case plan.Patch:
		raw, _, err := h.p.patch(origin, a)
		if err != nil {
			h.t.Fatal(err)
		}
		h.edit(a.Name, string(raw))
	}
}

// edit patches a work, and counts its generation if that changed the spec.
func (h *hub) edit(name, patch string) {
	h.t.Helper()
	decoded, err := jsonpatch.DecodePatch([]byte(patch))
	if err != nil {
		h.t.Fatal(err)
	}
	before := h.works[name]
	after, err := decoded.Apply(before)
	if err != nil {
		h.t.Fatalf("%s\n%s", err, patch)
	}
	var a, b map[string]any
	if err := errors.Join(json.Unmarshal(before, &a), json.Unmarshal(after, &b)); err != nil {
		h.t.Fatal(err)
	}
	if !cmp.Equal(a["spec"], b["spec"]) {
		metadata, _ := b["metadata"].(map[string]any)
		generation, _ := metadata["generation"].(float64)
		metadata["generation"] = generation + 1
	}
	// As an API server would: sorted keys.
	if h.works[name], err = json.Marshal(b); err != nil {
		h.t.Fatal(err)
	}
}

// converge plans and acts once, and checks that nothing is left to do, and that the hash is that of
// the current works.
func (h *hub) converge(objects ...plan.Object) string {
	h.t.Helper()
	d := plan.NewDesired(objects, limits)
	first := plan.Build(d, &plan.Current{Mailbox: "cluster1", Prefix: "uid", Works: h.read()})
	var trace []string
	for i := range first.Actions {
		trace = append(trace, first.Actions[i].String())
		h.do(&first.Actions[i])
	}
	for _, work := range h.read() {
		if work.Actual != work.Recorded {
			h.t.Errorf("after %q the hash of %s is not what was recorded", trace, work.Name)
		}
	}
	second := plan.Build(d, &plan.Current{Mailbox: "cluster1", Prefix: "uid", Works: h.read()})
	for i := range second.Actions {
		h.t.Errorf("after %q it plans again: %s", trace, &second.Actions[i])
	}
	return strings.Join(trace, "; ")
}

// statusOf is the status of a work in which the cluster lists one object as applied at a
// generation.
func statusOf(kind, group, namespace, name string, generation int64) string {
	return fmt.Sprintf(`{"resourceStatus":{"manifests":[{"resourceMeta":{"kind":%q,"group":%q,"resource":%q,"namespace":%q,"name":%q},"conditions":[{"type":"Applied","status":"True","observedGeneration":%d}]}]}}`,
		kind, group, strings.ToLower(kind)+"s", namespace, name, generation)
}

// TestWithdrawal lets an object leave that the cluster has not reported, and come back while it is
// still listed.
func TestWithdrawal(t *testing.T) {
	h := &hub{t: t, p: newPlugin(t), works: map[string][]byte{}}
	one, two := object(t, settings, configMap, "1"), object(t, nginx, deployment, "1")
	const work = "uid-1-0"
	listed := func(generation int64) string {
		return `[{"op":"add","path":"/status","value":` + statusOf("Deployment", "apps", "web", "nginx", generation) + `}]`
	}
	steps := []struct {
		what    string
		edit    string
		objects []plan.Object
		want    string
	}{
		{"create", "", []plan.Object{one, two}, "create cluster1/uid-1-0 (place): +configmaps web/settings, +deployments.apps web/nginx"},
		{"leaves without a report", "", []plan.Object{one}, "patch cluster1/uid-1-0 (remove): ~[1] deployments.apps web/nginx, rest"},
		{"still none", "", []plan.Object{one}, ""},
		{"one from before", listed(1), []plan.Object{one}, ""},
		{"the mark is lost", `[{"op":"remove","path":"/spec/manifestConfigs"}]`, []plan.Object{one}, "patch cluster1/uid-1-0 (repair): rest"},
		{"one from after", listed(4), []plan.Object{one}, "patch cluster1/uid-1-0 (remove): -[1] deployments.apps web/nginx, rest"},
		{"comes back while it is listed", "", []plan.Object{one, two}, "patch cluster1/uid-1-0 (place): +[1] deployments.apps web/nginx, rest"},
		{"leaves before it is reported", "", []plan.Object{one}, "patch cluster1/uid-1-0 (remove): ~[1] deployments.apps web/nginx, rest"},
		{"comes back before it left", "", []plan.Object{one, two}, "patch cluster1/uid-1-0 (edit): ~[1] deployments.apps web/nginx, rest"},
		{"is reported, and leaves", listed(8), []plan.Object{one}, "patch cluster1/uid-1-0 (remove): -[1] deployments.apps web/nginx, rest"},
		{"comes back, without a report", `[{"op":"remove","path":"/status"}]`, []plan.Object{one, two}, "patch cluster1/uid-1-0 (place): +[1] deployments.apps web/nginx, rest"},
		{"all leaves", "", nil, "delete cluster1/uid-1-0 (remove)"},
	}
	for _, s := range steps {
		if s.edit != "" {
			h.edit(work, s.edit)
		}
		if diff := cmp.Diff(s.want, h.converge(s.objects...)); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", s.what, diff)
		}
		contents := strings.Count(string(h.works[work]), `"content":`)
		if marks := strings.Count(string(h.works[work]), controlv1alpha1.AnnotationWithdrawn); h.works[work] != nil && contents+marks != len(h.read()[0].Items) {
			t.Errorf("%s: content of an object that was withdrawn is left: %s", s.what, h.works[work])
		}
	}
}

func TestWhatIsWrittenIsWhatIsRead(t *testing.T) {
	h := &hub{t: t, p: newPlugin(t), works: map[string][]byte{}}
	one, two, three := object(t, settings, configMap, "1"), object(t, nginx, deployment, "1"), object(t, rice, riceKind, "1")
	with := func(o plan.Object, createOnly, orphan bool) plan.Object {
		o.CreateOnly, o.Orphan = createOnly, orphan
		return o
	}
	dealt := func(o plan.Object, options plan.Options) plan.Object {
		o.Options = options
		o, err := o.Ignoring()
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	const work = "uid-1-0"
	steps := []struct {
		what    string
		edit    string
		objects []plan.Object
		want    string
	}{
		{"create", "", []plan.Object{one, two}, "create cluster1/uid-1-0 (place): +configmaps web/settings, +deployments.apps web/nginx"},
		{"nothing", "", []plan.Object{one, two}, ""},
		{"edit", "", []plan.Object{one, object(t, nginx, deployment, "2")}, "patch cluster1/uid-1-0 (edit): ~[1] deployments.apps web/nginx"},
		{"a kind whose plural cannot be guessed", "", []plan.Object{one, two, three}, "patch cluster1/uid-1-0 (place): ~[1] deployments.apps web/nginx, +[1] rices.food web/r, rest"},
		{"flags", "", []plan.Object{with(one, true, false), with(two, true, true), three}, "patch cluster1/uid-1-0 (edit): rest"},
		{"flags go", "", []plan.Object{one, with(two, false, true), three}, "patch cluster1/uid-1-0 (edit): rest"},
		{"applied server-side", "", []plan.Object{dealt(one, plan.Options{NoForce: true}), dealt(two, plan.Options{Orphan: true, IgnoredFields: ".spec.replicas\n.spec.x.y"}), three}, "patch cluster1/uid-1-0 (edit): rest"},
		{"others' field manager", `[{"op":"replace","path":"/spec/manifestConfigs/0/updateStrategy/serverSideApply/fieldManager","value":"work-agent-x"}]`, []plan.Object{dealt(one, plan.Options{NoForce: true}), dealt(two, plan.Options{Orphan: true, IgnoredFields: ".spec.replicas\n.spec.x.y"}), three}, "patch cluster1/uid-1-0 (repair): rest"},
		{"claimed", "", []plan.Object{dealt(one, plan.Options{Observe: true}), with(two, false, true), three}, "patch cluster1/uid-1-0 (edit): rest, claims"},
		{"flags again", "", []plan.Object{one, with(two, false, true), three}, "patch cluster1/uid-1-0 (edit): rest, claims"},
		{"an object with flags goes", `[{"op":"add","path":"/status","value":` + statusOf("Deployment", "apps", "web", "nginx", 10) + `}]`, []plan.Object{one, three}, "patch cluster1/uid-1-0 (remove): -[2] deployments.apps web/nginx, rest"},
		{"others' metadata", `[{"op":"add","path":"/metadata/annotations/x","value":"y"},{"op":"add","path":"/metadata/labels/x","value":"y"}]`, []plan.Object{one, three}, ""},
		{"spelling", `[{"op":"replace","path":"/spec/workload/manifests/0/spec/n","value":1.50}]`, []plan.Object{one, three}, ""},
		{"executor", `[{"op":"add","path":"/spec/executor","value":{"subject":{"type":"ServiceAccount"}}}]`, []plan.Object{one, three}, "patch cluster1/uid-1-0 (repair): rest"},
		{"no hash", `[{"op":"remove","path":"/metadata/annotations/starling.io~1content-hash"}]`, []plan.Object{one, three}, "patch cluster1/uid-1-0 (repair): rest"},
		{"a report", `[{"op":"add","path":"/status","value":` + statusOf("Rice", "food", "web", "r", 99) + `}]`, []plan.Object{one, three}, ""},
		{"no kinds", `[{"op":"remove","path":"/metadata/annotations/starling.io~1kinds"}]`, []plan.Object{one}, "patch cluster1/uid-1-0 (repair): -[1] rices.food web/r, rest"},
		{"no annotations", `[{"op":"remove","path":"/metadata/annotations"}]`, []plan.Object{one}, "patch cluster1/uid-1-0 (repair): rest"},
		{"what is no object", `[{"op":"add","path":"/spec/workload/manifests/0","value":[1]}]`, []plan.Object{one}, "patch cluster1/uid-1-0 (repair): -[0]  , rest"},
	}
	for _, s := range steps {
		if s.edit != "" {
			h.edit(work, s.edit)
		}
		if diff := cmp.Diff(s.want, h.converge(s.objects...)); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", s.what, diff)
		}
	}
	if !strings.Contains(string(h.works[work]), `"starling.io/kinds":"ConfigMap=configmaps"`) {
		t.Errorf("kinds: %s", h.works[work])
	}

	again := plan.NudgeOf(h.read()[0], plan.ReasonRetry)
	h.do(&again)
	if got := h.read()[0].Nudges; got != 1 {
		t.Errorf("%d nudges, want 1", got)
	}
	if trace := h.converge(one); trace != "" {
		t.Errorf("after a nudge: %s", trace)
	}
}

func TestPatchIsGuarded(t *testing.T) {
	p := newPlugin(t)
	action := &plan.Action{
		Verb: plan.Patch, UID: "u", Generation: 7, Recorded: transform.HashOf(nil),
		Changes: []plan.Change{{Op: plan.OpRemove, At: 1}},
	}
	raw, _, err := p.patch(origin, action)
	if err != nil {
		t.Fatal(err)
	}
	var ops []operation
	if err := json.Unmarshal(raw, &ops); err != nil {
		t.Fatal(err)
	}
	want := []operation{
		{"test", "/metadata/uid", "u"},
		{"test", "/metadata/generation", 7.0},
		{"test", "/metadata/annotations/starling.io~1content-hash", action.Recorded.String()},
	}
	if diff := cmp.Diff(want, ops[:3]); diff != "" {
		t.Errorf("guards (-want +got):\n%s", diff)
	}
}

func TestReports(t *testing.T) {
	work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
	for _, ref := range []string{"old", "applied", "failed", "silent"} {
		work.Spec.Workload.Manifests = append(work.Spec.Workload.Manifests, workv1.Manifest{})
		raw := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"web","name":%q}}`, ref)
		work.Spec.Workload.Manifests[len(work.Spec.Workload.Manifests)-1].Raw = []byte(raw)
	}
	say := func(name string, status metav1.ConditionStatus, generation int64) {
		work.Status.ResourceStatus.Manifests = append(work.Status.ResourceStatus.Manifests, workv1.ManifestCondition{
			ResourceMeta: workv1.ManifestResourceMeta{Version: "v1", Kind: "ConfigMap", Namespace: "web", Name: name},
			Conditions: []metav1.Condition{{
				Type: workv1.ManifestApplied, Status: status, ObservedGeneration: generation, Reason: "R", Message: strings.Repeat("m", 2000),
			}},
		})
	}
	say("failed", metav1.ConditionFalse, 2)
	say("applied", metav1.ConditionTrue, 2)
	say("old", metav1.ConditionTrue, 1)
	got := works.Read(work, works.NewManifests(1000))
	want := []plan.State{plan.Pending, plan.Applied, plan.Failed, plan.Pending}
	for i, state := range want {
		if got.Items[i].State != state {
			t.Errorf("%s: state %d, want %d", got.Items[i].Ref, got.Items[i].State, state)
		}
	}
	if item := got.Items[2]; item.Reason != "R" || len(item.Message) != works.MaxMessage {
		t.Errorf("reason %q and %d bytes, want R and %d", item.Reason, len(item.Message), works.MaxMessage)
	}
	if !same(got, works.Read(work, works.NewManifests(1000))) {
		t.Error("a work is not the same as itself")
	}
	if got.Begun {
		t.Error("a work without the agent's finalizer is begun")
	}
	work.ResourceVersion = "another"
	if same(got, works.Read(work, works.NewManifests(1000))) {
		t.Error("the version of a work that is not begun does not matter")
	}
	work.Finalizers = []string{workv1.ManifestWorkFinalizer}
	begun := works.Read(work, works.NewManifests(1000))
	if !begun.Begun {
		t.Error("a work with the agent's finalizer is not begun")
	}
	work.ResourceVersion = "a third"
	if !same(begun, works.Read(work, works.NewManifests(1000))) {
		t.Error("the version of a work that is begun matters")
	}
	got = begun
	work.Status.ResourceStatus.Manifests[0].Conditions[0].Status = metav1.ConditionTrue
	if same(got, works.Read(work, works.NewManifests(1000))) {
		t.Error("another report is the same")
	}
}

func TestLabelValue(t *testing.T) {
	long := strings.Repeat("x", 64)
	for name, want := range map[string]string{
		"nginx":                 "nginx",
		strings.Repeat("x", 63): strings.Repeat("x", 63),
		long:                    strings.Repeat("x", 54) + "-" + transform.HashOf([]byte(long)).String()[:8],
	} {
		if got := labelValue(name); got != want || len(got) > 63 {
			t.Errorf("labelValue(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestStale(t *testing.T) {
	works := schema.GroupResource{Group: "work.open-cluster-management.io", Resource: "manifestworks"}
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "ManifestWork"}, "w", nil)
	invalid.ErrStatus.Details.Causes = []metav1.StatusCause{{Field: "spec"}}
	failedTest := apierrors.NewGenericServerResponse(422, "", schema.GroupResource{}, "", "testing path failed", 0, false)
	failedTest.ErrStatus.Details.Causes = nil
	cases := map[string]struct {
		verb plan.Verb
		err  error
		want bool
	}{
		"FailedTest":     {plan.Patch, failedTest, true},
		"Invalid":        {plan.Patch, invalid, false},
		"Gone":           {plan.Patch, apierrors.NewNotFound(works, "w"), true},
		"AnotherUID":     {plan.Delete, apierrors.NewConflict(works, "w", errors.New("uid")), true},
		"NoMailbox":      {plan.Create, apierrors.NewNotFound(works, "w"), false},
		"Exists":         {plan.Create, apierrors.NewAlreadyExists(works, "w"), false},
		"Refused":        {plan.Patch, apierrors.NewBadRequest("no"), false},
		"NoAnswerAtAll":  {plan.Patch, errors.New("dial tcp"), false},
		"MayNotWrite":    {plan.Nudge, apierrors.NewForbidden(works, "w", nil), false},
		"NudgeOfAnother": {plan.Nudge, failedTest, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := stale(&plan.Action{Verb: tc.verb}, fmt.Errorf("write: %w", tc.err)); got != tc.want {
				t.Errorf("stale() = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestConfigIsChecked(t *testing.T) {
	if _, err := New(Config{Space: "its1"}); err == nil {
		t.Error("New() takes a Config that is not complete")
	}
}

func TestLabelsOfAWork(t *testing.T) {
	p := newPlugin(t)
	o := object(t, settings, configMap, "1")
	p1 := plan.Build(plan.NewDesired([]plan.Object{o}, limits), &plan.Current{Mailbox: "cluster1", Prefix: "uid"})
	work, _, err := p.manifestWork(origin, &p1.Actions[0])
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		controlv1alpha1.LabelBindingName: "nginx", controlv1alpha1.LabelWDSName: "wds1", controlv1alpha1.LabelWDSUID: "wds-uid",
		controlv1alpha1.LabelBindingUID: "uid", controlv1alpha1.LabelWave: "1",
	}
	if diff := cmp.Diff(want, work.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

func BenchmarkRead(b *testing.B) {
	for _, n := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			t := &testing.T{}
			var objects []plan.Object
			for i := range n {
				ref := settings
				ref.Name = fmt.Sprint(i)
				objects = append(objects, object(t, ref, configMap, strings.Repeat("x", 500)))
			}
			built := plan.Build(plan.NewDesired(objects, packing.Limits{Count: n, Bytes: 1 << 30}), &plan.Current{Mailbox: "cluster1", Prefix: "uid"})
			work, _, err := newPlugin(t).manifestWork(origin, &built.Actions[0])
			if err != nil {
				b.Fatal(err)
			}
			b.Run("first", func(b *testing.B) {
				for b.Loop() {
					works.Read(work, works.NewManifests(1000))
				}
			})
			b.Run("again", func(b *testing.B) {
				known := works.NewManifests(1000)
				for b.Loop() {
					works.Read(work, known)
				}
			})
		})
	}
}

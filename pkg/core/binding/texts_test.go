package binding

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/test/golden"
)

// TestTexts lists what users read in the conditions, status.errors and events of a BindingPolicy.
func TestTexts(t *testing.T) {
	const (
		synced  = controlv1alpha1.BindingPolicyConditionSynced
		ready   = controlv1alpha1.BindingPolicyConditionReady
		blocked = controlv1alpha1.BindingPolicyConditionRemovalBlocked
	)
	waiting := func(names ...string) func(*State, *Decision, *Result) {
		return func(_ *State, d *Decision, _ *Result) {
			d.Retained.Objects, d.RetainedSince = map[objref.Ref]string{}, map[objref.Ref]time.Time{}
			for i, name := range names {
				ref := objref.Ref{Resource: "configmaps", Namespace: "n", Name: fmt.Sprint(i)}
				d.Retained.Objects[ref], d.RetainedSince[ref] = name, noon.Add(-time.Minute)
			}
		}
	}
	clusters := func(n int) (names []string) {
		for i := range n {
			names = append(names, fmt.Sprintf("c%02d", i+1))
		}
		return names
	}
	loss := func(n, of int, objects ...string) *Loss {
		l := &Loss{Clusters: clusters(n), Of: of, Token: "5f0a2b7c9d11"}
		for _, name := range objects {
			l.Objects = append(l.Objects, objref.Ref{Group: "apps", Resource: "deployments", Namespace: "shop", Name: name})
		}
		return l
	}
	noDestinations := func(selectors, pending int) func(*State, *Decision, *Result) {
		return func(s *State, _ *Decision, r *Result) {
			s.Policy.Spec.ClusterSelectors = make([]metav1.LabelSelector, selectors)
			s.Pending = clusters(pending)
			r.Bindings[0].Spec.Destinations = nil
		}
	}
	deleting := func(s *State) { s.Policy.DeletionTimestamp = &metav1.Time{Time: noon} }
	var texts []golden.Text
	for _, tc := range []struct {
		condition, heading string
		change             func(*State, *Decision, *Result)
	}{
		{synced, "no objects", func(_ *State, _ *Decision, r *Result) {
			r.Bindings[0].Spec.Workload = controlv1alpha1.DownsyncObjectClauses{}
		}},
		{synced, "no selector", noDestinations(0, 0)},
		{synced, "no cluster matches", noDestinations(1, 0)},
		{synced, "a cluster is pending", noDestinations(1, 1)},
		{synced, "clusters are pending", noDestinations(1, 9)},
		{synced, "a cluster is drained", func(s *State, d *Decision, r *Result) {
			noDestinations(1, 0)(s, d, r)
			s.Drained = clusters(1)
		}},
		{synced, "clusters are pending and drained", func(s *State, _ *Decision, _ *Result) { s.Pending, s.Drained = clusters(2), clusters(3)[2:] }},
		{synced, "some clusters are pending", func(s *State, _ *Decision, _ *Result) { s.Pending = clusters(2) }},
		{synced, "neither objects nor clusters", func(_ *State, _ *Decision, r *Result) { r.Bindings[0].Spec = controlv1alpha1.BindingSpec{} }},
		{synced, "invalid", func(s *State, _ *Decision, _ *Result) {
			_, s.Invalid = match.Compile(&controlv1alpha1.BindingPolicySpec{
				ClusterSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"-": "x"}}},
				Downsync:         make([]controlv1alpha1.DownsyncPolicyClause, 1),
			})
		}},
		{synced, "the name is taken", func(s *State, _ *Decision, _ *Result) { s.First.OwnerReferences = nil }},
		{synced, "a user deleted the Binding", func(s *State, _ *Decision, _ *Result) { s.First.DeletionTimestamp = &metav1.Time{Time: noon} }},
		{synced, "refused", func(_ *State, _ *Decision, r *Result) { r.Err = errors.New("create Binding web: request is too large") }},
		{synced, "blocked", func(_ *State, d *Decision, _ *Result) { d.Blocked = loss(12, 12) }},
		{synced, "not synced", func(s *State, d *Decision, _ *Result) {
			s.Missing, d.MissingSince = []string{"API group example.com", "widgets.example.com", "ITS its2"}, noon.Add(-RecheckUnread)
		}},
		{synced, "a definition serves no version", func(s *State, d *Decision, _ *Result) {
			s.NotServed.NoVersion, d.MissingSince = []string{"widgets.example.com"}, noon.Add(-RecheckUnread)
		}},
		{synced, "an API server does not respond", func(s *State, d *Decision, _ *Result) {
			s.NotServed.NoResponse, d.MissingSince = []string{"widgets.example.com"}, noon.Add(-RecheckUnread)
		}},
		{synced, "not synced and not served", func(s *State, d *Decision, _ *Result) {
			s.Missing, d.MissingSince = []string{"a.example.com", "widgets.example.com", "ITS its2"}, noon.Add(-RecheckUnread)
			s.NotServed = NotServed{NoVersion: []string{"a.example.com", "b.example.com"}, NoResponse: []string{"c.example.org", "d.example.org"}}
		}},
		{synced, "a kind cannot be read, and the policy does not name it", func(s *State, _ *Decision, _ *Result) {
			s.Broken = []Broken{{Name: "widgets.example.com", Err: `conversion webhook for example.com/v1, Kind=Widget failed: service "convert" not found`, Settled: true}}
		}},
		{synced, "a kind cannot be read, and its objects are listed", func(s *State, d *Decision, _ *Result) {
			s.Broken = []Broken{{Name: "widgets.example.com", Err: `conversion webhook for example.com/v1, Kind=Widget failed: service "convert" not found`, Holds: true}}
			d.MissingSince = noon.Add(-RecheckUnread)
		}},
		{synced, "API servers do not respond", func(s *State, _ *Decision, _ *Result) {
			for _, name := range []string{"API group custom.metrics.k8s.io", "API group metrics.k8s.io"} {
				s.Broken = append(s.Broken, Broken{Name: name, Err: "its API server does not respond", Settled: true})
			}
		}},
		{synced, "changes were not observed", func(s *State, d *Decision, _ *Result) {
			s.Unseen.Of, d.MissingSince = []string{`BindingPolicy "b"`, `ITS "its2", which does not respond`, "configmaps n/a"}, noon.Add(-RecheckUnread)
		}},
		{synced, "one object waits for another policy", waiting("b")},
		{synced, "objects wait for other policies", waiting("b", "c", "b")},
		{synced, "deleting", func(s *State, _ *Decision, _ *Result) { deleting(s) }},
		{synced, "deleting, the transport reports", func(s *State, _ *Decision, r *Result) {
			deleting(s)
			r.Bindings[0].Status.Conditions[0] = metav1.Condition{Type: "Delivered", Reason: controlv1alpha1.ReasonDeleting, Message: "works left in the mailboxes of: c01"}
		}},
		{synced, "deleting, an object waits", func(s *State, d *Decision, r *Result) { deleting(s); waiting("b")(s, d, r) }},
		{synced, "deleting, a change was not observed", func(s *State, d *Decision, _ *Result) {
			deleting(s)
			s.Unseen.Of, d.MissingSince = []string{"configmaps n/a"}, noon.Add(-RecheckUnread)
		}},
		{synced, "deleting, refused", func(s *State, _ *Decision, r *Result) {
			deleting(s)
			r.Err = errors.New("delete Binding web: forbidden")
		}},
		{blocked, "clusters leave", func(_ *State, d *Decision, _ *Result) { d.Blocked = loss(8, 12) }},
		{blocked, "an ITS cannot be read", func(_ *State, d *Decision, _ *Result) { d.Blocked = loss(3, 12); d.Blocked.Unread = 4 }},
		{blocked, "objects leave", func(_ *State, d *Decision, _ *Result) { d.Blocked = loss(12, 12, "api", "web") }},
		{ready, "not synced", func(_ *State, d *Decision, _ *Result) { d.Blocked = loss(12, 12) }},
		{ready, "no selector", noDestinations(0, 0)},
		{ready, "no objects", func(_ *State, _ *Decision, r *Result) {
			r.Bindings[0].Spec.Workload = controlv1alpha1.DownsyncObjectClauses{}
		}},
		{ready, "clusters are pending", noDestinations(1, 9)},
		{ready, "not observed", func(_ *State, _ *Decision, r *Result) { r.Bindings[0].Generation++ }},
		{ready, "not reported", func(_ *State, _ *Decision, r *Result) { r.Bindings[0].Status.Conditions = nil }},
		{ready, "errors", func(_ *State, _ *Decision, r *Result) { r.Bindings[0].Status.Errors = []string{"c01: x"} }},
	} {
		s := someState("a")
		s.First = someBinding("a")
		d, r := Decision{}, Result{Bindings: []*controlv1alpha1.Binding{s.First.DeepCopy()}}
		tc.change(s, &d, &r)
		status, _ := Status(s, &d, r)
		c := meta.FindStatusCondition(status.Conditions, tc.condition)
		texts = append(texts, golden.Text{Heading: fmt.Sprintf("%s %s %s: %s", c.Type, c.Status, c.Reason, tc.heading), Text: c.Message})
	}

	s := someState("a")
	s.First = someBinding("a")
	s.Policy.Annotations = map[string]string{
		controlv1alpha1.AnnotationRemovalBlock: "maybe", controlv1alpha1.AnnotationMaxRemoval: "many", controlv1alpha1.AnnotationAllowRemoval: "5f0a",
	}
	s.RemovalBlock, s.Mistakes = ParseRemovalBlock(s.Policy.Annotations)
	s.Miscounts = []match.Miscount{{
		Ref: objref.Ref{Group: "apps", Resource: "deployments", Namespace: "n", Name: "web"}, Kind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, Clusters: 2,
	}}
	s.StatusErrors = []string{"status return: no right to patch deployments.apps/status"}
	status, _ := Status(s, &Decision{Blocked: loss(12, 12)}, Result{Bindings: []*controlv1alpha1.Binding{s.First}})
	for i, text := range status.Errors {
		texts = append(texts, golden.Text{Heading: fmt.Sprintf("status.errors %d", i+1), Text: text})
	}
	removal := metav1.Condition{Type: blocked, Status: metav1.ConditionTrue, Reason: "RemovalLimitExceeded"}
	for _, e := range Events([]metav1.Condition{removal}, nil) {
		texts = append(texts, golden.Text{Heading: "event " + e.Type + " " + e.Reason, Text: e.Note})
	}
	golden.Texts(t, texts...)
}

package feedback

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/health"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/transport/delivery"
	"github.com/starlinghq/starling/pkg/transport/plugin"
)

var (
	now      = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	settings = objref.Ref{Resource: "configmaps", Namespace: "web", Name: "settings"}
	password = objref.Ref{Resource: "secrets", Namespace: "web", Name: "password"}
	web      = objref.Ref{Resource: "namespaces", Name: "web"}
)

// input is a situation, and site one of its destinations, as a test writes them down.
type input struct {
	objects                                     int
	problems, mistakes, heldBack, leaving, left []string
	deleting                                    bool
	hold                                        *hold
	sites                                       []site
	now                                         time.Time
}

type site struct {
	name               string
	known, notAccepted bool
	outcome            outcome
	works              []workReport
	unseen             bool
	reports            plugin.Reports
	wants              func(objref.Ref) bool
	verdict            func(objref.Ref) (health.Verdict, bool)
	source             types.UID // of what is reported
	gone               bool      // what is reported
	excluded           corestatus.Excluded
	missed             func(objref.Ref, time.Time) time.Time
}

type (
	outcome    = delivery.Outcome
	workReport = delivery.Work
)

func (s site) destination() destination {
	return destination{
		Destination: delivery.Destination{
			Name: s.name, Attempted: s.known, NotAccepted: s.notAccepted, Outcome: &s.outcome, Works: s.works, Unobserved: s.unseen,
			Reports: s.reports, Report: func(ref objref.Ref) (plugin.Report, bool) {
				verdict, reported := s.verdict(ref)
				return plugin.Report{Verdict: verdict, Source: s.source, Gone: s.gone}, reported
			},
		},
		wants: s.wants, excluded: s.excluded, missingSince: s.missed,
	}
}

func (in input) situation() situation {
	s := situation{
		objects: in.objects, problems: in.problems, mistakes: in.mistakes, heldBack: in.heldBack, leaving: in.leaving, left: in.left,
		deleting: in.deleting, hold: in.hold, clusters: len(in.sites), now: in.now,
	}
	for _, site := range in.sites {
		d := site.destination()
		t, _ := tallyOf(&d, in.now)
		s.tally.add(t)
	}
	return s
}

func siteWith(name string, items ...plan.Item) site {
	return site{name: name, known: true, works: []workReport{{Work: &plan.Work{Items: items}, FailingSince: now}}}
}

func siteClaiming(name string, items ...plan.Item) site {
	s := siteWith(name, items...)
	s.outcome.Claims = []string{"theirs"}
	return s
}

func failed(ref objref.Ref, message string, ago time.Duration) plan.Item {
	return plan.Item{Ref: ref, State: plan.Failed, Reason: "AppliedManifestFailed", Message: message, Since: now.Add(-ago).Unix()}
}

func TestEvaluate(t *testing.T) {
	applied := plan.Item{Ref: settings, State: plan.Applied}
	cases := map[string]struct {
		in            input
		wantDelivered string
		wantApplied   string
		wantErrors    []string
		wantRecheck   time.Duration
	}{
		"AllApplied": {
			in:            input{objects: 1, sites: []site{siteWith("a", applied), siteWith("b", applied)}},
			wantDelivered: "True Delivered: 1 object for 2 clusters",
			wantApplied:   "True Applied: 1 object for 2 clusters",
		},
		"MoreStepsFollow": { // until ignored fields can be left alone
			in: input{objects: 2, sites: []site{siteWith("a", applied, plan.Item{Ref: nginx, State: plan.Applied, Options: plan.Options{
				IgnoredFields: ".spec.replicas", Stage: plan.Stage{Begun: true},
			}})}},
			wantDelivered: "True Delivered: 2 objects for 1 cluster",
			wantApplied:   "False Applying: not applied yet in: a",
		},
		"OthersOwnAnIgnoredField": {
			in: input{objects: 1, sites: []site{siteWith("a", plan.Item{
				Ref: nginx, State: plan.Failed, Message: `Apply failed with 1 conflict: conflict with "hpa"`,
				Options: plan.Options{IgnoredFields: ".spec.replicas", Stage: plan.Stage{Begun: true, By: ".spec.replicas"}},
			})}},
			wantDelivered: "True Delivered: 1 object for 1 cluster",
			wantApplied:   "False Applying: not applied yet in: a",
		},
		"NothingToDo": {
			wantDelivered: "True Delivered: no destinations: the Binding lists no clusters",
			wantApplied:   "True Applied: no destinations: the Binding lists no clusters",
		},
		"UnderWay": {
			in:            input{sites: []site{siteWith("a", applied), {name: "b"}}},
			wantDelivered: "False Delivering: being delivered to: b",
			wantApplied:   "False NotDelivered: see condition Delivered",
		},
		"TheyDeliver": {
			in:            input{sites: []site{siteClaiming("a", applied)}},
			wantDelivered: "False Conflict: 1 conflict over objects that another WDS or package delivers; see status.errors",
			wantApplied:   "False NotDelivered: see condition Delivered",
			wantErrors:    []string{"a: theirs"},
		},
		"TheyWantIt": {
			in:            input{objects: 1, sites: []site{{name: "a", known: true, outcome: outcome{Disputes: []string{"ours"}}, works: siteWith("a", applied).works}}},
			wantDelivered: "True Delivered: 1 object for 1 cluster",
			wantApplied:   "True Applied: 1 object for 1 cluster",
			wantErrors:    []string{"a: ours"},
		},
		"HeldBack": {
			in:            input{heldBack: []string{"gone"}, mistakes: []string{"typo"}, sites: []site{{name: "a", known: true, outcome: outcome{HeldBack: 2}}}},
			wantDelivered: "False Held: annotation starling.io/hold holds back changes to: a, gone",
			wantApplied:   "False NotDelivered: see condition Delivered",
			wantErrors:    []string{"typo"},
		},
		"HandingOver": {
			in:            input{leaving: []string{"gone: x is handed over"}, sites: []site{siteWith("a", applied)}},
			wantDelivered: "False Delivering: gone: x is handed over",
			wantApplied:   "False NotDelivered: see condition Delivered",
		},
		"DeletingWhatIsHeld": {
			in: input{
				deleting: true, left: []string{"b", "a"}, heldBack: []string{"a"}, leaving: []string{"b: x is handed over"},
				hold: &hold{objects: []string{"configmaps web/settings"}},
			},
			wantDelivered: "False Deleting: waiting until the works are removed from: a, b; 1 object is held by annotation starling.io/hold: configmaps web/settings; b: x is handed over",
			wantApplied:   "False NotDelivered: the Binding is being deleted",
		},
		"Waiting": {
			in: input{sites: []site{{name: "a", known: true, outcome: outcome{Waiting: []plan.Wait{
				{Ref: settings, For: web}, {Ref: password, For: web},
			}}}}},
			wantDelivered: "False Delivering: waiting until these are applied: a: namespaces web",
			wantApplied:   "False NotDelivered: see condition Delivered",
		},
		"NothingComesBack": {
			in:            input{sites: []site{siteWith("b", plan.Item{Ref: settings, State: plan.Silent}), siteWith("a", applied)}},
			wantDelivered: "True Delivered: 0 objects for 2 clusters",
			wantApplied:   "Unknown NotReported: clusters not reporting status: b",
		},
		"NotAllAnswered": {
			in:            input{sites: []site{siteWith("b", plan.Item{Ref: settings}), siteWith("a", plan.Item{Ref: settings})}},
			wantDelivered: "True Delivered: 0 objects for 2 clusters",
			wantApplied:   "False Applying: not applied yet in: a, b",
		},
		"WhatWasWrittenDoesNotShowYet": {
			in: input{sites: []site{
				{name: "a", known: true, unseen: true},
				{name: "b", known: true, unseen: true, works: []workReport{{Work: &plan.Work{Items: []plan.Item{applied}}}}},
			}},
			wantDelivered: "True Delivered: 0 objects for 2 clusters",
			wantApplied:   "False Applying: not applied yet in: a, b",
		},
		"ManyNames": {
			in: input{sites: []site{
				{name: "a"},
				{name: "b"},
				{name: "c"},
				{name: "d"},
				{name: "e"},
				{name: "f"},
				{name: "g"},
			}},
			wantDelivered: "False Delivering: being delivered to: a, b, c, d, e … and 2 more",
			wantApplied:   "False NotDelivered: see condition Delivered",
		},
		"WhatIsOnItsWayOutCountsForNothing": {
			in: input{sites: []site{{name: "a", known: true, works: []workReport{
				{Work: &plan.Work{Deleting: true, Items: []plan.Item{failed(settings, "no", time.Hour)}}},
			}}}},
			wantDelivered: "True Delivered: 0 objects for 1 cluster",
			wantApplied:   "True Applied: 0 objects for 1 cluster",
		},
		"ProblemsOfObjectsSitesAndWrites": {
			in: input{
				problems: []string{"configmaps web/settings: is listed by the Binding, but does not exist in the WDS"},
				sites: []site{
					{name: "a", notAccepted: true},
					{name: "b", known: true, outcome: outcome{Errors: []string{"create work x: no"}, TooLarge: []objref.Ref{password}}},
					{name: "c", known: true, outcome: outcome{TooLarge: []objref.Ref{password}}},
				},
			},
			wantDelivered: "False Failed: 4 errors; see status.errors",
			wantApplied:   "False NotDelivered: see condition Delivered",
			wantErrors: []string{
				"configmaps web/settings: is listed by the Binding, but does not exist in the WDS",
				"a: is not an accepted cluster of any ITS. Accept its ManagedCluster, or correct the name",
				"b: create work x: no",
				"secrets web/password: is too large for a work. Make it smaller, or raise --max-size-wrapped of the transport-controller",
			},
		},
		"Refused": {
			in: input{sites: []site{
				siteWith("a", failed(settings, "Failed to apply manifest: no\n  way", 0)),
				siteWith("b", failed(password, `data[password]: Invalid value: "hunter2"`, 0)),
			}},
			wantDelivered: "True Delivered: 0 objects for 2 clusters",
			wantApplied:   "False Failed: 2 objects could not be applied; see status.errors",
			wantErrors: []string{
				"a: configmaps web/settings: no way",
				"b: secrets web/password: AppliedManifestFailed (text withheld: the object is a Secret)",
			},
		},
		"WhatPassesIsNoErrorYet": {
			in:            input{sites: []site{siteWith("a", failed(settings, `namespaces "web" not found`, 10*time.Second))}},
			wantDelivered: "True Delivered: 0 objects for 1 cluster",
			wantApplied:   "False Applying: not applied yet in: a",
			wantRecheck:   20 * time.Second,
		},
		"WhatShouldHavePassedIsAnError": {
			in:            input{sites: []site{siteWith("a", failed(settings, `namespaces "web" not found`, 30*time.Second))}},
			wantDelivered: "True Delivered: 0 objects for 1 cluster",
			wantApplied:   "False Failed: 1 object could not be applied; see status.errors",
			wantErrors:    []string{`a: configmaps web/settings: namespaces "web" not found`},
		},
		"TheClockOfAClusterIsNotTrustedForLong": {
			in: input{sites: []site{{name: "a", known: true, works: []workReport{{
				Work:         &plan.Work{Items: []plan.Item{failed(settings, `namespaces "web" not found`, -time.Hour)}},
				FailingSince: now.Add(-31 * time.Second),
			}}}}},
			wantDelivered: "True Delivered: 0 objects for 1 cluster",
			wantApplied:   "False Failed: 1 object could not be applied; see status.errors",
			wantErrors:    []string{`a: configmaps web/settings: namespaces "web" not found`},
		},
		"Deleting": {
			in:            input{deleting: true, left: []string{"b", "a"}},
			wantDelivered: "False Deleting: waiting until the works are removed from: a, b",
			wantApplied:   "False NotDelivered: the Binding is being deleted",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.in.now = now
			for i := range tc.in.sites {
				tc.in.sites[i].wants = func(objref.Ref) bool { return true }
				tc.in.sites[i].verdict = func(objref.Ref) (health.Verdict, bool) { return health.Verdict{}, false }
			}
			got := evaluate(tc.in.situation())
			text := func(c metav1.Condition) string { return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message) }
			if diff := cmp.Diff([]string{tc.wantDelivered, tc.wantApplied}, []string{text(got.delivered), text(got.applied)}); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantErrors, got.errors); diff != "" && len(tc.wantErrors)+len(got.errors) > 0 {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if got.recheck != tc.wantRecheck {
				t.Errorf("recheck %s, want %s", got.recheck, tc.wantRecheck)
			}
		})
	}
}

func TestDecideStatusMovesTimesOnlyWithTheConditions(t *testing.T) {
	in := situation{generation: 1, now: now}
	first, _ := decideStatus(&controlv1alpha1.BindingStatus{}, in)
	in.now, in.generation = now.Add(time.Hour), 2
	second, _ := decideStatus(&first, in)
	for i, c := range second.Conditions {
		if !c.LastTransitionTime.Equal(&first.Conditions[i].LastTransitionTime) || c.ObservedGeneration != 2 {
			t.Errorf("condition %+v, want the time of %+v and generation 2", c, first.Conditions[i])
		}
	}
	if first.Conditions[0].ObservedGeneration != 1 {
		t.Error("the old status was changed")
	}
}

package transport

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
)

var (
	now      = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	settings = objref.Ref{Resource: "configmaps", Namespace: "web", Name: "settings"}
	password = objref.Ref{Resource: "secrets", Namespace: "web", Name: "password"}
	web      = objref.Ref{Resource: "namespaces", Name: "web"}
)

func siteWith(name string, items ...plan.Item) site {
	return site{name: name, known: true, works: []workReport{{Work: &plan.Work{Items: items}, seen: now}}}
}

func siteClaiming(name string, items ...plan.Item) site {
	s := siteWith(name, items...)
	s.claims = []string{"theirs"}
	return s
}

func failed(ref objref.Ref, message string, ago time.Duration) plan.Item {
	return plan.Item{Ref: ref, State: plan.Failed, Reason: "AppliedManifestFailed", Message: message, Since: now.Add(-ago).Unix()}
}

func TestJudge(t *testing.T) {
	applied := plan.Item{Ref: settings, State: plan.Applied}
	cases := map[string]struct {
		in            situation
		wantDelivered string
		wantApplied   string
		wantErrors    []string
		wantRecheck   time.Duration
	}{
		"AllApplied": {
			in:            situation{objects: 1, sites: []site{siteWith("a", applied), siteWith("b", applied)}},
			wantDelivered: "True Delivered: 1 objects for 2 clusters",
			wantApplied:   "True Applied: 1 objects for 2 clusters",
		},
		"NothingToDo": {
			wantDelivered: "True Delivered: 0 objects for 0 clusters",
			wantApplied:   "True Applied: 0 objects for 0 clusters",
		},
		"UnderWay": {
			in:            situation{sites: []site{siteWith("a", applied), {name: "b"}}},
			wantDelivered: "False Delivering: under way to: b",
			wantApplied:   "False NotDelivered: see condition Delivered",
		},
		"TheyDeliver": {
			in:            situation{sites: []site{siteClaiming("a", applied)}},
			wantDelivered: "False Conflict: 1 conflicts with other WDSes, see status.errors",
			wantApplied:   "False NotDelivered: see condition Delivered",
			wantErrors:    []string{"a: theirs"},
		},
		"TheyWantIt": {
			in:            situation{objects: 1, sites: []site{{name: "a", known: true, outcome: outcome{disputes: []string{"ours"}}, works: siteWith("a", applied).works}}},
			wantDelivered: "True Delivered: 1 objects for 1 clusters",
			wantApplied:   "True Applied: 1 objects for 1 clusters",
			wantErrors:    []string{"a: ours"},
		},
		"HeldBack": {
			in:            situation{heldBack: []string{"gone"}, mistakes: []string{"typo"}, sites: []site{{name: "a", known: true, outcome: outcome{heldBack: 2}}}},
			wantDelivered: "False Held: annotation starling.io/hold keeps changes from: a, gone",
			wantApplied:   "False NotDelivered: see condition Delivered",
			wantErrors:    []string{"typo"},
		},
		"HandingOver": {
			in:            situation{leaving: []string{"gone: x is handed over"}, sites: []site{siteWith("a", applied)}},
			wantDelivered: "False Delivering: gone: x is handed over",
			wantApplied:   "False NotDelivered: see condition Delivered",
		},
		"DeletingWhatIsHeld": {
			in: situation{
				deleting: true, left: []string{"b", "a"}, heldBack: []string{"a"}, leaving: []string{"b: x is handed over"},
				hold: &holding{objects: []string{"configmaps web/settings"}},
			},
			wantDelivered: "False Deleting: waiting for works to be gone from: a, b; 1 objects are held by annotation starling.io/hold: configmaps web/settings; b: x is handed over",
			wantApplied:   "False NotDelivered: the Binding is being deleted",
		},
		"Waiting": {
			in: situation{sites: []site{{name: "a", known: true, outcome: outcome{waiting: []plan.Wait{
				{Ref: settings, For: web}, {Ref: password, For: web},
			}}}}},
			wantDelivered: "False Delivering: waiting for: a: namespaces web",
			wantApplied:   "False NotDelivered: see condition Delivered",
		},
		"NothingComesBack": {
			in:            situation{sites: []site{siteWith("b", plan.Item{Ref: settings, State: plan.Silent}), siteWith("a", applied)}},
			wantDelivered: "True Delivered: 0 objects for 2 clusters",
			wantApplied:   "Unknown NotReported: nothing comes back from: b",
		},
		"NotAllAnswered": {
			in:            situation{sites: []site{siteWith("b", plan.Item{Ref: settings}), siteWith("a", plan.Item{Ref: settings})}},
			wantDelivered: "True Delivered: 0 objects for 2 clusters",
			wantApplied:   "False Applying: waiting for: a, b",
		},
		"WhatWasWrittenDoesNotShowYet": {
			in: situation{sites: []site{
				{name: "a", known: true, unseen: true},
				{name: "b", known: true, unseen: true, works: []workReport{{Work: &plan.Work{Items: []plan.Item{applied}}}}},
			}},
			wantDelivered: "True Delivered: 0 objects for 2 clusters",
			wantApplied:   "False Applying: waiting for: a, b",
		},
		"ManyNames": {
			in: situation{sites: []site{
				{name: "a"},
				{name: "b"},
				{name: "c"},
				{name: "d"},
				{name: "e"},
				{name: "f"},
				{name: "g"},
			}},
			wantDelivered: "False Delivering: under way to: a, b, c, d, e … and 2 more",
			wantApplied:   "False NotDelivered: see condition Delivered",
		},
		"WhatIsOnItsWayOutCountsForNothing": {
			in: situation{sites: []site{{name: "a", known: true, works: []workReport{
				{Work: &plan.Work{Deleting: true, Items: []plan.Item{failed(settings, "no", time.Hour)}}},
			}}}},
			wantDelivered: "True Delivered: 0 objects for 1 clusters",
			wantApplied:   "True Applied: 0 objects for 1 clusters",
		},
		"ProblemsOfObjectsSitesAndWrites": {
			in: situation{
				problems: []string{"configmaps web/settings: is listed by the Binding but is not there"},
				sites: []site{
					{name: "a", problem: "is not an accepted cluster of any inventory space"},
					{name: "b", known: true, outcome: outcome{errors: []string{"create work x: no"}, tooLarge: []objref.Ref{password}}},
					{name: "c", known: true, outcome: outcome{tooLarge: []objref.Ref{password}}},
				},
			},
			wantDelivered: "False Failed: 4 errors, see status.errors",
			wantApplied:   "False NotDelivered: see condition Delivered",
			wantErrors: []string{
				"configmaps web/settings: is listed by the Binding but is not there",
				"a: is not an accepted cluster of any inventory space",
				"b: create work x: no",
				"secrets web/password: is too large for a work; see --max-size-wrapped",
			},
		},
		"Refused": {
			in: situation{sites: []site{
				siteWith("a", failed(settings, "Failed to apply manifest: no\n  way", 0)),
				siteWith("b", failed(password, `data[password]: Invalid value: "hunter2"`, 0)),
			}},
			wantDelivered: "True Delivered: 0 objects for 2 clusters",
			wantApplied:   "False Failed: 2 objects could not be applied, see status.errors",
			wantErrors: []string{
				"a: configmaps web/settings: no way",
				"b: secrets web/password: AppliedManifestFailed (text withheld: the object is a Secret)",
			},
		},
		"WhatPassesIsNoErrorYet": {
			in:            situation{sites: []site{siteWith("a", failed(settings, `namespaces "web" not found`, 10*time.Second))}},
			wantDelivered: "True Delivered: 0 objects for 1 clusters",
			wantApplied:   "False Applying: waiting for: a",
			wantRecheck:   20 * time.Second,
		},
		"WhatShouldHavePassedIsAnError": {
			in:            situation{sites: []site{siteWith("a", failed(settings, `namespaces "web" not found`, 30*time.Second))}},
			wantDelivered: "True Delivered: 0 objects for 1 clusters",
			wantApplied:   "False Failed: 1 objects could not be applied, see status.errors",
			wantErrors:    []string{`a: configmaps web/settings: namespaces "web" not found`},
		},
		"TheClockOfAClusterIsNotTrustedForLong": {
			in: situation{sites: []site{{name: "a", known: true, works: []workReport{{
				Work: &plan.Work{Items: []plan.Item{failed(settings, `namespaces "web" not found`, -time.Hour)}},
				seen: now.Add(-31 * time.Second),
			}}}}},
			wantDelivered: "True Delivered: 0 objects for 1 clusters",
			wantApplied:   "False Failed: 1 objects could not be applied, see status.errors",
			wantErrors:    []string{`a: configmaps web/settings: namespaces "web" not found`},
		},
		"Deleting": {
			in:            situation{deleting: true, left: []string{"b", "a"}},
			wantDelivered: "False Deleting: waiting for works to be gone from: a, b",
			wantApplied:   "False NotDelivered: the Binding is being deleted",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.in.now = now
			for i := range tc.in.sites {
				tc.in.sites[i].wants = func(objref.Ref) bool { return true }
			}
			got := judge(tc.in)
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

func TestBoundSortsAndCuts(t *testing.T) {
	var texts []string
	for i := range 40 {
		texts = append(texts, fmt.Sprintf("%02d", 39-i), "00")
	}
	got := bound(texts)
	if len(got) != maxErrors+1 || got[0] != "00" || got[1] != "01" || got[maxErrors] != "… and 8 more" {
		t.Errorf("bound() = %q", got)
	}
	if bound(nil) != nil {
		t.Error("bound(nil) is not nil")
	}
}

func TestClip(t *testing.T) {
	if got := clip("a\n\tb  c"); got != "a b c" {
		t.Errorf("clip() = %q", got)
	}
	if got := clip(strings.Repeat("é", maxText)); len(got) > maxText+len(" …") || !strings.HasSuffix(got, "é …") {
		t.Errorf("clip() = %d bytes, ends %q", len(got), got[len(got)-8:])
	}
}

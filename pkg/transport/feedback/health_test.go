package feedback

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/health"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/transport/plugin"
)

var nginx = objref.Ref{Group: "apps", Resource: "deployments", Namespace: "web", Name: "nginx"}

func TestHealth(t *testing.T) {
	was := func(ref objref.Ref, ago time.Duration) plan.Item {
		return plan.Item{Ref: ref, State: plan.Applied, Since: now.Add(-ago).Unix()}
	}
	said := func(s site, verdicts map[objref.Ref]health.Verdict) site {
		s.wants = func(ref objref.Ref) bool { return ref != password }
		s.verdict = func(ref objref.Ref) (health.Verdict, bool) {
			v, ok := verdicts[ref]
			return v, ok
		}
		s.reports = plugin.ReportsRead
		return s
	}
	in := func(state plugin.Reports, sites ...site) input {
		for i := range sites {
			sites[i].reports = state
		}
		return input{objects: 2, sites: sites, now: now}
	}
	well := map[objref.Ref]health.Verdict{nginx: {}}
	ofFormer := func(change func(*plan.Item)) site {
		item := was(nginx, 10*time.Second)
		item.Source = "u2"
		change(&item)
		s := said(siteWith("a", was(settings, time.Hour), item), map[objref.Ref]health.Verdict{nginx: {}})
		s.source = "u1"
		return s
	}
	ill := map[objref.Ref]health.Verdict{nginx: {State: health.Unhealthy, Message: "out of quota"}}
	starting := map[objref.Ref]health.Verdict{nginx: {State: health.Progressing, Message: "0 of 1"}}
	both := []plan.Item{was(settings, time.Hour), was(nginx, time.Hour)}
	moving := siteWith("a", both...)
	moving.works = append(moving.works, workReport{Work: &plan.Work{Items: []plan.Item{was(nginx, 0), was(password, 0)}}})
	leaving := siteWith("a", both...)
	leaving.works = append(leaving.works, workReport{Work: &plan.Work{Deleting: true, Items: both}})
	var many []site
	for i := range 12 {
		many = append(many, said(siteWith(fmt.Sprintf("c%02d", i), both...), ill))
	}
	cases := map[string]struct {
		in               input
		want             string
		applied, healthy string
		problems         []string
		recheck          time.Duration
	}{
		"Well": {
			in:      in(plugin.ReportsRead, said(siteWith("a", both...), well), said(siteWith("b", both...), well)),
			want:    "True Healthy: 2 objects for 2 clusters",
			applied: "4/4", healthy: "4/4",
		},
		"Ill": {
			in:      in(plugin.ReportsRead, said(siteWith("a", both...), well), said(siteWith("b", both...), ill)),
			want:    "False Unhealthy: 1 problem; see status.problems",
			applied: "4/4", healthy: "3/4",
			problems: []string{"b: deployments.apps web/nginx: out of quota"},
		},
		"Starting": {
			in:      in(plugin.ReportsRead, said(siteWith("a", both...), starting)),
			want:    "False Progressing: not healthy yet: a: deployments.apps web/nginx (0 of 1)",
			applied: "2/2", healthy: "1/2",
		},
		"NotReportedYet": {
			in:      in(plugin.ReportsRead, said(siteWith("a", was(settings, time.Hour), was(nginx, 10*time.Second)), nil)),
			want:    "False Progressing: not healthy yet: a: deployments.apps web/nginx (not reported yet)",
			applied: "2/2", healthy: "1/2", recheck: 20 * time.Second,
		},
		"OfAFormerObject": {
			in:      in(plugin.ReportsRead, ofFormer(func(*plan.Item) {})),
			want:    "False Progressing: not healthy yet: a: deployments.apps web/nginx (not reported yet)",
			applied: "2/2", healthy: "1/2", recheck: 20 * time.Second,
		},
		"Gone": {
			in: in(plugin.ReportsRead, func() site {
				s := ofFormer(func(item *plan.Item) { item.Source = "u1" })
				s.gone = true
				return s
			}()),
			want:    "False NotApplied: see condition Applied",
			applied: "1/2", healthy: "1/2",
		},
		"FormerOneIsGone": {
			in: in(plugin.ReportsRead, func() site {
				s := ofFormer(func(*plan.Item) {})
				s.gone = true
				return s
			}()),
			want:    "False Progressing: not healthy yet: a: deployments.apps web/nginx (not reported yet)",
			applied: "2/2", healthy: "1/2", recheck: 20 * time.Second,
		},
		"OfThisObject": {
			in:      in(plugin.ReportsRead, ofFormer(func(item *plan.Item) { item.Source = "u1" })),
			want:    "True Healthy: 2 objects for 1 cluster",
			applied: "2/2", healthy: "2/2",
		},
		"OfAFormerObjectThatIsNeverUpdated": {
			in:      in(plugin.ReportsRead, ofFormer(func(item *plan.Item) { item.CreateOnly = true })),
			want:    "True Healthy: 2 objects for 1 cluster",
			applied: "2/2", healthy: "2/2",
		},
		"Missing": {
			in:      in(plugin.ReportsRead, said(siteWith("a", both...), nil)),
			want:    "False Unhealthy: 1 problem; see status.problems",
			applied: "2/2", healthy: "1/2",
			problems: []string{"a: deployments.apps web/nginx: is applied, but the cluster does not report its status"},
		},
		"Excluded": {
			in: in(plugin.ReportsRead, func() site {
				s := said(siteWith("a", both...), nil)
				var err error
				if s.excluded, err = corestatus.ParseExcluded([]string{"Deployment.apps"}); err != nil {
					t.Fatal(err)
				}
				return s
			}()),
			want:    "True Healthy: 2 objects for 1 cluster",
			applied: "2/2", healthy: "2/2",
		},
		"NobodyReports": {
			in:      in(plugin.ReportsNone, said(siteWith("a", both...), nil)),
			want:    "Unknown NotReported: clusters not reporting status: a",
			applied: "2/2", healthy: "1/2",
		},
		"APartIsRead": {
			in:      in(plugin.ReportsPartial, said(siteWith("a", both...), well), said(siteWith("b", both...), nil)),
			want:    "Unknown NotReported: clusters not reporting status: b (its mailbox has more WorkStatuses than are read)",
			applied: "4/4", healthy: "3/4",
		},
		"Refused": {
			in:      in(plugin.ReportsRead, said(siteWith("a", was(settings, 0), failed(nginx, "no room", time.Hour)), well)),
			want:    "False NotApplied: see condition Applied",
			applied: "1/2", healthy: "1/2",
			problems: []string{"a: deployments.apps web/nginx: no room"},
		},
		"InTwoWorks": {
			in:      in(plugin.ReportsRead, said(moving, well)),
			want:    "True Healthy: 2 objects for 1 cluster",
			applied: "2/2", healthy: "2/2",
		},
		"WorkLeaves": {
			in:      in(plugin.ReportsRead, said(leaving, well)),
			want:    "True Healthy: 2 objects for 1 cluster",
			applied: "2/2", healthy: "2/2",
		},
		"Observed": {
			in:      in(plugin.ReportsRead, said(siteWith("a", was(settings, 0), plan.Item{Ref: nginx, State: plan.Applied, Options: plan.Options{Observe: true}}), well)),
			want:    "True Healthy: 2 objects for 1 cluster",
			applied: "1/2", healthy: "1/2",
		},
		"Many": {
			in:      in(plugin.ReportsRead, many...),
			want:    "False Unhealthy: 12 problems; see status.problems",
			applied: "24/24", healthy: "12/24",
			problems: func() (texts []string) {
				for i := range 10 {
					texts = append(texts, fmt.Sprintf("c%02d: deployments.apps web/nginx: out of quota", i))
				}
				return texts
			}(),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := evaluate(tc.in.situation())
			if text := fmt.Sprintf("%s %s: %s", got.healthy.Status, got.healthy.Reason, got.healthy.Message); text != tc.want {
				t.Errorf("got  %s\nwant %s", text, tc.want)
			}
			if got.rollup.AppliedOf != tc.applied || got.rollup.HealthyOf != tc.healthy {
				t.Errorf("applied %s, healthy %s; want %s, %s", got.rollup.AppliedOf, got.rollup.HealthyOf, tc.applied, tc.healthy)
			}
			if diff := cmp.Diff(tc.problems, got.problems); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			want := int64(len(tc.problems))
			if name == "Many" {
				want = int64(len(many))
			}
			if got.problemsCount != want {
				t.Errorf("%d problems are counted, want %d", got.problemsCount, want)
			}
			if got.recheck != tc.recheck {
				t.Errorf("recheck %s, want %s", got.recheck, tc.recheck)
			}
		})
	}
}

// TestDeletionKeepsCounts: while a Binding is deleted, its counts stay.
func TestDeletionKeepsCounts(t *testing.T) {
	old := &controlv1alpha1.BindingStatus{Rollup: rollupOf(2, 3, 6, 5)}
	status, _ := decideStatus(old, situation{deleting: true, now: now})
	if status.Rollup == nil || status.Rollup.HealthyOf != "5/6" {
		t.Errorf("rollup %+v", status.Rollup)
	}
	for _, c := range status.Conditions {
		if c.Status != metav1.ConditionFalse {
			t.Errorf("%s is %s", c.Type, c.Status)
		}
	}
}

// TestMissingByOurClock: the clock of a cluster may be wrong. Our clock measures how long a report
// is missing.
func TestMissingByOurClock(t *testing.T) {
	for name, tc := range map[string]struct {
		skew     time.Duration // of the cluster's clock
		starting bool
		want     map[time.Duration]string // seconds after it was applied
	}{
		"Same":               {want: map[time.Duration]string{0: "waits 30s", 10 * time.Second: "waits 20s", 30 * time.Second: "problem"}},
		"AnHourAhead":        {skew: time.Hour, want: map[time.Duration]string{0: "waits 30s", 10 * time.Second: "waits 20s", 31 * time.Second: "problem"}},
		"AnHourBehind":       {skew: -time.Hour, want: map[time.Duration]string{0: "waits 30s", 31 * time.Second: "problem"}},
		"AfterARestart":      {skew: -time.Hour, starting: true, want: map[time.Duration]string{0: "problem", 5 * time.Second: "problem", 40 * time.Second: "problem"}},
		"AheadAfterARestart": {skew: time.Hour, starting: true, want: map[time.Duration]string{0: "waits 30s", 31 * time.Second: "problem"}},
	} {
		t.Run(name, func(t *testing.T) {
			before := missing{}
			for _, after := range slices.Sorted(maps.Keys(tc.want)) {
				at, current := now.Add(after), missing{}
				s := siteWith("a", plan.Item{Ref: nginx, State: plan.Applied, Since: now.Add(tc.skew).Unix()})
				s.wants = func(objref.Ref) bool { return true }
				s.verdict = func(objref.Ref) (health.Verdict, bool) { return health.Verdict{}, false }
				s.reports = plugin.ReportsRead
				s.missed = func(ref objref.Ref, applied time.Time) time.Time {
					current[ref] = before.since(ref, applied, at, tc.starting && after < startUp)
					return current[ref]
				}
				d := s.destination()
				w := healthOf(&d, at)
				got := "problem"
				if len(w.problems) == 0 {
					got = "waits " + w.until.Sub(at).String()
				}
				if got != tc.want[after] {
					t.Errorf("%s after it was applied: %s, want %s", after, got, tc.want[after])
				}
				before = current
			}
			if _, ok := before[nginx]; !ok {
				t.Error("it is not remembered")
			}
		})
	}
}

// TestCopiesOfUnknownContent: a copy counts as applied only if it is known what it should be. What
// is wrong with it is said anyway.
func TestCopiesOfUnknownContent(t *testing.T) {
	s := siteWith("a", plan.Item{Ref: nginx, State: plan.Applied}, plan.Item{Ref: settings, State: plan.Applied})
	s.wants = func(objref.Ref) bool { return true }
	s.reports = plugin.ReportsRead
	s.verdict = func(objref.Ref) (health.Verdict, bool) {
		return health.Verdict{State: health.Unhealthy, Message: "no replicas"}, true
	}
	d := s.destination()
	known := healthOf(&d, now)
	d.isKnown = func(objref.Ref) bool { return false }
	unknown := healthOf(&d, now)
	if known.applied != 2 || unknown.applied != 0 || unknown.healthy != 0 || len(unknown.problems) != len(known.problems) || len(known.problems) == 0 {
		t.Errorf("known %+v, unknown %+v", known, unknown)
	}
}

package feedback

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/starlinghq/starling/pkg/core/health"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/transport/placement"
	"github.com/starlinghq/starling/pkg/transport/plugin"
	"github.com/starlinghq/starling/test/golden"
)

// TestTexts: what users read in the status of a Binding.
func TestTexts(t *testing.T) {
	applied := plan.Item{Ref: settings, State: plan.Applied}
	failure := failed(nginx, "Failed to apply manifest: Deployment.apps \"nginx\" is invalid: spec.replicas: Invalid value: -1", time.Hour)
	gone := failed(nginx, "namespaces \"web\" not found", 0)
	well := func(objref.Ref) (health.Verdict, bool) { return health.Verdict{}, true }
	verdict := func(state health.State, message string) func(objref.Ref) (health.Verdict, bool) {
		return func(objref.Ref) (health.Verdict, bool) { return health.Verdict{State: state, Message: message}, true }
	}
	unreported := func(objref.Ref) (health.Verdict, bool) { return health.Verdict{}, false }
	reported := func(cluster string, v func(objref.Ref) (health.Verdict, bool), items ...plan.Item) site {
		s := siteWith(cluster, items...)
		s.verdict, s.reports = v, plugin.ReportsRead
		return s
	}
	var clusters []site
	for i := range 7 {
		clusters = append(clusters, site{name: fmt.Sprintf("cluster%d", i+1)})
	}
	deployment := plan.Item{Ref: nginx, State: plan.Applied, Since: now.Add(-time.Hour).Unix()}
	fresh := plan.Item{Ref: nginx, State: plan.Applied, Since: now.Unix()}
	var paragraphs []string
	for _, tc := range []struct {
		name string
		in   input
	}{
		{"everything is healthy", input{objects: 1, sites: []site{reported("cluster1", well, applied)}}},
		{"there are no clusters", input{objects: 3}},
		{"on the way", input{objects: 1, sites: clusters}},
		{"a Namespace comes first", input{objects: 2, sites: []site{{name: "cluster1", known: true, outcome: outcome{Waiting: []plan.Wait{{Ref: settings, For: web}}}}}}},
		{"not accepted, too large, and missing", input{
			objects: 2, problems: []string{"configmaps web/other: is listed by the Binding, but does not exist in the WDS"},
			sites: []site{{name: "cluster1", notAccepted: true}, {name: "cluster2", known: true, outcome: outcome{TooLarge: []objref.Ref{settings}}}},
		}},
		{"another WDS delivers", input{objects: 1, sites: []site{{name: "cluster1", known: true, outcome: outcome{Claims: []string{"…"}}}}}},
		{"handed over", input{objects: 1, leaving: []string{"cluster1: configmaps web/settings is being handed over to Binding \"b\""}}},
		{"held", input{
			objects: 1, hold: &hold{objects: []string{"configmaps web/settings"}}, sites: []site{{name: "cluster1", known: true, outcome: outcome{HeldBack: 1}}},
		}},
		{"an invalid hold", input{hold: &hold{objects: []string{"configmaps web/a", "configmaps web/b"}, invalid: true}}},
		{"a hold of nothing", input{hold: &hold{}}},
		{"too many objects for a report", input{objects: 2201, sites: []site{reported("cluster1", well, slices.Repeat([]plan.Item{{Ref: settings, Size: 200}}, 2201)...)}}},
		{"not applied yet", input{objects: 1, sites: []site{reported("cluster1", well, gone)}}},
		{"refused", input{objects: 1, sites: []site{reported("cluster1", well, failure)}}},
		{"a Secret refused", input{objects: 1, sites: []site{reported("cluster1", well, failed(password, "hunter2", 0))}}},
		{"a directory", input{objects: 1, sites: []site{siteWith("cluster1", plan.Item{Ref: settings, State: plan.Silent})}}},
		{"becoming healthy", input{objects: 1, sites: []site{reported("cluster1", verdict(health.Progressing, "1 of 3 replicas are available"), deployment)}}},
		{"not reported yet", input{objects: 1, sites: []site{reported("cluster1", unreported, fresh)}}},
		{"unhealthy", input{objects: 1, sites: []site{
			reported("cluster1", verdict(health.Unhealthy, "ProgressDeadlineExceeded: timed out"), deployment),
			reported("cluster2", unreported, deployment),
		}}},
		{"deleted in the cluster", input{objects: 1, sites: []site{func() site {
			s := reported("cluster1", well, deployment)
			s.gone = true
			return s
		}()}}},
		{"no status add-on", input{objects: 1, sites: []site{func() site {
			s := reported("cluster1", unreported, deployment)
			s.reports = plugin.ReportsNone
			return s
		}()}}},
		{"more reports than are read", input{objects: 1, sites: []site{func() site {
			s := reported("cluster1", unreported, deployment)
			s.reports = plugin.ReportsPartial
			return s
		}()}}},
		{"being deleted", input{deleting: true, left: []string{"cluster1", "ITS its2 (not synced yet)"}}},
		{"a deletion that waits", input{
			deleting: true, left: []string{"cluster1"}, heldBack: []string{"cluster1"}, hold: &hold{objects: []string{"configmaps web/settings"}},
			leaving: []string{"cluster1: deployments.apps web/nginx stays until Binding \"b\" has delivered it"},
		}},
		{"deleted", input{deleting: true}},
	} {
		tc.in.now = now
		for i := range tc.in.sites {
			tc.in.sites[i].wants = func(objref.Ref) bool { return true }
		}
		v := evaluate(tc.in.situation())
		lines := []string{"# " + tc.name}
		conditions := []metav1.Condition{v.delivered, v.applied, v.healthy}
		if v.held != nil {
			conditions = append(conditions, *v.held)
		}
		for _, c := range conditions {
			lines = append(lines, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
		}
		for _, text := range v.errors {
			lines = append(lines, "  error: "+text)
		}
		for _, text := range v.problems {
			lines = append(lines, "  problem: "+text)
		}
		paragraphs = append(paragraphs, strings.Join(lines, "\n"))
	}
	golden.Compare(t, "texts", strings.Join(paragraphs, "\n\n")+"\n")
	if holdOf(&placement.Placement{}, nil) != nil {
		t.Error("nothing is held, and there is a text about it")
	}
}

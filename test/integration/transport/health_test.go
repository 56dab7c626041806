package transport

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/test/testenv"
)

// TestHealth: what agents report of objects shows in the counts, the problems and the condition
// Healthy of the Binding; nothing is concluded where nobody reports, and a restart writes nothing.
func TestHealth(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(2)
	crd := workStatuses.GroupResource().String()
	testenv.DeleteKind(t, e.its, crd)
	testenv.Eventually(t, patience, func() (bool, string) {
		_, err := e.its.Resource(workStatuses).List(t.Context(), metav1.ListOptions{})
		return err != nil, "WorkStatuses are still served"
	})
	c := e.start(roomy)
	e.create(services, e.name, "web", map[string]any{"spec": map[string]any{"ports": []any{map[string]any{"port": int64(80)}}}})
	e.bind(sites, e.configMap("one", "1"), entry{resource: services, namespace: e.name, name: "web"})
	expect := func(status metav1.ConditionStatus, reason, healthy string, problems ...string) {
		t.Helper()
		testenv.Eventually(t, patience, func() (bool, string) {
			b := e.binding()
			for _, c := range b.Status.Conditions {
				if c.Type == controlv1alpha1.BindingConditionHealthy && b.Status.Rollup != nil {
					return c.Status == status && c.Reason == reason && b.Status.Rollup.AppliedOf == "4/4" && b.Status.Rollup.HealthyOf == healthy &&
						slices.Equal(b.Status.Problems, problems), fmt.Sprintf("%s %s: %s, %+v, problems %q", c.Status, c.Reason, c.Message, b.Status.Rollup, b.Status.Problems)
				}
			}
			return false, "no condition Healthy"
		})
	}
	// ConfigMaps have no health; nobody reports of the Services.
	expect("Unknown", "NotReported", "2/4")

	e.fleet.Space(e.t, "its1").Install(e.t, testenv.APIs(e.t, "control.kubestellar.io_workstatuses")...)
	expect("False", "Progressing", "2/4")
	web := objref.Ref{Resource: "services", Namespace: e.name, Name: "web"}
	say := func(site, status string) {
		t.Helper()
		e.patch(workStatuses, site, corestatus.ReportName(web), `{"status":`+status+`}`, "status")
	}
	for _, site := range sites {
		e.create(workStatuses, site, corestatus.ReportName(web), map[string]any{
			"metadata": map[string]any{"labels": map[string]any{controlv1alpha1.LabelWDSUID: string(e.wdsUID())}},
			"spec":     map[string]any{"sourceRef": map[string]any{"group": "", "version": "v1", "resource": "services", "kind": "Service", "namespace": e.name, "name": "web"}},
		})
	}
	expect("True", "Healthy", "4/4")
	say(sites[1], `{"conditions":[{"type":"Ready","status":"False","reason":"NoPort","message":"taken"}]}`)
	expect("False", "Unhealthy", "3/4", sites[1]+": services "+e.name+"/web: NoPort: taken")

	c.stop()
	c = e.start(roomy)
	quiet(t, c)
	say(sites[1], `{"conditions":[{"type":"Ready","status":"True","reason":"Fine","message":""}]}`)
	expect("True", "Healthy", "4/4")

	// What was written by hand beside the agent's report says nothing.
	e.create(workStatuses, sites[0], "by-hand", map[string]any{
		"metadata": map[string]any{"labels": map[string]any{controlv1alpha1.LabelWDSUID: string(e.wdsUID())}},
		"spec":     map[string]any{"sourceRef": map[string]any{"group": "", "version": "v1", "resource": "services", "kind": "Service", "namespace": e.name, "name": "web"}},
	})
	e.patch(workStatuses, sites[0], "by-hand", `{"status":{"conditions":[{"type":"Ready","status":"False","reason":"Forged","message":""}]}}`, "status")
	e.delete(workStatuses, sites[1], corestatus.ReportName(web))
	// Progressing; or a problem already, if the object was applied long before the restart.
	missing := map[string][]string{
		"Progressing": nil, "Unhealthy": {sites[1] + ": services " + e.name + "/web: is applied, but the cluster does not report its status"},
	}
	testenv.Eventually(t, patience, func() (bool, string) {
		b := e.binding()
		healthy := meta.FindStatusCondition(b.Status.Conditions, controlv1alpha1.BindingConditionHealthy)
		problems, right := missing[healthy.Reason]
		return right && healthy.Status == metav1.ConditionFalse && b.Status.Rollup.AppliedOf == "4/4" && b.Status.Rollup.HealthyOf == "3/4" &&
			slices.Equal(b.Status.Problems, problems), fmt.Sprintf("%+v, %+v, problems %q", healthy, b.Status.Rollup, b.Status.Problems)
	})
}

// TestMailboxThatIsTooLarge: of a cluster whose mailbox has more than is read of one cluster, a
// missing report proves nothing, and what is read counts. Other clusters are not affected.
func TestMailboxThatIsTooLarge(t *testing.T) {
	e := newEnvironment(t)
	e.reportLimits.Reports = 3
	sites := e.clusters(2)
	nameOf := func(object string) string {
		return corestatus.ReportName(objref.Ref{Resource: "services", Namespace: e.name, Name: object})
	}
	report := func(site, object string) {
		t.Helper()
		e.create(workStatuses, site, nameOf(object), map[string]any{
			"metadata": map[string]any{"labels": map[string]any{controlv1alpha1.LabelWDSUID: string(e.wdsUID())}},
			"spec":     map[string]any{"sourceRef": map[string]any{"group": "", "version": "v1", "resource": "services", "kind": "Service", "namespace": e.name, "name": object}},
		})
	}
	for _, object := range []string{"a", "b", "c", "d"} {
		report(sites[0], object)
	}
	e.start(roomy)
	e.create(services, e.name, "web", map[string]any{"spec": map[string]any{"ports": []any{map[string]any{"port": int64(80)}}}})
	e.bind(sites, entry{resource: services, namespace: e.name, name: "web"})
	expect := func(status metav1.ConditionStatus, reason, message, healthy string) {
		t.Helper()
		testenv.Eventually(t, patience, func() (bool, string) {
			b := e.binding()
			c := meta.FindStatusCondition(b.Status.Conditions, controlv1alpha1.BindingConditionHealthy)
			if c == nil || b.Status.Rollup == nil {
				return false, "no condition Healthy"
			}
			return c.Status == status && c.Reason == reason && c.Message == message && b.Status.Rollup.HealthyOf == healthy,
				fmt.Sprintf("%s %s: %s, %s", c.Status, c.Reason, c.Message, b.Status.Rollup.HealthyOf)
		})
	}
	report(sites[1], "web")
	unknown := "clusters not reporting status: " + sites[0] + " (its mailbox has more WorkStatuses than are read)"
	expect("Unknown", "NotReported", unknown, "1/2")
	report(sites[0], "web") // is refused
	e.settled()
	expect("Unknown", "NotReported", unknown, "1/2")
	for _, object := range []string{"a", "b", "c", "d"} {
		e.delete(workStatuses, sites[0], nameOf(object))
	}
	e.patch(workStatuses, sites[0], nameOf("web"), `{"status":{"conditions":[{"type":"Ready","status":"True","reason":"Fine","message":""}]}}`, "status")
	expect("True", "Healthy", "1 object for 2 clusters", "2/2")
	// Whether there are others is unknown until the next list.
	e.delete(workStatuses, sites[0], nameOf("web"))
	expect("Unknown", "NotReported", unknown, "1/2")
}

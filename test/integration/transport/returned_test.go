package transport

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/test/testenv"
)

// TestReturnedStatusIsNotDelivered: the API server counts no generations of a Service, so only a
// read of it shows whether an edit or a returned status has changed it. That is the one request
// which a returned status costs. An edit is delivered, also together with a status.
func TestReturnedStatusIsNotDelivered(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(1)
	c := e.start(roomy)
	e.create(services, e.name, "web", map[string]any{"spec": map[string]any{"ports": []any{map[string]any{"port": int64(80)}}}})
	entries := []entry{{resource: services, namespace: e.name, name: "web", asks: true}}
	for i := range 5 {
		entries = append(entries, e.configMap(fmt.Sprint("c", i), "1"))
	}
	e.bind(sites, entries...)
	e.applied()
	// Without a report, that it is missing would be a problem half a minute later, and be written.
	e.create(workStatuses, sites[0], corestatus.ReportName(objref.Ref{Resource: "services", Namespace: e.name, Name: "web"}), map[string]any{
		"metadata": map[string]any{"labels": map[string]any{controlv1alpha1.LabelWDSUID: string(e.wdsUID())}},
		"spec":     map[string]any{"sourceRef": map[string]any{"group": "", "version": "v1", "resource": "services", "kind": "Service", "namespace": e.name, "name": "web"}},
	})
	e.patch(services, e.name, "web", fmt.Sprintf(`{"metadata":{"labels":{%q:"true"}}}`, controlv1alpha1.LabelMultiWECStatus))
	idle(t, c)

	returnStatus := func(message string) {
		t.Helper()
		e.patch(services, e.name, "web", fmt.Sprintf(
			`{"status":{"conditions":[{"type":"Ready","status":"True","reason":"Test","message":%q,"lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, message), "status")
	}
	expect := func(what string, want map[string]int) {
		t.Helper()
		testenv.Eventually(t, patience, func() (bool, string) {
			diff := cmp.Diff(want, c.made())
			return diff == "", what + ": requests (-want +got):\n" + diff
		})
		idle(t, c)
		if diff := cmp.Diff(want, c.made()); diff != "" {
			t.Errorf("%s: requests (-want +got):\n%s", what, diff)
		}
		c.reset()
	}
	before := e.binding().ResourceVersion
	c.reset()
	for i := range 3 {
		returnStatus(fmt.Sprint(i))
		expect("a returned status", map[string]int{"wds1 get services": 1})
	}
	if after := e.binding().ResourceVersion; after != before {
		t.Errorf("the Binding was written: %+v", e.binding().Status)
	}

	e.patch(services, e.name, "web", `{"spec":{"publishNotReadyAddresses":true}}`)
	testenv.Eventually(t, patience, func() (bool, string) {
		made := c.made()
		return made["its1 patch manifestworks"] == 1, fmt.Sprintf("requests %v, want a patch of the work", made)
	})
	e.applied()
	idle(t, c)
	if made := c.made(); made["wds1 get services"] != 1 {
		t.Errorf("an edit: requests %v, want one read", made)
	}
}

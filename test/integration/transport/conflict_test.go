package transport

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/transport/ocm"
	"github.com/starlinghq/starling/test/testenv"
)

// stake returns how a WDS has the ConfigMap "one" in a mailbox: "delivers 1", "claims 1" or
// "releases 1". What the work says of its claims must be so.
func (e *environment) stake(mailbox string) string {
	e.t.Helper()
	var stakes []string
	for _, work := range e.works(mailbox) {
		if work.DeletionTimestamp != nil || work.Labels[controlv1alpha1.LabelWDSUID] != string(e.wdsUID()) {
			continue
		}
		for _, line := range describe(e.t, &work) {
			_, content, _ := strings.Cut(line, ": ")
			how := "delivers"
			for _, c := range work.Spec.ManifestConfigs {
				switch {
				case c.ResourceIdentifier.Name != "one":
				case c.UpdateStrategy.Type == workv1.UpdateStrategyTypeReadOnly:
					how = "claims"
				case work.Spec.DeleteOption != nil && work.Spec.DeleteOption.SelectivelyOrphan != nil:
					how = "releases"
				}
			}
			if !strings.Contains(line, e.name+"/one") {
				continue
			}
			one := objref.New(configMaps.GroupResource(), e.name, "one")
			if says := corestatus.Claims(work.Annotations[controlv1alpha1.AnnotationClaims]).Has(corestatus.ReportName(one)); says != (how == "claims") {
				how += fmt.Sprintf(" (and says that it claims: %t)", says)
			}
			stakes = append(stakes, how+" "+content)
		}
	}
	return strings.Join(stakes, ", ")
}

func (e *environment) expectStake(mailbox, want string) {
	e.t.Helper()
	testenv.Eventually(e.t, patience, func() (bool, string) {
		got := e.stake(mailbox)
		return got == want, fmt.Sprintf("%s %q, want %q; status %+v", e.space, got, want, statusOf(e.binding()))
	})
}

// expectOlder waits until a work that is created now is younger than those in the mailbox: creation
// times are in whole seconds.
func (e *environment) expectOlder(mailbox string) {
	e.t.Helper()
	testenv.Eventually(e.t, patience, func() (bool, string) {
		for _, work := range e.works(mailbox) {
			if time.Now().Unix() == work.CreationTimestamp.Unix() {
				return false, "the second is not over"
			}
		}
		return true, ""
	})
}

// expectErrors waits until the Binding has exactly these errors.
func (e *environment) expectErrors(want ...string) {
	e.t.Helper()
	testenv.Eventually(e.t, patience, func() (bool, string) {
		b := e.binding()
		if b == nil {
			return false, "the Binding is gone"
		}
		return slices.Equal(b.Status.Errors, want), fmt.Sprintf("%s: %+v, want errors %q", e.space, b.Status, want)
	})
}

// TestConflict has two WDSes that deliver the same object with different content to one cluster.
// The first one delivers it, and both report the conflict. Then the first one releases it, in each
// possible way, and the other one delivers it without a deletion in between. The ways go side by
// side, each with clusters of its own: most of the time is spent waiting for statuses.
func TestConflict(t *testing.T) {
	type conflict struct {
		name          string
		leave         func(*environment, []string)
		first, second *environment
		sites         []string
	}
	conflicts := []*conflict{
		{name: "Unlisted", leave: func(e *environment, sites []string) { e.rebind(sites) }},
		{name: "DestinationLeft", leave: func(e *environment, _ []string) {
			e.rebind(nil, entry{resource: configMaps, namespace: e.name, name: "one"})
		}},
		{name: "BindingDeleted", leave: func(e *environment, _ []string) { e.delete(bindings, "", e.name) }},
	}
	for _, c := range conflicts {
		c.first = newEnvironment(t)
		c.second = c.first.neighbour()
		c.sites = c.first.clusters(2)
		t.Logf("%s: %s", c.name, c.first.name)
	}
	// each does a step for all ways before the next step is done for any.
	each := func(step func(c *conflict, object string)) {
		t.Helper()
		for _, c := range conflicts {
			step(c, "configmaps "+c.first.name+"/one")
		}
	}
	start := func() (a, b *running) { return conflicts[0].first.start(roomy), conflicts[0].second.start(roomy) }
	a, b := start()
	each(func(c *conflict, _ string) { c.first.bind(c.sites[:1], c.first.configMap("one", "1")) })
	each(func(c *conflict, _ string) { c.first.applied() })
	each(func(c *conflict, _ string) { c.second.bind(c.sites, c.second.configMap("one", "2")) })
	each(func(c *conflict, object string) {
		c.second.expectStake(c.sites[0], "claims 2")
		c.second.expectStake(c.sites[1], "delivers 2") // nobody else is there
		const way = "make the contents equal, or remove the object from one of the two"
		c.second.expectErrors(fmt.Sprintf(`%s: %s: WDS "wds1" (Binding %q) delivers this object, with different content; this Binding does not deliver it: %s`,
			c.sites[0], object, c.first.name, way))
		c.second.expectCondition(controlv1alpha1.BindingConditionDelivered, metav1.ConditionFalse, controlv1alpha1.ReasonConflict)
		c.first.expectErrors(fmt.Sprintf(`%s: %s: WDS "wds2" (Binding %q) wants to deliver this object too, with different content; this Binding delivers it: %s`,
			c.sites[0], object, c.first.name, way))
		c.first.applied()
		c.first.expectStake(c.sites[0], "delivers 1")
	})

	// A restart of both writes nothing.
	a.stop()
	b.stop()
	a, b = start()
	each(func(c *conflict, _ string) { c.first.edit("one", "3") }) // who has it may edit it
	each(func(c *conflict, _ string) {
		c.first.expectStake(c.sites[0], "delivers 3")
		c.second.edit("one", "4") // and who waits may as well
	})
	each(func(c *conflict, _ string) {
		c.second.expectStake(c.sites[0], "claims 4")
		if got := c.first.stake(c.sites[0]); got != "delivers 3" {
			t.Errorf("%s: the first one %s", c.name, got)
		}
	})

	// The cluster is offline: nobody can say that the object would stay.
	each(func(c *conflict, _ string) {
		c.first.agent.set(func(agent *agent) { agent.offline[c.sites[0]] = true })
	})
	a.reset()
	b.reset()
	each(func(c *conflict, _ string) { c.leave(c.first, c.sites[:1]) })
	each(func(c *conflict, object string) {
		c.first.expectStake(c.sites[0], "releases 3")
		if c.name == "BindingDeleted" {
			c.first.expectDeleting(c.sites[0] + "; " + c.sites[0] + ": " + object + ` is being handed over to WDS "wds2" (Binding "` + c.first.name + `")`)
		}
		if got := c.second.stake(c.sites[0]); got != "claims 4" {
			t.Errorf("%s: the second one %s before the first one has released the object", c.name, got)
		}
		c.first.agent.set(func(agent *agent) { agent.offline[c.sites[0]] = false })
	})
	each(func(c *conflict, _ string) {
		c.first.expectStake(c.sites[0], "")
		c.second.expectStake(c.sites[0], "delivers 4")
		c.second.expectErrors()
		c.second.applied()
		if c.name == "BindingDeleted" {
			testenv.Eventually(t, patience, func() (bool, string) { return c.first.binding() == nil, "the Binding is there" })
		} else {
			c.first.expectErrors()
			c.first.applied()
		}
		if got := b.madeIn(c.sites...)["its1 patch manifestworks"]; got != 1 {
			t.Errorf("%s: the second one made %d writes, want 1", c.name, got)
		}
		if got := a.madeIn(c.sites...); got["its1 patch manifestworks"] != 1 || got["its1 delete manifestworks"] != 1 {
			t.Errorf("%s: the first one made %v, want a patch and a deletion", c.name, got)
		}
	})
}

// TestConflictEndsWithEqualBytes edits one side to what the other side wants.
func TestConflictEndsWithEqualBytes(t *testing.T) {
	first := newEnvironment(t)
	second := first.neighbour()
	sites := first.clusters(1)
	first.start(roomy)
	second.start(roomy)
	one := first.configMap("one", "1")
	first.bind(sites, one)
	first.applied()
	first.expectOlder(sites[0])
	second.configMap("one", "2")
	second.bind(sites, one)
	second.expectStake(sites[0], "claims 2")

	first.edit("one", "2")
	for _, e := range []*environment{first, second} {
		e.expectStake(sites[0], "delivers 2")
		e.expectErrors()
		e.applied()
	}
	first.edit("one", "3") // the first one is still the earlier
	second.expectStake(sites[0], "claims 2")
	first.expectStake(sites[0], "delivers 3")
	second.edit("one", "3")
	for _, e := range []*environment{first, second} {
		e.expectStake(sites[0], "delivers 3")
		e.expectErrors()
		e.applied()
	}
	// One of two that deliver the same leaves the other one alone.
	first.delete(bindings, "", first.name)
	testenv.Eventually(t, patience, func() (bool, string) { return first.binding() == nil, "the Binding is there" })
	second.applied()
	second.expectStake(sites[0], "delivers 3")
}

// TestSimultaneousDelivery has two controllers deliver before either has seen the other's work: the
// work that is older stays.
func TestSimultaneousDelivery(t *testing.T) {
	first := newEnvironment(t)
	second := first.neighbour()
	sites := first.clusters(1)
	one := first.configMap("one", "1")
	second.configMap("one", "2")
	first.bind(sites, one)
	second.bind(sites, one)
	// Neither runs while the other one delivers; then both do.
	a := first.start(roomy)
	first.expectStake(sites[0], "delivers 1")
	a.stop()
	works := first.works(sites[0])
	labels := works[0].Labels
	hide := func(value any) { // a work without its label is nobody's
		raw, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{controlv1alpha1.LabelWDSUID: value}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := first.its.Resource(ocm.ManifestWorks).Namespace(sites[0]).Patch(t.Context(), works[0].Name, types.MergePatchType, raw, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	hide(nil)
	b := second.start(roomy)
	second.expectStake(sites[0], "delivers 2")
	b.stop()
	hide(labels[controlv1alpha1.LabelWDSUID])

	winner, loser := "delivers 1", "claims 2"
	all := first.works(sites[0])
	slices.SortFunc(all, func(a, b workv1.ManifestWork) int {
		if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
			return c
		}
		return strings.Compare(string(a.UID), string(b.UID))
	})
	early, late := first, second
	if all[0].Labels[controlv1alpha1.LabelWDSUID] == string(second.wdsUID()) {
		early, late, winner, loser = second, first, "delivers 2", "claims 1"
	}
	early.start(roomy)
	testenv.Eventually(t, patience, func() (bool, string) {
		errs := early.binding().Status.Errors
		return len(errs) == 1 && strings.Contains(errs[0], "this Binding delivers it"), fmt.Sprint(errs)
	})
	late.start(roomy)
	late.expectStake(sites[0], loser)
	early.expectStake(sites[0], winner)
	early.applied()
	late.expectCondition(controlv1alpha1.BindingConditionDelivered, metav1.ConditionFalse, controlv1alpha1.ReasonConflict)
	// The loser's last content may be in the cluster: the winner makes the agent apply its work
	// again.
	testenv.Eventually(t, patience, func() (bool, string) {
		for _, work := range early.works(sites[0]) {
			if work.Labels[controlv1alpha1.LabelWDSUID] == string(early.wdsUID()) && work.Labels[controlv1alpha1.LabelNudge] != "" {
				return true, ""
			}
		}
		return false, "the winner's work was not nudged"
	})
}

// TestANameThatIsTaken changes and removes by hand the labels that tell whose a work is.
func TestANameThatIsTaken(t *testing.T) {
	for name, tc := range map[string]struct{ label, value string }{
		"Changed":        {controlv1alpha1.LabelWDSUID, `"another"`},
		"Removed":        {controlv1alpha1.LabelWDSUID, `null`},
		"AnotherBinding": {controlv1alpha1.LabelBindingUID, `"another"`},
		"NoBinding":      {controlv1alpha1.LabelBindingUID, `null`},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnvironment(t)
			sites := e.clusters(1)
			e.start(roomy)
			e.bind(sites, e.configMap("one", "1"))
			e.applied()
			work := e.works(sites[0])[0]
			label := func(value string) {
				e.patch(ocm.ManifestWorks, sites[0], work.Name, `{"metadata":{"labels":{"`+tc.label+`":`+value+`}}}`)
			}
			label(tc.value)
			e.expectErrors(sites[0] + ": work " + work.Name +
				" cannot be created: a work of that name exists, but its label starling.io/wds-uid or starling.io/binding-uid was changed. Restore the label, or delete the work")
			label(`"` + work.Labels[tc.label] + `"`)
			e.expectErrors()
			e.applied()
			if got := e.works(sites[0]); len(got) != 1 || got[0].UID != work.UID {
				t.Errorf("works %v, want the same", got)
			}
		})
	}
}

// TestAnObjectPassesToAnotherBinding deletes a Binding before the cluster has seen that another one
// delivers an object of it: it would delete the object, and make another.
func TestAnObjectPassesToAnotherBinding(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(1)
	e.start(roomy)
	one, two := e.configMap("one", "1"), e.configMap("two", "1")
	e.bind(sites, one, two)
	e.applied()
	mine := e.works(sites[0])[0].UID
	e.agent.set(func(a *agent) { a.offline[sites[0]] = true })
	other := e.name + "-other"
	e.create(bindings, "", other, map[string]any{"spec": spec(sites, one)})
	testenv.Eventually(t, patience, func() (bool, string) { return len(e.works(sites[0])) == 2, "the other delivers nothing" })
	e.delete(bindings, "", e.name)
	testenv.Eventually(t, patience, func() (bool, string) {
		var held int
		for _, work := range e.works(sites[0]) {
			if work.UID == mine && work.DeletionTimestamp == nil {
				held = len(work.Spec.Workload.Manifests)
			}
		}
		status := fmt.Sprintf("%+v", statusOf(e.binding()))
		return held == 1 && strings.Contains(status, fmt.Sprintf("stays until Binding %q has delivered it", other)), fmt.Sprintf("%d objects are held; %s", held, status)
	})
	e.agent.set(func(a *agent) { delete(a.offline, sites[0]) })
	testenv.Eventually(t, patience, func() (bool, string) {
		works := e.works(sites[0])
		return e.binding() == nil && len(works) == 1 && works[0].UID != mine, fmt.Sprintf("%d works", len(works))
	})
}

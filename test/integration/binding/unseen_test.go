package binding

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/starlinghq/starling/test/testenv"
)

// TestChangesAreSeenInAnyOrder: what makes one policy lose an object is seen before what makes
// another one gain it, which happened earlier. The object stays listed.
func TestChangesAreSeenInAnyOrder(t *testing.T) {
	const clause = `"downsync":[{"resources":["configmaps"],"namespaceSelectors":[%s],"objectSelectors":[%s]}]`
	spec := func(cluster, namespace, object string) string {
		return fmt.Sprintf(`{"clusterSelectors":[%s],`+clause+`}`, cluster, namespace, object)
	}
	for name, tc := range map[string]struct {
		late    string // the resource whose watch is late
		a, b    string // the specs of two policies; no b: the test creates it, or there is none
		gains   func(e *environment)
		loses   func(e *environment, a string)
		to      string
		reports bool // the policy says so after a while
	}{
		"LabelOfTheObject": {
			late: "/configmaps",
			a:    spec(`{"matchLabels":{"of":"$NAME"}}`, "{}", `{"matchLabels":{"to":"a"}}`),
			b:    spec(`{"matchLabels":{"of":"$NAME"}}`, "{}", `{"matchLabels":{"to":"b"}}`),
			gains: func(e *environment) {
				e.patch(configMaps, e.name, "settings", `{"metadata":{"labels":{"to":"b"}}}`)
			},
			loses:   (*environment).delete,
			to:      "b",
			reports: true,
		},
		"LabelOfTheNamespace": {
			late: "/namespaces",
			a:    spec(`{"matchLabels":{"of":"$NAME"}}`, `{"matchLabels":{"of":"$NAME","to":"a"}}`, "{}"),
			b:    spec(`{"matchLabels":{"of":"$NAME"}}`, `{"matchLabels":{"of":"$NAME","to":"b"}}`, "{}"),
			gains: func(e *environment) {
				e.patch(namespaces, "", e.name, `{"metadata":{"labels":{"to":"b"}}}`)
			},
			loses: (*environment).delete,
			to:    "b",
		},
		"LabelOfTheCluster": {
			late: "/managedclusters",
			a:    spec(`{"matchLabels":{"of":"$NAME","to":"a"}}`, `{"matchLabels":{"of":"$NAME"}}`, "{}"),
			b:    spec(`{"matchLabels":{"of":"$NAME","to":"b"}}`, `{"matchLabels":{"of":"$NAME"}}`, "{}"),
			gains: func(e *environment) {
				e.patch(managed, "", e.name+"-edge", `{"metadata":{"labels":{"to":"b"}}}`)
			},
			loses: (*environment).delete,
			to:    "b",
		},
		"NewPolicy": {
			late: "/bindingpolicies",
			a:    spec(`{"matchLabels":{"of":"$NAME"}}`, "{}", `{"matchLabels":{"to":"a"}}`),
			gains: func(e *environment) {
				e.policy("b", strings.ReplaceAll(spec(`{"matchLabels":{"of":"$NAME"}}`, "{}", `{"matchLabels":{"to":"b"}}`), "$NAME", e.name))
			},
			loses: func(e *environment, _ string) {
				e.patch(configMaps, e.name, "settings", `{"metadata":{"labels":{"to":"b"}}}`)
			},
			to: "b",
		},
		"SelectorOfThePolicy": {
			late: "/bindingpolicies",
			a:    spec(`{"matchLabels":{"of":"$NAME","to":"a"}}`, `{"matchLabels":{"of":"$NAME"}}`, "{}"),
			gains: func(e *environment) {
				e.patch(policies, "", e.name+"-a", fmt.Sprintf(`{"spec":{"clusterSelectors":[{"matchLabels":{"of":%q}}]}}`, e.name))
			},
			loses: func(e *environment, _ string) {
				e.patch(managed, "", e.name+"-edge", `{"metadata":{"labels":{"to":"b"}}}`)
			},
			to: "a",
		},
		"LabelOfTheClusterForOnePolicy": {
			late: "/managedclusters",
			a:    spec(`{"matchLabels":{"of":"$NAME","to":"a"}}`, `{"matchLabels":{"of":"$NAME"}}`, "{}"),
			gains: func(e *environment) {
				e.patch(managed, "", e.name+"-edge", `{"metadata":{"labels":{"to":"b"}}}`)
			},
			loses: func(e *environment, a string) {
				e.patch(policies, "", a, fmt.Sprintf(`{"spec":{"clusterSelectors":[{"matchLabels":{"of":%q,"to":"b"}}]}}`, e.name))
			},
			to: "a",
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnvironment(t)
			var late sync.RWMutex
			e.connect = func(space string) *rest.Config { return testenv.LateWatches(e.identity(space), tc.late, &late) }
			edge := e.name + "-edge"
			e.cluster(edge, map[string]string{"of": e.name, "to": "a"})
			e.patch(namespaces, "", e.name, fmt.Sprintf(`{"metadata":{"labels":{"of":%q,"to":"a"}}}`, e.name))
			e.create(configMaps, object(e.name, "settings", map[string]string{"to": "a"}))
			e.start()
			a := e.policy("a", strings.ReplaceAll(tc.a, "$NAME", e.name))
			if tc.b != "" {
				b := e.policy("b", strings.ReplaceAll(tc.b, "$NAME", e.name))
				testenv.Eventually(t, patience, func() (bool, string) { return e.getBinding(b) != nil, "Binding " + b })
			}
			e.eventuallyBound(a, "configmaps settings", "-> "+edge)
			l := e.listings("settings", edge)

			late.Lock()
			show := sync.OnceFunc(late.Unlock)
			defer show() // also if the test fails, or the controller would not stop
			tc.gains(e)
			tc.loses(e, a)
			testenv.Never(t, testenv.Held, func() string {
				if got := strings.Join(entries(e.getBinding(a)), ", "); got != "configmaps settings, -> "+edge {
					return "its Binding lists " + got
				}
				return ""
			})
			if tc.reports {
				want := "a change was not observed yet, objects that it could concern stay in the clusters: configmaps " + e.name + "/settings"
				if got := e.eventuallyCondition(a, "Synced", "False Deleting"); got != want {
					t.Errorf("message %q, want %q", got, want)
				}
			}
			show()
			l.passes(t, e.name+"-"+tc.to)
		})
	}
}

// TestDeletionWaitsForAKindThatIsNotServed: while a kind is not served, it cannot be read whether
// its objects were given to another policy. So they stay when their policy is deleted, until no
// other policy could select them.
func TestDeletionWaitsForAKindThatIsNotServed(t *testing.T) {
	e := newEnvironment(t)
	edge := e.name + "-edge"
	e.cluster(edge, map[string]string{"of": e.name})
	e.defineWidgets()
	e.create(widgets, object(e.name, "w", map[string]string{"to": "a"}))
	e.start()
	policy := func(name string) string {
		return e.policy(name, fmt.Sprintf(
			`{"clusterSelectors":[{"matchLabels":{"of":%q}}],"downsync":[{"resources":["widgets"],"objectSelectors":[{"matchLabels":{"to":%q}}]}]}`, e.name, name))
	}
	a, b := policy("a"), policy("b")
	e.eventuallyBound(a, "widgets w", "-> "+edge)
	e.serveWidgets(false)
	e.eventuallyCondition(a, synced, "Unknown NotObserved")
	e.delete(a)
	want := "a change was not observed yet, objects that it could concern stay in the clusters: widgets.binding.example.com, which is not served"
	if got := e.eventuallyCondition(a, synced, "False Deleting"); got != want {
		t.Errorf("message %q, want %q", got, want)
	}
	if got := strings.Join(entries(e.getBinding(a)), ", "); got != "widgets w, -> "+edge {
		t.Errorf("its Binding lists %s", got)
	}
	e.delete(b)
	testenv.Eventually(t, patience, func() (bool, string) { return e.getBinding(a) == nil, "the Binding is still there" })
}

package dynamicinformer

import (
	"context"
	"errors"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// answers is a discovery client whose responses the test sets.
type answers struct {
	discovery.AggregatedDiscoveryInterface
	groups *metav1.APIGroupList
	lists  map[schema.GroupVersion]*metav1.APIResourceList
	failed map[schema.GroupVersion]error
	err    error
}

func (a *answers) GroupsAndMaybeResources() (
	*metav1.APIGroupList, map[schema.GroupVersion]*metav1.APIResourceList, map[schema.GroupVersion]error, error,
) {
	if a.err != nil {
		return nil, nil, nil, a.err
	}
	return a.groups, a.lists, a.failed, nil
}

// serve makes the response list deployments, and things of an aggregated API if it has them.
func (a *answers) serve(things bool) {
	*a = answers{
		groups: &metav1.APIGroupList{Groups: []metav1.APIGroup{group("apps", "v1")}},
		lists: map[schema.GroupVersion]*metav1.APIResourceList{
			{Group: "apps", Version: "v1"}: {APIResources: []metav1.APIResource{watched("deployments", "Deployment")}},
		},
	}
	if things {
		a.groups.Groups = append(a.groups.Groups, group("aggregated.io", "v1"))
		a.lists[schema.GroupVersion{Group: "aggregated.io", Version: "v1"}] = &metav1.APIResourceList{
			APIResources: []metav1.APIResource{watched("things", "Thing")},
		}
	}
}

var (
	things  = schema.GroupResource{Group: "aggregated.io", Resource: "things"}
	widgets = schema.GroupResource{Group: "example.com", Resource: "widgets"}
)

type clockedDiscovery struct {
	*Discovery
	server *answers
	time   time.Time
}

func newClockedDiscovery() *clockedDiscovery {
	c := &clockedDiscovery{server: &answers{}, time: time.Unix(1, 0)}
	c.Discovery = NewDiscovery(c.server, nil, nil)
	c.now = func() time.Time { return c.time }
	return c
}

// after lets the time pass and discovers.
func (c *clockedDiscovery) after(d time.Duration) {
	c.time = c.time.Add(d)
	c.discover(context.Background())
}

// expect checks whether a resource is in the result, and whether it is gone.
func (c *clockedDiscovery) expect(t *testing.T, when string, gr schema.GroupResource, wantListed, wantGone bool) {
	t.Helper()
	_, listed := c.Resources()[gr]
	if gone := c.Gone(gr); listed != wantListed || gone != wantGone {
		t.Errorf("%s: %s is listed: %t, gone: %t", when, gr, listed, gone)
	}
}

// TestReplacedAPIServiceKeepsItsResources: a resource is dropped only if a second response, some
// time later, lacks it too.
func TestReplacedAPIServiceKeepsItsResources(t *testing.T) {
	c := newClockedDiscovery()
	c.server.serve(true)
	c.after(0)
	c.expect(t, "at first", things, true, false)
	c.server.serve(false)
	c.after(time.Second)
	c.expect(t, "missing", things, true, false)
	c.server.serve(true)
	c.after(time.Second)
	c.expect(t, "back", things, true, false)
	c.server.serve(false)
	c.after(time.Second)
	c.after(dropAfter - time.Second)
	c.expect(t, "missing again, not for long", things, true, false)
	if !c.looksAgain() {
		t.Error("no second look at what is missing")
	}
	c.server.err = errors.New("no answer")
	c.after(time.Second)
	c.expect(t, "no answer", things, true, false)
	c.server.serve(false)
	c.after(0)
	c.expect(t, "missing for long", things, false, true)
	if c.looksAgain() {
		t.Error("a third look")
	}
}

// TestFirstLookIsNotKnowledge: a controller that starts while an API is being replaced concludes
// nothing from the first response.
func TestFirstLookIsNotKnowledge(t *testing.T) {
	c := newClockedDiscovery()
	c.expect(t, "before the first response", things, false, false)
	c.server.serve(false)
	c.after(0)
	c.expect(t, "after the first response", things, false, false)
	if serves, known := c.Serves(&things.Group, things.Resource); serves || !known {
		t.Error("a mistyped resource would not be reported at once")
	}
	c.after(dropAfter)
	c.expect(t, "after the second response", things, false, true)
}

// TestFailedDiscoveryIsNotKnowledge: a response that is none changes nothing, also not which groups
// could not be read before.
func TestFailedDiscoveryIsNotKnowledge(t *testing.T) {
	c := newClockedDiscovery()
	c.server.serve(false)
	c.server.failed = map[schema.GroupVersion]error{{Group: "aggregated.io", Version: "v1"}: errors.New("stale")}
	c.after(0)
	c.after(dropAfter)
	c.expect(t, "the group fails", things, false, false)
	c.server.err = errors.New("no answer")
	c.after(time.Second)
	c.expect(t, "nothing answers", things, false, false)
	c.expect(t, "nothing answers", schema.GroupResource{Group: "other.io", Resource: "others"}, false, false)
	*c.server = answers{groups: &metav1.APIGroupList{}}
	c.after(time.Second)
	c.expect(t, "no group is listed", things, false, false)
	if c.Discovery.Err() == nil {
		t.Error("an empty response is no error")
	}
}

// TestAPIServicesAreReadFirst: until it is known which groups are registered, a missing one may be
// one whose server is not reached yet.
func TestAPIServicesAreReadFirst(t *testing.T) {
	c := newClockedDiscovery()
	synced := false
	c.registered = func() ([]string, bool) { return nil, synced }
	c.server.serve(false)
	c.server.groups.Groups = append(c.server.groups.Groups, group("apiregistration.k8s.io", "v1"))
	c.after(0)
	c.after(dropAfter)
	c.expect(t, "not read", things, false, false)
	synced = true
	c.after(0)
	c.after(dropAfter)
	c.expect(t, "read", things, false, true)
}

// TestUnservedCRDKeepsItsResource: the objects of a resource that is not served still exist.
func TestUnservedCRDKeepsItsResource(t *testing.T) {
	crd := func(served bool) *unstructured.Unstructured {
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: widgets.String()},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: widgets.Group, Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: widgets.Resource, Kind: "Widget"},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: served, Storage: true}},
			},
			Status: apiextensionsv1.CustomResourceDefinitionStatus{
				Conditions: []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		return &unstructured.Unstructured{Object: object}
	}
	c := newClockedDiscovery()
	c.server.serve(false)
	c.setCRD(crd(true))
	c.after(0)
	c.after(dropAfter)
	c.expect(t, "served", widgets, true, false)
	notifications := 0
	c.OnNotServed(func() { notifications++ })
	c.setCRD(crd(false))
	c.after(dropAfter)
	c.expect(t, "not served", widgets, true, false)
	if got := c.NotServed(widgets); got != NoServedVersion || notifications != 1 {
		t.Errorf("not served: %v, %d notifications, want NoServedVersion and one", got, notifications)
	}
	if serves, known := c.Serves(&widgets.Group, widgets.Resource); serves || known {
		t.Error("it is known to be served, or not to be")
	}
	c.setCRD(crd(true))
	c.expect(t, "served again", widgets, true, false)
	if got := c.NotServed(widgets); got != Served || notifications != 2 {
		t.Errorf("served again: %v, %d notifications, want Served and two", got, notifications)
	}
	c.forgetCRD(crd(true))
	c.expect(t, "deleted", widgets, false, true)

	c = newClockedDiscovery()
	c.server.serve(false)
	c.setCRD(crd(false))
	c.after(0)
	c.after(dropAfter)
	c.expect(t, "not served at the start", widgets, false, false)
	if got := c.NotServed(widgets); got != NoServedVersion {
		t.Errorf("not served at the start: %v", got)
	}
	c.forgetCRD(crd(false))
	c.expect(t, "deleted then", widgets, false, true)
	if got := c.NotServed(widgets); got != Served {
		t.Errorf("deleted then: %v", got)
	}
}

// TestServerThatDoesNotRespond: the resources of its API group are not served for now. Those of
// other groups are.
func TestServerThatDoesNotRespond(t *testing.T) {
	aggregated := schema.GroupVersion{Group: things.Group, Version: "v1"}
	c := newClockedDiscovery()
	notifications := 0
	c.OnNotServed(func() { notifications++ })
	c.server.serve(true)
	c.after(0)
	if got := c.NotServed(things); got != Served || notifications != 0 {
		t.Errorf("it responds: %v, %d notifications", got, notifications)
	}
	c.server.serve(false)
	c.server.failed = map[schema.GroupVersion]error{aggregated: errors.New("no answer")}
	c.after(0)
	c.after(dropAfter)
	if got := c.NotServed(things); got != NoResponse || notifications != 1 {
		t.Errorf("it does not respond: %v, %d notifications, want NoResponse and one", got, notifications)
	}
	if got := c.NotServed(schema.GroupResource{Group: things.Group, Resource: "unknown"}); got != NoResponse {
		t.Errorf("a resource of which nothing is known: %v, want NoResponse", got)
	}
	if got := c.NotServed(schema.GroupResource{Group: "apps", Resource: "deployments"}); got != Served {
		t.Errorf("another group: %v", got)
	}
	c.server.serve(true)
	c.server.failed = map[schema.GroupVersion]error{{Group: things.Group, Version: "v2"}: errors.New("no answer")}
	c.after(0)
	if got := c.NotServed(things); got != Served {
		t.Errorf("another version does not respond: %v", got)
	}
}

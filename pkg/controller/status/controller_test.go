package status

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/utils/clock"

	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/dynamicinformer"
	"github.com/starlinghq/starling/pkg/statusreports"
	"github.com/starlinghq/starling/pkg/writer"
)

// nothing is a WDS without objects, policies and reports, to which nothing can be written.
type nothing struct{ errors map[objref.Ref]string }

func (nothing) Requests(objref.Ref) match.Requests   { return match.Requests{Known: true} }
func (nothing) Get(objref.Ref) (metav1.Object, bool) { return nil, false }
func (nothing) Resource(schema.GroupResource) (dynamicinformer.Resource, bool) {
	return dynamicinformer.Resource{}, false
}
func (nothing) Synced(schema.GroupResource) bool             { return false }
func (n nothing) SetStatusError(ref objref.Ref, text string) { n.errors[ref] = text }

func (nothing) Patch(context.Context, writer.Target, types.PatchType, []byte, string) (*metav1.PartialObjectMetadata, error) {
	panic("nothing is to be written")
}

// noVersions learns nothing.
type noVersions struct{}

func (noVersions) StatusWriting(objref.Ref, string) {}
func (noVersions) StatusWritten(objref.Ref, string) {}

type noReports struct{}

func (noReports) Get(objref.Ref, types.UID, string) (*statusreports.Report, bool) { return nil, true }

func newController(t *testing.T) (*Controller, nothing) {
	t.Helper()
	n := nothing{errors: map[objref.Ref]string{}}
	c, err := New(Config{
		Reports: noReports{}, Requests: n, Objects: n, Client: dynamicfake.NewSimpleDynamicClient(runtime.NewScheme()), Writer: n, Versions: noVersions{}, StatusErrors: n,
		Clock: clock.RealClock{},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.queue.ShutDown)
	return c, n
}

// TestStatusErrorsOfKindThatIsNoLongerServed: when the WDS no longer serves a kind, the errors of
// its objects are withdrawn.
func TestStatusErrorsOfKindThatIsNoLongerServed(t *testing.T) {
	c, n := newController(t)
	things := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}
	ref, other := objref.New(things.GroupResource(), "web", "one"), objref.New(schema.GroupResource{Resource: "services"}, "web", "one")
	for _, of := range []objref.Ref{ref, other} {
		c.setStatusError(t.Context(), of, "no right")
	}
	c.OnStopped(dynamicinformer.Resource{GroupVersionResource: things})
	for c.queue.Len() > 0 {
		of, _ := c.queue.Get()
		if _, err := c.sync(t.Context(), of); err != nil {
			t.Error(err)
		}
		c.queue.Done(of)
	}
	if diff := cmp.Diff(map[objref.Ref]string{ref: "", other: "no right"}, n.errors); diff != "" {
		t.Errorf("errors reported (-want +got):\n%s", diff)
	}
}

// TestOwnWritesAreNotEnqueued: only a change by somebody else puts an object into the queue.
func TestOwnWritesAreNotEnqueued(t *testing.T) {
	c, _ := newController(t)
	services := dynamicinformer.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "services"}}
	version := func(rv string, labels map[string]string) metav1.Object {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "s", UID: "u", ResourceVersion: rv, Labels: labels}}
	}
	ours := map[string]string{"kubestellar.io/executing-count": "1"}
	c.held[objref.New(services.GroupResource(), "web", "s")] = held{View: corestatus.View{Labels: ours}, uid: "u", resourceVersion: "7"}
	for name, tc := range map[string]struct {
		before, after metav1.Object
		want          int
	}{
		"Own":         {version("6", nil), version("7", ours), 0},
		"Others":      {version("7", ours), version("8", ours), 1},
		"LabelsTaken": {version("7", ours), version("8", nil), 1},
		"Gone":        {version("7", ours), nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c.OnChange(services, tc.before, tc.after)
			if got := c.queue.Len(); got != tc.want {
				t.Errorf("%d in the queue, want %d", got, tc.want)
			}
			for c.queue.Len() > 0 {
				ref, _ := c.queue.Get()
				c.queue.Done(ref)
			}
		})
	}
}

// TestReportOnWhatIsNotDelivered: a report on an object that no policy delivers to the cluster is
// not asked for, and leaves nothing behind.
func TestReportOnWhatIsNotDelivered(t *testing.T) {
	c, _ := newController(t) // whose writer panics
	for _, name := range []string{"a", "b", "c"} {
		c.OnReport(statusreports.Key{Ref: objref.New(schema.GroupResource{Resource: "services"}, "web", name), Cluster: "c1"})
	}
	for c.queue.Len() > 0 {
		of, _ := c.queue.Get()
		if _, err := c.sync(t.Context(), of); err != nil {
			t.Error(err)
		}
		c.queue.Done(of)
	}
	if kept := len(c.since) + len(c.held) + len(c.waiting) + len(c.due) + len(c.contests); kept > 0 {
		t.Errorf("%d entries are kept", kept)
	}
	decision := corestatus.Decide(schema.GroupResource{Resource: "services"}, corestatus.Evidence{
		Requests: match.Requests{Known: true, Singleton: true, SingletonClusters: []string{"c1"}},
		Report: func(cluster string) (*corestatus.Report, bool) {
			if cluster != "c1" {
				t.Errorf("the report of %s is asked for", cluster)
			}
			return &corestatus.Report{Status: map[string]any{"a": int64(1)}}, true
		},
	})
	if decision.Action != corestatus.Copy {
		t.Errorf("decision %+v", decision)
	}
}

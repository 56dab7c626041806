package transport

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"github.com/starlinghq/starling/pkg/core/health"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
)

// crowded returns a space with Bindings that all list the same object, at edge or elsewhere.
func crowded(t *testing.T) *space {
	t.Helper()
	c := newWDS(t).controller(t)
	s := c.spaces[0]
	at := func(mailboxes ...string) map[string]struct{} {
		destinations := map[string]struct{}{}
		for _, mailbox := range mailboxes {
			destinations[mailbox] = struct{}{}
		}
		return destinations
	}
	for name, p := range map[string]*placement{
		"ours":      {source: "package ours", destinations: at("edge")},
		"same":      {source: "package ours", destinations: at("edge")},
		"rival":     {source: "package theirs", destinations: at("edge", "far")},
		"policy":    {destinations: at("edge")},
		"elsewhere": {source: "package theirs", destinations: at("far")},
		"left":      {source: "package theirs", destinations: at("far")},
		"deleting":  {source: "package theirs", deleting: true},
		"gone":      {source: "package theirs", deleting: true},
	} {
		p.name, p.uid = name, types.UID(name)
		c.placements[name] = p
		c.sources.set(p.uid, p.source)
	}
	for _, name := range []string{"left", "deleting"} {
		s.store.setWork(nil, &plan.Work{Mailbox: "edge", Name: name, Binding: name, BindingUID: types.UID(name), Items: []plan.Item{{Ref: settings}}})
	}
	names := map[string]bool{"unknown": false} // not gathered yet: it looks everywhere when it is
	for name := range c.placements {
		names[name] = false
	}
	c.listed = map[objref.Ref]map[string]bool{settings: names, web: {"ours": false}}
	return s
}

// drain returns what is in a queue, sorted.
func drain[T comparable](queue workqueue.TypedInterface[T], text func(T) string) []string {
	var got []string
	for queue.Len() > 0 {
		key, _ := queue.Get()
		got = append(got, text(key))
		queue.Done(key)
	}
	slices.Sort(got)
	return got
}

// TestOnRivals: what a Binding delivers to a cluster concerns those of other sources that deliver the same there, and none elsewhere: a
// thousand clusters with a package of their own each, all with the same objects, have nothing to do with one another.
func TestOnRivals(t *testing.T) {
	s := crowded(t)
	s.onRivals(nil, &plan.Work{Mailbox: "edge", Name: "w", Binding: "ours", BindingUID: "ours", Items: []plan.Item{{Ref: settings}, {Ref: web}}})
	got := drain(s.queue, func(k Key) string { return k.Binding + " at " + k.Mailbox })
	if diff := cmp.Diff([]string{"deleting at edge", "left at edge", "policy at edge", "rival at edge"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestOnReport: so it is with what a cluster reports of an object.
func TestOnReport(t *testing.T) {
	s := crowded(t)
	s.OnReport("edge", settings, &health.Verdict{})
	got := drain(s.status, func(name string) string { return name })
	if diff := cmp.Diff([]string{"deleting", "left", "ours", "policy", "rival", "same"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

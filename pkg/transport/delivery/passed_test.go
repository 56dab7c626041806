package delivery

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/pkg/core/inventory"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/transport/placement"
	"github.com/starlinghq/starling/pkg/transport/plugin"
)

// TestHeir: a name has passed only if that is known, which it is not before all ITSes have reported
// their clusters.
func TestHeir(t *testing.T) {
	accepted := func(second int64) *plugin.Destination {
		return &plugin.Destination{Accepted: true, Candidate: inventory.Candidate{Since: time.Unix(second, 0)}}
	}
	denied := &plugin.Destination{}
	for name, tc := range map[string]struct {
		clusters [3]*plugin.Destination
		unsynced int // 0 is none
		want     string
	}{
		"Nobody's":             {want: ""},
		"Ours":                 {clusters: [3]*plugin.Destination{accepted(1)}, want: ""},
		"OursIsEarlier":        {clusters: [3]*plugin.Destination{accepted(1), accepted(2)}, want: ""},
		"TheOthersIsEarlier":   {clusters: [3]*plugin.Destination{accepted(2), accepted(1)}, want: "1"},
		"OursIsDenied":         {clusters: [3]*plugin.Destination{denied, accepted(2)}, want: "1"},
		"OursIsGone":           {clusters: [3]*plugin.Destination{nil, accepted(2)}, want: "1"},
		"BothAreDenied":        {clusters: [3]*plugin.Destination{denied, denied}, want: ""},
		"TheThirdIsNotKnown":   {clusters: [3]*plugin.Destination{nil, accepted(2)}, unsynced: 2, want: ""},
		"TheSecondIsNotSynced": {clusters: [3]*plugin.Destination{denied, accepted(2)}, unsynced: 1, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			var f fleet
			for i, d := range tc.clusters {
				its := &its{name: string(rune('0' + i)), store: newStore()}
				its.store.synced.Store(i == 0 || i != tc.unsynced)
				if d != nil {
					its.store.setDestination("edge", d)
				}
				f = append(f, its)
			}
			got := ""
			if heir := f.heir(f[0], "edge"); heir != nil {
				got = heir.name
			}
			if got != tc.want {
				t.Errorf("the name has passed to %q, want %q", got, tc.want)
			}
		})
	}
}

// TestSuccessors: who counts as having an object in the mailbox of another ITS are the Binding
// itself, and all others that list or have it there.
func TestSuccessors(t *testing.T) {
	f := newFixture(t)
	f.d.OnDestination("edge", &plugin.Destination{Accepted: true})
	known := map[objref.Ref]plan.Object{settings: {Known: true}, password: {Known: true}}
	var ours *placement.Placement
	for _, name := range []string{"ours", "other", "elsewhere"} {
		p := placement.Placement{Destinations: at("edge"), Objects: known}
		if name == "elsewhere" {
			p.Destinations = at("far")
		}
		f.list(name, settings, password)
		published := f.publish(name, "", p)
		if name == "ours" {
			ours = published
		}
	}
	has := func(binding string, foreign plan.WDS, items ...plan.Item) {
		f.d.OnWork(nil, &plan.Work{
			Mailbox: "edge", Name: "work-" + binding, UID: types.UID("work-" + binding), Binding: binding, BindingUID: types.UID(binding), Foreign: foreign, Items: items,
		})
	}
	has("ours", plan.WDS{}, plan.Item{Ref: settings, State: plan.Applied})
	has("other", plan.WDS{}, plan.Item{Ref: settings}, plan.Item{Ref: web, State: plan.Applied})
	has("theirs", plan.WDS{UID: "w2", Name: "wds2"}, plan.Item{Ref: password}, plan.Item{Ref: nginx})
	left := []*plan.Work{{Mailbox: "edge", Name: "left", Items: []plan.Item{{Ref: settings}, {Ref: password}}}}
	got := map[objref.Ref][]string{}
	for ref, owners := range f.d.successors(ours, "edge", left) {
		got[ref] = describeOwners(owners)
		slices.Sort(got[ref])
	}
	want := map[objref.Ref][]string{
		settings: {"other pending", "ours applied"},
		password: {"other listed", "ours listed", "theirs pending"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("successors (-want +got):\n%s", diff)
	}
}

// TestLeftText: the text says how many works are left where, and for what.
func TestLeftText(t *testing.T) {
	waits := []plan.HandOver{{Ref: nginx, To: plan.Owner{Binding: "b"}}, {Ref: settings, To: plan.Owner{Binding: "b"}, Waits: true}}
	for name, tc := range map[string]struct {
		works    int
		built    plan.Plan
		failures []string
		want     string
	}{
		"Deleting": {1, plan.Plan{}, nil, `1 ManifestWork of this Binding stays for the cluster of this name in ITS "its1", until that cluster has deleted it; if it never answers, delete its ManagedCluster in ITS "its1"`},
		"Waiting":  {2, plan.Plan{Leaving: waits}, nil, `2 ManifestWorks of this Binding stay for the cluster of this name in ITS "its1", until the cluster of ITS "its2" has applied configmaps web/settings`},
		"Held":     {2, plan.Plan{Leaving: waits, HeldBack: 1}, nil, `2 ManifestWorks of this Binding stay for the cluster of this name in ITS "its1", since 1 object in them is held`},
		"Refused":  {1, plan.Plan{Leaving: waits, HeldBack: 1}, []string{"work w cannot be deleted: no"}, `1 ManifestWork of this Binding stays for the cluster of this name in ITS "its1", since work w cannot be deleted: no`},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, leftText("its1", "its2", tc.works, &tc.built, tc.failures)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

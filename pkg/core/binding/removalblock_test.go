package binding_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/binding"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/removalblock"
)

// specOf returns a spec with these ConfigMaps in the namespace web, and clusters c00, c01, ….
func specOf(clusters int, objects ...string) *controlv1alpha1.BindingSpec {
	spec := &controlv1alpha1.BindingSpec{}
	for i := range clusters {
		spec.Destinations = append(spec.Destinations, controlv1alpha1.Destination{ClusterID: fmt.Sprintf("c%02d", i)})
	}
	for _, name := range objects {
		spec.Workload.NamespaceScope = append(spec.Workload.NamespaceScope, controlv1alpha1.NamespaceScopeDownsyncClause{
			NamespaceScopeDownsyncObject: controlv1alpha1.NamespaceScopeDownsyncObject{
				Version: "v1", Resource: "configmaps", Namespace: "web", Name: name, ResourceVersion: "1",
			},
		})
	}
	return spec
}

func these(names ...string) map[objref.Ref]bool {
	refs := map[objref.Ref]bool{}
	for _, name := range names {
		refs[objref.Ref{Resource: "configmaps", Namespace: "web", Name: name}] = true
	}
	return refs
}

func brief(spec *controlv1alpha1.BindingSpec) string {
	text := ""
	for i := range spec.Workload.NamespaceScope {
		text += spec.Workload.NamespaceScope[i].Name + " "
	}
	return fmt.Sprintf("%son %d", text, len(spec.Destinations))
}

func TestRemovalBlock(t *testing.T) {
	const (
		off   = "starling.io/removal-block"
		limit = "starling.io/max-removal"
	)
	cases := map[string]struct {
		annotations    map[string]string
		stored, wanted *controlv1alpha1.BindingSpec
		deleted, going []string
		unread         []string
		want           string
		wantClusters   int
		wantObjects    int
	}{
		"NothingStored":        {stored: specOf(0), wanted: specOf(20, "a"), want: "a on 20"},
		"FewClusters":          {stored: specOf(9, "a"), wanted: specOf(0), want: "on 0"},
		"AllObjects":           {stored: specOf(10, "a", "b"), wanted: specOf(10), want: "a b on 10", wantClusters: 10, wantObjects: 2},
		"OtherObjects":         {stored: specOf(10, "a"), wanted: specOf(10, "b"), want: "a on 10", wantClusters: 10, wantObjects: 1},
		"SomeObjects":          {stored: specOf(10, "a", "b"), wanted: specOf(10, "a"), want: "a on 10"},
		"Half":                 {stored: specOf(10, "a"), wanted: specOf(5, "a"), want: "a on 5"},
		"MoreThanHalf":         {stored: specOf(10, "a"), wanted: specOf(4, "a"), want: "a on 10", wantClusters: 6},
		"HalfAndUnread":        {stored: specOf(10, "a"), wanted: specOf(9, "a"), unread: []string{"c00", "c01", "c02", "c03", "c09"}, want: "a on 9"},
		"MoreAreUnread":        {stored: specOf(10, "a"), wanted: specOf(9, "a"), unread: []string{"c00", "c01", "c02", "c03", "c04"}, want: "a on 10", wantClusters: 1},
		"OnlyUnread":           {stored: specOf(10, "a"), wanted: specOf(10, "a"), unread: []string{"c00", "c01", "c02", "c03", "c04", "c05"}, want: "a on 10"},
		"AllClusters":          {stored: specOf(30, "a"), wanted: specOf(0, "a", "b"), want: "a on 30", wantClusters: 30},
		"NoObjectsWereThere":   {stored: specOf(30), wanted: specOf(0), want: "on 0"},
		"Deleted":              {stored: specOf(10, "a"), wanted: specOf(10), deleted: []string{"a"}, want: "on 10"},
		"DeletedAndLost":       {stored: specOf(10, "a", "b"), wanted: specOf(10), deleted: []string{"a"}, want: "b on 10", wantClusters: 10, wantObjects: 1},
		"GoingWithOthers":      {stored: specOf(10, "a", "b"), wanted: specOf(10, "b"), going: []string{"a", "b"}, want: "a b on 10", wantClusters: 10, wantObjects: 2},
		"SomeGoWithOthers":     {stored: specOf(10, "a", "b"), wanted: specOf(10, "b"), going: []string{"a"}, want: "b on 10"},
		"Off":                  {annotations: map[string]string{off: "off"}, stored: specOf(10, "a"), wanted: specOf(0), want: "on 0"},
		"HigherPercentage":     {annotations: map[string]string{limit: "90%"}, stored: specOf(10, "a"), wanted: specOf(1, "a"), want: "a on 1"},
		"StillTooMany":         {annotations: map[string]string{limit: "80%"}, stored: specOf(10, "a"), wanted: specOf(1, "a"), want: "a on 10", wantClusters: 9},
		"Number":               {annotations: map[string]string{limit: "2"}, stored: specOf(100, "a"), wanted: specOf(98, "a"), want: "a on 98"},
		"NumberIsExceeded":     {annotations: map[string]string{limit: "2"}, stored: specOf(100, "a"), wanted: specOf(97, "a"), want: "a on 100", wantClusters: 3},
		"NewObjectsWaitAsWell": {stored: specOf(10, "a"), wanted: specOf(2, "a", "b"), want: "a on 10", wantClusters: 8},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			removalBlock, mistakes := binding.ParseRemovalBlock(tc.annotations)
			if len(mistakes) > 0 {
				t.Fatal(mistakes)
			}
			change := binding.Change{
				Stored: tc.stored, Desired: tc.wanted, Departed: binding.Departed{Deleted: these(tc.deleted...), WithOthers: these(tc.going...)}, Unread: map[string]bool{},
			}
			for _, cluster := range tc.unread {
				change.Unread[cluster] = true
			}
			got, held, released := removalBlock.Apply(change)
			if diff := cmp.Diff(tc.want, brief(&got)); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
			if (held != nil) != (tc.wantClusters > 0) || released != nil {
				t.Fatalf("held %+v, released %+v", held, released)
			}
			if held == nil {
				return
			}
			if len(held.Clusters) != tc.wantClusters || len(held.Objects) != tc.wantObjects || held.Of != len(tc.stored.Destinations) {
				t.Errorf("held %+v, want %d clusters and %d objects", held, tc.wantClusters, tc.wantObjects)
			}
			removalBlock.Token = "another"
			if again, _, _ := removalBlock.Apply(change); brief(&again) != tc.want {
				t.Errorf("another token releases it: %s", brief(&again))
			}
			removalBlock.Token = held.Token
			if free, left, released := removalBlock.Apply(change); left != nil || !cmp.Equal(released, held) || !cmp.Equal(&free, tc.wanted) {
				t.Errorf("its token does not release it: %s", brief(&free))
			}
		})
	}
}

// TestAllowanceOfTheRest: a change that was allowed and is half done continues; more than was
// allowed does not.
func TestAllowanceOfTheRest(t *testing.T) {
	hold := func(begun *binding.Loss, stored, wanted *controlv1alpha1.BindingSpec) (held, released *binding.Loss) {
		removalBlock := binding.RemovalBlock{Limits: removalblock.Limits{Percent: 50, Count: -1}, Begun: begun}
		if begun != nil {
			removalBlock.Token = begun.Token
		}
		_, held, released = removalBlock.Apply(binding.Change{Stored: stored, Desired: wanted, Departed: binding.Departed{Deleted: these(), WithOthers: these()}})
		return held, released
	}
	objects, _ := hold(nil, specOf(12, "a", "b", "c"), specOf(12, "d"))
	clusters, _ := hold(nil, specOf(12, "a", "b"), specOf(2, "a", "b"))
	cases := map[string]struct {
		begun          *binding.Loss
		stored, wanted *controlv1alpha1.BindingSpec
		released       bool
	}{
		"FewerObjects":  {objects, specOf(12, "c"), specOf(12, "d"), true},
		"MoreObjects":   {objects, specOf(12, "c", "e"), specOf(12, "d"), false},
		"MoreClusters":  {objects, specOf(13, "a", "b", "c"), specOf(12, "d"), false},
		"Clusters":      {clusters, specOf(12, "a", "b"), specOf(2, "a", "b", "c"), true},
		"TheseClusters": {clusters, specOf(12, "a", "b"), specOf(1, "a", "b"), false},
		"ObjectsAsWell": {clusters, specOf(12, "a", "b"), specOf(2, "c"), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if held, released := hold(tc.begun, tc.stored, tc.wanted); (released != nil) != tc.released || (held == nil) != tc.released {
				t.Errorf("held %+v, released %+v", held, released)
			}
		})
	}
}

func TestRemovalBlockAnnotations(t *testing.T) {
	_, mistakes := binding.ParseRemovalBlock(map[string]string{"starling.io/removal-block": "of", "starling.io/max-removal": "most"})
	want := []string{
		`metadata.annotations[starling.io/removal-block]: "of" must be on or off; on is used`,
		`metadata.annotations[starling.io/max-removal]: "most" must be a number of clusters, or a percentage such as 80%; 50% is used`,
	}
	if diff := cmp.Diff(want, mistakes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, mistakes := binding.ParseRemovalBlock(map[string]string{"starling.io/max-removal": "101%"}); len(mistakes) != 1 {
		t.Errorf("101%%: %q", mistakes)
	}
	if _, mistakes := binding.ParseRemovalBlock(map[string]string{"starling.io/max-removal": "-1"}); len(mistakes) != 1 {
		t.Errorf("-1: %q", mistakes)
	}
}

// TestRemovalBlockInvariants: whatever changes, an object that nobody deleted by itself stays
// on more than half of the clusters, or the change is small, or it was released; what is held
// changes nothing else; and a held Binding is held again in the same way.
func TestRemovalBlockInvariants(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	for seed := range uint64(5000) {
		random := rand.New(rand.NewPCG(seed, 11))
		some := func() []string {
			return slices.DeleteFunc(slices.Clone(names), func(string) bool { return random.IntN(2) == 0 })
		}
		stored, wanted := specOf(random.IntN(30), some()...), specOf(random.IntN(30), some()...)
		gone := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
			return random.IntN(3) > 0 || slices.ContainsFunc(wanted.Workload.NamespaceScope, func(c controlv1alpha1.NamespaceScopeDownsyncClause) bool { return c.Name == name })
		})
		removalBlock, _ := binding.ParseRemovalBlock(nil)
		change := binding.Change{Stored: stored, Desired: wanted, Departed: binding.Departed{Deleted: these(gone...), WithOthers: these()}}
		got, held, _ := removalBlock.Apply(change)
		for _, c := range got.Workload.NamespaceScope {
			if slices.Contains(gone, c.Name) {
				t.Fatalf("seed %d: %s was deleted, and stays", seed, c.Name)
			}
		}
		before, after := placements(stored, gone), placements(&got, nil)
		emptied := 0
		for cluster, objects := range before {
			if len(objects) > 0 && !slices.ContainsFunc(objects, func(o string) bool { return slices.Contains(after[cluster], o) }) {
				emptied++
			}
		}
		switch {
		case held == nil && len(stored.Destinations) >= 10 && emptied*2 > len(stored.Destinations):
			t.Fatalf("seed %d: %s becomes %s", seed, brief(stored), brief(&got))
		case held == nil && !cmp.Equal(&got, wanted):
			t.Fatalf("seed %d: nothing is held, and %s is not %s", seed, brief(&got), brief(wanted))
		case held == nil:
			continue
		case emptied > 0:
			t.Fatalf("seed %d: held, and %d clusters lose everything", seed, emptied)
		}
		again, heldAgain, _ := removalBlock.Apply(binding.Change{Stored: &got, Desired: wanted, Departed: binding.Departed{Deleted: these(gone...), WithOthers: these()}})
		if heldAgain == nil || heldAgain.Token != held.Token || !cmp.Equal(again, got) {
			t.Fatalf("seed %d: held as %s, and then as %s", seed, brief(&got), brief(&again))
		}
	}
}

// placements returns what each cluster has, but for some objects.
func placements(spec *controlv1alpha1.BindingSpec, without []string) map[string][]string {
	all := map[string][]string{}
	for _, d := range spec.Destinations {
		for _, c := range spec.Workload.NamespaceScope {
			if !slices.Contains(without, c.Name) {
				all[d.ClusterID] = append(all[d.ClusterID], c.Name)
			}
		}
	}
	return all
}

func TestAnnotate(t *testing.T) {
	policy := map[string]string{"starling.io/apply": "server-side", "other": "x"}
	releasing := map[string]string{"starling.io/apply": "server-side", "starling.io/release": "force"}
	cases := map[string]struct {
		policy        map[string]string
		deleting      bool
		binding, want map[string]string
		wantChanged   bool
	}{
		"New":     {policy, false, nil, map[string]string{"starling.io/apply": "server-side"}, true},
		"Same":    {policy, false, map[string]string{"starling.io/apply": "server-side", "starling.io/hold": "*"}, map[string]string{"starling.io/apply": "server-side", "starling.io/hold": "*"}, false},
		"Another": {policy, false, map[string]string{"starling.io/apply": "update", "mine": "y"}, map[string]string{"starling.io/apply": "server-side", "mine": "y"}, true},
		"Gone":    {policy, false, map[string]string{"starling.io/apply": "server-side", "starling.io/on-removal": "orphan"}, map[string]string{"starling.io/apply": "server-side"}, true},

		"UsersRelease":              {policy, false, map[string]string{"starling.io/apply": "server-side", "starling.io/release": "force"}, map[string]string{"starling.io/apply": "server-side", "starling.io/release": "force"}, false},
		"UsersReleaseWhileDeleting": {policy, true, map[string]string{"starling.io/apply": "server-side", "starling.io/release": "force"}, map[string]string{"starling.io/apply": "server-side", "starling.io/release": "force"}, false},
		"TooEarly":                  {releasing, false, nil, map[string]string{"starling.io/apply": "server-side"}, true},
		"PolicysRelease":            {releasing, true, map[string]string{"starling.io/release": "clusters=a"}, releasing, true},
	}
	for name, tc := range cases {
		p := &controlv1alpha1.BindingPolicy{ObjectMeta: metav1.ObjectMeta{Annotations: tc.policy}}
		if tc.deleting {
			p.DeletionTimestamp = &metav1.Time{}
		}
		got, changed := binding.Annotate(tc.binding, p)
		if diff := cmp.Diff(tc.want, got); diff != "" || changed != tc.wantChanged {
			t.Errorf("%s: changed %t (-want +got):\n%s", name, changed, diff)
		}
	}
}

package binding_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/binding"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
)

// late is a space whose four watches show changes late, each by itself. Objects are in the
// Namespace of their first letter.
type late struct {
	t      *testing.T
	random *rand.Rand
	// truth is what the API servers have, labels what they have of each thing.
	policies map[string]*controlv1alpha1.BindingPolicy
	labels   map[string]string
	// watches are the changes that each watch has not shown yet.
	watches [4][]func()
	// unserved: the WDS does not serve the kind of the objects for now.
	unserved bool
	// What was seen.
	index  *match.Index
	seen   map[string]*controlv1alpha1.BindingPolicy
	stored map[string]*controlv1alpha1.Binding
	uids   int
}

const (
	policyWatch = iota
	objectWatch
	namespaceWatch
	clusterWatch
)

var (
	latePolicies   = []string{"p0", "p1", "p2"}
	lateObjects    = []string{"ma", "mb", "na", "nb"}
	lateNamespaces = []string{"m", "n"}
	lateClusters   = []string{"c0", "c1", "c2"}
	values         = []string{"x", "y", "z"}
)

func (l *late) any(of []string) string { return of[l.random.IntN(len(of))] }

// label gives a thing another label.
func (l *late) label(watch int, thing string) {
	value := l.any(values)
	l.labels[thing] = value
	labels := map[string]string{"is": value}
	l.watches[watch] = append(l.watches[watch], func() {
		switch watch {
		case objectWatch:
			l.index.SetObject(configMaps, &metav1.ObjectMeta{Namespace: thing[:1], Name: thing, ResourceVersion: "1", Labels: labels})
		case namespaceWatch:
			l.index.SetNamespace(thing, labels)
		case clusterWatch:
			l.index.SetCluster(thing, labels)
		}
	})
}

// someSelectors returns selectors of one, two or all values.
func (l *late) someSelectors() []metav1.LabelSelector {
	selected := values[:1+l.random.IntN(len(values))]
	if l.random.IntN(2) == 0 {
		selected = []string{l.any(values)}
	}
	return []metav1.LabelSelector{{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "is", Operator: metav1.LabelSelectorOpIn, Values: selected}}}}
}

// changePolicy creates, edits or deletes a policy.
func (l *late) changePolicy(name string) {
	p := l.policies[name].DeepCopy()
	switch {
	case p == nil:
		l.uids++
		p = &controlv1alpha1.BindingPolicy{ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(fmt.Sprint("u", l.uids)), Finalizers: []string{controlv1alpha1.BindingPolicyFinalizer},
		}}
	case p.DeletionTimestamp != nil:
		return
	case l.random.IntN(3) == 0:
		p.DeletionTimestamp = &metav1.Time{}
	}
	p.Generation++
	if p.DeletionTimestamp == nil {
		p.Spec = controlv1alpha1.BindingPolicySpec{
			ClusterSelectors: l.someSelectors(),
			Downsync: []controlv1alpha1.DownsyncPolicyClause{{
				DownsyncObjectTest: controlv1alpha1.DownsyncObjectTest{NamespaceSelectors: l.someSelectors(), ObjectSelectors: l.someSelectors()},
			}},
		}
	}
	l.setPolicy(name, p)
}

// setPolicy stores a policy; nil for none.
func (l *late) setPolicy(name string, p *controlv1alpha1.BindingPolicy) {
	if l.policies[name] = p; p == nil {
		delete(l.policies, name)
	}
	l.watches[policyWatch] = append(l.watches[policyWatch], func() {
		if l.seen[name] = p; p == nil {
			delete(l.seen, name)
		}
		if p == nil || p.DeletionTimestamp != nil {
			l.index.DeletePolicy(name)
			return
		}
		compiled, errs := match.Compile(&p.Spec)
		if len(errs) > 0 {
			l.t.Fatal(errs)
		}
		l.index.SetPolicy(name, compiled)
	})
}

// show lets a watch show its next change.
func (l *late) show(watch int) {
	if changes := l.watches[watch]; len(changes) > 0 {
		l.watches[watch] = changes[1:]
		changes[0]()
	}
}

func selects(p *controlv1alpha1.BindingPolicy, labels map[string]string, object, cluster string) bool {
	has := func(selectors []metav1.LabelSelector, thing string) bool {
		return slices.Contains(selectors[0].MatchExpressions[0].Values, labels[thing])
	}
	clause := p.Spec.Downsync[0]
	return has(p.Spec.ClusterSelectors, cluster) && has(clause.NamespaceSelectors, object[:1]) && has(clause.ObjectSelectors, object)
}

// copies returns what all Bindings list, as "object cluster".
func (l *late) copies() map[string]bool {
	all := map[string]bool{}
	for _, b := range l.stored {
		for ref := range binding.Refs(&b.Spec) {
			for _, d := range b.Spec.Destinations {
				all[ref.Name+" "+d.ClusterID] = true
			}
		}
	}
	return all
}

// state is what the controller gathers for a policy.
func (l *late) state(name string) *binding.State {
	p := l.seen[name]
	first := l.stored[name]
	if first != nil && !binding.OwnedBy(first, string(p.UID)) {
		return nil // as long as the last one is not seen to be gone
	}
	s := &binding.State{
		Policy: p, First: first, MaxSize: binding.DefaultMaxSize,
		Unread: binding.Unread{Read: map[schema.GroupResource]bool{configMaps.GroupResource(): true}},
	}
	listed := match.Listed{}
	if first != nil {
		listed = binding.ListedIn(&first.Spec)
	}
	var others match.Others
	if p.DeletionTimestamp != nil {
		others = l.index.Others(name, listed)
	} else {
		s.Selected, others, _ = l.index.Snapshot(name, listed)
	}
	s.Labels = others.Labels
	s.HandOver = binding.HandOver{Selecting: others.Selecting, Others: map[string]binding.Other{}}
	for other, clusters := range others.Clusters {
		if p := l.seen[other]; p != nil && p.DeletionTimestamp == nil && (l.stored[other] == nil || binding.OwnedBy(l.stored[other], string(p.UID))) {
			found := binding.Other{Clusters: clusters}
			if b := l.stored[other]; b != nil {
				found.Listed = append(found.Listed, &b.Spec)
			}
			s.HandOver.Others[other] = found
		}
	}
	return s
}

// live returns what the API servers have, for a change of the policy. One in a few ITSes does not
// respond.
func (l *late) live(leaving *binding.Leaving, policy string) binding.Live {
	found := binding.Live{Labels: match.Labels{
		Objects: map[objref.Ref]map[string]string{}, Namespaces: map[string]map[string]string{}, Clusters: map[string]map[string]string{},
	}}
	for ref := range leaving.Objects {
		if !l.unserved {
			found.Labels.Objects[ref] = map[string]string{"is": l.labels[ref.Name]}
		}
		found.Labels.Namespaces[ref.Namespace] = map[string]string{"is": l.labels[ref.Namespace]}
	}
	for name, p := range l.seen {
		if l.unserved && name != policy && p.DeletionTimestamp == nil {
			found.Unserved = map[schema.GroupResource]bool{configMaps.GroupResource(): true}
		}
	}
	if l.random.IntN(5) == 0 {
		found.Unread = map[string][]string{"its1": leaving.Clusters}
	} else {
		for _, cluster := range leaving.Clusters {
			found.Labels.Clusters[cluster] = map[string]string{"is": l.labels[cluster]}
		}
	}
	for name, p := range l.policies {
		if seen := l.seen[name]; p.DeletionTimestamp == nil && (seen == nil || seen.UID != p.UID || seen.Generation != p.Generation) {
			found.Policies = append(found.Policies, name)
		}
	}
	return found
}

// sync does what the controller does for one policy.
func (l *late) sync(name string) {
	if l.seen[name] == nil {
		return
	}
	s := l.state(name)
	if s == nil {
		return
	}
	d := binding.Decide(s)
	if len(d.Leaving.Objects) > 0 {
		s.Unseen = d.Leaving.Unseen(s.Labels, l.live(&d.Leaving, name))
		d = binding.Decide(s)
	}
	if p := l.policies[name]; d.RemoveFinalizer && p != nil && p.UID == s.Policy.UID {
		l.setPolicy(name, nil)
	}
	for _, w := range d.Writes {
		if w.After == nil {
			delete(l.stored, w.Before.Name)
		} else {
			l.stored[w.After.Name] = w.After
		}
	}
}

// TestNothingIsLostToLateWatches: in random histories, whatever is seen first, nothing leaves all
// Bindings while a policy selects it; and when everything was seen, the Bindings soon list what the
// policies select and nothing else.
func TestNothingIsLostToLateWatches(t *testing.T) {
	for seed := range uint64(1500) {
		l := &late{
			t: t, random: rand.New(rand.NewPCG(seed, 2)), index: match.NewIndex(match.Options{}), labels: map[string]string{},
			policies: map[string]*controlv1alpha1.BindingPolicy{}, seen: map[string]*controlv1alpha1.BindingPolicy{}, stored: map[string]*controlv1alpha1.Binding{},
		}
		things := map[int][]string{objectWatch: lateObjects, namespaceWatch: lateNamespaces, clusterWatch: lateClusters}
		for watch, names := range things {
			for _, name := range names {
				l.label(watch, name)
				l.show(watch)
			}
		}
		for range 200 {
			switch l.random.IntN(8) {
			case 0:
				l.changePolicy(l.any(latePolicies))
			case 1:
				watch := objectWatch + l.random.IntN(3)
				if watch == objectWatch && l.random.IntN(3) == 0 {
					l.unserved = !l.unserved
				}
				if watch != objectWatch || !l.unserved { // what is not served cannot be changed
					l.label(watch, l.any(things[watch]))
				}
			case 2, 3, 4:
				l.show(l.random.IntN(len(l.watches)))
			default:
				name := l.any(latePolicies)
				before := l.copies()
				l.sync(name)
				after := l.copies()
				for copied := range before {
					object, cluster, _ := strings.Cut(copied, " ")
					for _, p := range l.policies {
						if !after[copied] && p.DeletionTimestamp == nil && selects(p, l.labels, object, cluster) {
							t.Fatalf("seed %d: the sync of %s takes %s from all Bindings, and %s selects it", seed, name, copied, p.Name)
						}
					}
				}
			}
		}
		l.unserved = false
		for range 8 {
			for watch := range l.watches {
				for len(l.watches[watch]) > 0 {
					l.show(watch)
				}
			}
			for _, name := range latePolicies {
				l.sync(name)
			}
		}
		for name, b := range l.stored {
			if l.policies[name] == nil {
				t.Fatalf("seed %d: Binding %s has no policy", seed, name)
			}
			selected, _, _ := l.index.Snapshot(name, match.Listed{})
			want := binding.Compute(binding.Input{Selected: selected, Unread: binding.Unread{Read: map[schema.GroupResource]bool{configMaps.GroupResource(): true}}})
			if diff := cmp.Diff(want, b.Spec); diff != "" {
				t.Fatalf("seed %d: %s waits forever (-want +got):\n%s", seed, name, diff)
			}
		}
	}
}

// TestUnseen: what stays of an object x that leaves the clusters one and two, and of y that leaves
// two.
func TestUnseen(t *testing.T) {
	of := func(value string) map[string]string { return map[string]string{"is": value} }
	x, y := configMapRef("x"), configMapRef("y")
	leaving := binding.Leaving{Objects: map[objref.Ref][]string{x: {"one", "two"}, y: {"two"}}, Clusters: []string{"one", "two"}}
	for name, tc := range map[string]struct {
		change func(*binding.Live)
		want   string // what stays, and what was not seen
	}{
		"AsSeen":      {func(*binding.Live) {}, ""},
		"Relabelled":  {func(l *binding.Live) { l.Labels.Objects[y] = of("new") }, "y two: configmaps n/y"},
		"Deleted":     {func(l *binding.Live) { delete(l.Labels.Objects, x) }, ""},
		"Namespace":   {func(l *binding.Live) { l.Labels.Namespaces["n"] = nil }, `x y one two: Namespace "n"`},
		"NoNamespace": {func(l *binding.Live) { delete(l.Labels.Namespaces, "n") }, ""},
		"Cluster":     {func(l *binding.Live) { l.Labels.Clusters["one"] = of("new") }, `x one: ManagedCluster "one"`},
		"NoCluster":   {func(l *binding.Live) { delete(l.Labels.Clusters, "one") }, ""},
		"NoResponse":  {func(l *binding.Live) { l.Unread = map[string][]string{"its2": {"two"}} }, `x y two: ITS "its2", which does not respond`},
		"Policy":      {func(l *binding.Live) { l.Policies = []string{"b"} }, `x y one two: BindingPolicy "b"`},
		"NotServed": {
			func(l *binding.Live) { l.Unserved = map[schema.GroupResource]bool{configMaps.GroupResource(): true} },
			"x y one two: configmaps, which is not served",
		},
		"NotReadable": {
			func(l *binding.Live) { l.Unreadable = map[schema.GroupResource]bool{configMaps.GroupResource(): true} },
			"x y one two: configmaps, which cannot be read",
		},
		"Several": {
			func(l *binding.Live) { l.Policies, l.Labels.Objects[x] = []string{"b"}, nil },
			`x y one two: BindingPolicy "b", configmaps n/x`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			labels := func() match.Labels {
				return match.Labels{
					Objects:    map[objref.Ref]map[string]string{x: of("x"), y: of("y")},
					Namespaces: map[string]map[string]string{"n": of("n")},
					Clusters:   map[string]map[string]string{"one": of("1"), "two": of("2")},
				}
			}
			live := binding.Live{Labels: labels()}
			tc.change(&live)
			u := leaving.Unseen(labels(), live)
			var stays []string
			for ref := range u.Objects {
				stays = append(stays, ref.Name)
			}
			slices.Sort(stays)
			got := strings.Join(append(stays, slices.Sorted(maps.Keys(u.Clusters))...), " ")
			if len(u.Of) > 0 {
				got += ": " + strings.Join(u.Of, ", ")
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

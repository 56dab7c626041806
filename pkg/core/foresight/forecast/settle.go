package forecast

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	"github.com/starlinghq/starling/pkg/core/binding"
	"github.com/starlinghq/starling/pkg/core/foresight"
	"github.com/starlinghq/starling/pkg/core/inventory"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/render"
)

// settled is what binding-controller makes of a World.
type settled struct {
	world *World
	index *match.Index
	// bindings are those that there are in the end, by name, and owned the names of those that a
	// policy controls, by its UID.
	bindings map[string]*controlv1alpha1.Binding
	owned    map[types.UID]map[string]bool
	// read are the resources that were read.
	read map[schema.GroupResource]bool
	// invalid are the mistakes in policies, by name.
	invalid map[string][]string
	// blocked are the changes that a removal block holds back, by policy.
	blocked map[string]*binding.Loss
	// listings are what the Bindings list in the end, by name, and gets renders what they deliver.
	listings map[string]*listing
	gets     *renderer
	// holds are what Transactions hold, and held the objects that they hold in any cluster.
	holds plan.Holds
	held  map[objref.Ref]struct{}
}

// maxRounds bounds how often all policies are decided on. Two are enough without hand-overs between
// policies; each hand-over takes one more.
const maxRounds = 20

// settle decides on all policies until there is nothing left to write. It takes the index of a
// World that has settled before, nil for none, so that only what differs is matched again.
func settle(w *World, before *settled) *settled {
	s := &settled{
		world:    w,
		bindings: map[string]*controlv1alpha1.Binding{}, owned: map[types.UID]map[string]bool{}, read: map[schema.GroupResource]bool{},
		invalid: map[string][]string{}, blocked: map[string]*binding.Loss{}, listings: map[string]*listing{},
	}
	for _, b := range w.Bindings {
		s.set(b)
		for ref := range binding.Refs(&b.Spec) {
			s.read[ref.GroupResource()] = !w.UnreadGroups[ref.Group]
		}
	}
	for _, o := range w.Objects {
		s.read[o.Resource.GroupResource()] = true
	}
	for gr := range w.Unread {
		delete(s.read, gr)
	}
	s.match(before)
	s.holds, _ = foresight.HoldsOf(w.Bindings[pkgv1.HoldsBinding]) // what is invalid holds everything
	s.held, _ = s.holds.Refs()
	names := slices.Sorted(maps.Keys(w.Policies))
	for range maxRounds {
		wrote := false
		for _, name := range names {
			wrote = s.decide(name) || wrote
		}
		if !wrote {
			break
		}
	}
	for _, b := range s.bindings { // those of policies that are deleted
		if owner := policyOf(b); owner != "" && w.Policies[owner] == nil {
			s.remove(b)
		}
	}
	s.gets = newRenderer(w)
	return s
}

// policyOf returns the name of the policy that controls a Binding, "" if none does.
func policyOf(b *controlv1alpha1.Binding) string {
	if owner := metav1.GetControllerOfNoCopy(b); owner != nil && owner.Kind == "BindingPolicy" {
		return owner.Name
	}
	return ""
}

// set adds or replaces a Binding.
func (s *settled) set(b *controlv1alpha1.Binding) {
	s.bindings[b.Name] = b
	if owner := metav1.GetControllerOfNoCopy(b); owner != nil {
		if s.owned[owner.UID] == nil {
			s.owned[owner.UID] = map[string]bool{}
		}
		s.owned[owner.UID][b.Name] = true
	}
}

// remove removes a Binding.
func (s *settled) remove(b *controlv1alpha1.Binding) {
	delete(s.bindings, b.Name)
	if owner := metav1.GetControllerOfNoCopy(b); owner != nil {
		delete(s.owned[owner.UID], b.Name)
	}
}

// of returns the Bindings of a policy: that of its name, also if it has another owner, and the
// others in their order.
func (s *settled) of(policy *controlv1alpha1.BindingPolicy) (first *controlv1alpha1.Binding, overflow []*controlv1alpha1.Binding) {
	for name := range s.owned[policy.UID] {
		if name != policy.Name {
			overflow = append(overflow, s.bindings[name])
		}
	}
	slices.SortFunc(overflow, func(a, b *controlv1alpha1.Binding) int {
		return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), strings.Compare(a.Name, b.Name))
	})
	return s.bindings[policy.Name], overflow
}

func (s *settled) stored(policy *controlv1alpha1.BindingPolicy) *controlv1alpha1.BindingSpec {
	first, overflow := s.of(policy)
	state := binding.State{Policy: policy, First: first, Overflow: overflow}
	return binding.Unite(binding.SpecsOf(state.Bindings()))
}

// decide decides on a policy, carries the decision out, and reports whether that changed a Binding.
func (s *settled) decide(name string) (wrote bool) {
	policy := s.world.Policies[name]
	first, overflow := s.of(policy)
	state := &binding.State{
		Policy: policy, First: first, Overflow: overflow, NamesTaken: map[string]bool{}, MaxSize: s.world.Settings.Bindings.MaxBindingSize,
		Invalid: s.invalid[name], Departed: s.world.Departed,
	}
	state.RemovalBlock, state.Mistakes = binding.ParseRemovalBlock(policy.Annotations)
	for other := range s.bindings {
		state.NamesTaken[other] = true
	}
	stored := binding.Unite(binding.SpecsOf(state.Bindings()))
	listed := binding.ListedIn(stored)
	state.Unread = s.unread(stored)
	if len(state.Invalid) == 0 {
		var others match.Others
		var known bool
		if state.Selected, others, known = s.index.Snapshot(name, listed); !known {
			return false
		}
		state.HandOver = s.handOver(others)
	}
	d := binding.Decide(state)
	delete(s.blocked, name)
	if d.Blocked != nil {
		s.blocked[name] = d.Blocked
	}
	for _, write := range d.Writes {
		if write.After == nil {
			s.remove(write.Before)
			continue
		}
		s.set(write.After)
	}
	return len(d.Writes) > 0
}

// unread returns what nothing may be concluded about.
func (s *settled) unread(stored *controlv1alpha1.BindingSpec) binding.Unread {
	unread := binding.Unread{Read: s.read, Clusters: map[string]bool{}}
	if stored != nil && s.world.ClustersUnread {
		for _, d := range stored.Destinations {
			if c := s.world.Clusters[d.ClusterID]; c == nil || c.State == inventory.Unknown {
				unread.Clusters[d.ClusterID] = true
			}
		}
	}
	return unread
}

func (s *settled) handOver(others match.Others) binding.HandOver {
	h := binding.HandOver{Selecting: others.Selecting, Others: map[string]binding.Other{}}
	for name, clusters := range others.Clusters {
		policy := s.world.Policies[name]
		first, overflow := s.of(policy)
		state := binding.State{Policy: policy, First: first, Overflow: overflow, Invalid: s.invalid[name]}
		if !state.WritesBindings() {
			continue
		}
		h.Others[name] = binding.Other{Clusters: clusters, Listed: binding.SpecsOf(state.Bindings())}
	}
	return h
}

// listing is what a Binding lists.
type listing struct {
	name string
	// objects are those that it lists, with how they are carried.
	objects  map[objref.Ref]*controlv1alpha1.DownsyncModulation
	clusters map[string]bool
	// annotations are those of the Binding, which are the defaults of its objects; mistake is what
	// is wrong with them.
	annotations map[string]string
	mistake     error
	scope       *render.Scope
}

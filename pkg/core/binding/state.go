package binding

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
)

// State is all that a decision about one policy is made on. It does not change, and nothing changes
// what is in it.
type State struct {
	Now    time.Time
	Policy *controlv1alpha1.BindingPolicy
	// First is the Binding of the policy's name, also if it has another owner; nil if there is
	// none. Overflow are the policy's other Bindings, in their order.
	First    *controlv1alpha1.Binding
	Overflow []*controlv1alpha1.Binding
	// NamesTaken has the names of Bindings, of all owners, that an overflow Binding of the policy
	// could have.
	NamesTaken map[string]bool
	// MaxSize is how large a Binding becomes before another one begins, in bytes of JSON.
	MaxSize int

	// Invalid lists the mistakes in the spec. With one, only the Bindings count.
	Invalid []string
	// Unserved lists what the policy names and that selects nothing: the WDS does not serve it, or
	// it is no workload.
	Unserved  []string
	Miscounts []match.Miscount
	// Selected is what the policy selects, unless UpToDate: then the Bindings are known to list
	// just that.
	Selected match.Snapshot
	UpToDate bool
	// HandOver has who selects what the policy no longer does. RetainedSince is since when entries
	// have stayed for others.
	HandOver      HandOver
	RetainedSince map[objref.Ref]time.Time
	// Labels are those that Selected and HandOver rely on, for what the policy no longer selects.
	Labels match.Labels
	// Unseen is what stays of what a Decision on all else would remove; see Leaving.
	Unseen Unseen
	Unread Unread
	// Missing lists what could matter to the policy and has not synced. NotServed is what the
	// Bindings list and the WDS does not serve for now. MissingSince is since when there is one of
	// these or something Unseen, zero if it is new.
	Missing      []string
	NotServed    NotServed
	MissingSince time.Time
	// Broken is what could matter to the policy and fails, whether it is Missing or was read
	// before. Sorted by name.
	Broken []Broken
	// Reading says that all that is Missing is being read, without an error so far, but for what is
	// Broken and does not hold objects.
	Reading bool
	// Pending has the names of the clusters that match and are not accepted, and Drained those that
	// match, are accepted and are drained. Sorted.
	Pending, Drained []string
	// Collectors is what is known of the StatusCollectors that the policy names.
	Collectors Collectors

	// RemovalBlock holds the limits of the policy, and Mistakes what is wrong with its annotations.
	RemovalBlock RemovalBlock
	Mistakes     []string
	Departed     Departed

	// StatusErrors keep the status of objects from coming back. They are known StatusErrorsIn from
	// now; 0 if they are known.
	StatusErrors   []string
	StatusErrorsIn time.Duration

	// WaitSet and WaitVersions are how long a write of the Bindings must wait, if the set or only
	// versions changed.
	WaitSet, WaitVersions time.Duration
}

// Broken is a resource or an API group that the API server does not let us read.
type Broken struct {
	// Name is as in Missing.
	Name string
	// Err is why.
	Err string
	// Holds: the Bindings list objects of it, or the policy names it. The policy is not known as
	// long as it fails. A policy that selects all kinds by their labels cannot wait for each API
	// that somebody adds to the WDS and that never responds.
	Holds bool
	// Settled: it has been failing for a while.
	Settled bool
}

// NotServed are the resources of objects that a policy's Bindings list and that the WDS does not
// serve for now, sorted. The objects exist nevertheless, so their entries are kept.
type NotServed struct {
	// NoVersion are those whose CustomResourceDefinition serves no version.
	NoVersion []string
	// NoResponse are those whose API server does not respond.
	NoResponse []string
}

func (n NotServed) has(name string) bool {
	return slices.Contains(n.NoVersion, name) || slices.Contains(n.NoResponse, name)
}

func (n NotServed) isEmpty() bool { return len(n.NoVersion) == 0 && len(n.NoResponse) == 0 }

// IsObserved reports whether all that the policy depends on was read, and is served.
func (s *State) IsObserved() bool {
	harmless := map[string]bool{}
	for _, b := range s.Broken {
		if b.Holds {
			return false
		}
		harmless[b.Name] = b.Settled
	}
	isUnknown := func(name string) bool { return !harmless[name] }
	return !slices.ContainsFunc(s.Missing, isUnknown) && s.NotServed.isEmpty() && len(s.Unseen.Of) == 0
}

// Bindings returns all Bindings of the policy, that of its name first.
func (s *State) Bindings() []*controlv1alpha1.Binding {
	var all []*controlv1alpha1.Binding
	if s.First != nil && OwnedBy(s.First, string(s.Policy.UID)) {
		all = append(all, s.First)
	}
	return append(all, s.Overflow...)
}

// WritesBindings reports whether the policy is able to write its Bindings: its spec is valid, it is
// not being deleted, and the Binding of its name, if there is one, is its own and stays.
func (s *State) WritesBindings() bool {
	return s.Policy.DeletionTimestamp == nil && len(s.Invalid) == 0 && s.ownsName()
}

func (s *State) ownsName() bool {
	return s.First == nil || OwnedBy(s.First, string(s.Policy.UID)) && s.First.DeletionTimestamp == nil
}

// OwnedBy reports whether the policy of that UID controls the Binding.
func OwnedBy(binding *controlv1alpha1.Binding, uid string) bool {
	owner := metav1.GetControllerOfNoCopy(binding)
	return owner != nil && string(owner.UID) == uid
}

// SpecsOf returns the specs of Bindings; nil for a nil Binding.
func SpecsOf(bindings []*controlv1alpha1.Binding) []*controlv1alpha1.BindingSpec {
	specs := make([]*controlv1alpha1.BindingSpec, len(bindings))
	for i, b := range bindings {
		if b != nil {
			specs[i] = &b.Spec
		}
	}
	return specs
}

// CountObjects returns the number of objects that a spec lists.
func CountObjects(spec *controlv1alpha1.BindingSpec) int {
	return len(spec.Workload.ClusterScope) + len(spec.Workload.NamespaceScope)
}

// Soonest is the soonest of some durations. Those that are not positive do not count; 0 is none.
type Soonest time.Duration

// At adds a duration.
func (s *Soonest) At(d time.Duration) {
	if d > 0 && (*s == 0 || d < time.Duration(*s)) {
		*s = Soonest(d)
	}
}

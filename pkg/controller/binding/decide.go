package binding

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	corebinding "github.com/starlinghq/starling/pkg/core/binding"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
)

// input is all that a decision about one policy is made on.
type input struct {
	policy *controlv1alpha1.BindingPolicy
	// binding is that of the policy's name, whoever owns it; nil if there is none. overflow are the policy's other Bindings,
	// in their order.
	binding  *controlv1alpha1.Binding
	overflow []*controlv1alpha1.Binding
	// maxSize is how large a Binding becomes before another one begins.
	maxSize int
	// taken tells whether there is a Binding of that name, whoever owns it.
	taken func(name string) bool
	// invalid says what is wrong with the policy.
	invalid []string
	// unserved says what the policy names and the WDS does not serve.
	unserved  []string
	miscounts []match.Miscount
	// selected is what the policy selects, unless isSettled: then the Bindings are known to say just that.
	selected  match.Snapshot
	isSettled bool
	// unread lists what could matter to the policy and was not read yet; unreadFor is for how long that has been so.
	unread    []string
	unreadFor time.Duration
	// collectors is what is known of the StatusCollectors that the policy names.
	collectors collectors
	// valve says how the policy wants to be held; mistakes are what is wrong with its annotations.
	valve    corebinding.Valve
	mistakes []string
	// troubles keep the status of objects from coming back; troublesAgain is when to look for them again.
	troubles      []string
	troublesAgain time.Duration
	// byItself and withOthers tell how objects depart.
	byItself, withOthers func(objref.Ref) bool
	isUnread             func(schema.GroupResource) bool
	unreadCluster        func(name string) bool
	// takers are the policies that may take over what this one lets go; nil if it does not wait for any.
	takers *takers
	// waitSet and waitVersions are how long a write of the Bindings must wait.
	waitSet, waitVersions time.Duration
	now                   time.Time
}

// bindings returns all Bindings of the policy, that of its name first.
func (in *input) bindings() []*controlv1alpha1.Binding {
	var all []*controlv1alpha1.Binding
	if in.binding != nil && ownedBy(in.binding, string(in.policy.UID)) {
		all = append(all, in.binding)
	}
	return append(all, in.overflow...)
}

// plan is what is to be done about one policy, beside its status.
type plan struct {
	addFinalizer bool
	// writes are the Bindings that are to be written, in this order.
	writes []bindingChange
	// settled: the Bindings are what they should be and all is read.
	settled bool
	// waits: something stays until another policy has taken it over.
	waits bool
	// held is what the safety valve holds, and released what was held until it was released. spent tells that nothing is left that
	// could be released: the annotation that did must not let the same accident through another time.
	held, released *corebinding.Loss
	spent          bool
	// after is when to look again.
	after soonest
}

// bindingChange is a write of one Binding.
type bindingChange struct {
	// before is the Binding as it is, nil if there is none; after is what it shall be, nil if it shall not be.
	before, after *controlv1alpha1.Binding
	reason        string
}

// soonest is the soonest of some durations; those that are not positive do not count.
type soonest struct{ d time.Duration }

func (s *soonest) at(d time.Duration) {
	if d > 0 && (s.d == 0 || d < s.d) {
		s.d = d
	}
}

func (s *soonest) duration() time.Duration { return s.d }

// decide plans for a policy that is not being deleted.
func decide(in *input) *plan {
	p := &plan{addFinalizer: !slices.Contains(in.policy.Finalizers, controlv1alpha1.BindingPolicyFinalizer)}
	if len(in.invalid) > 0 || !mayWrite(in) {
		return p
	}
	if len(in.unread) > 0 {
		p.after.at(patienceUnread) // what makes it readable again need not be an event
	}
	if in.isSettled {
		p.writes = annotated(in)
		p.spent = in.valve.Release != ""
		return p
	}
	bindings := in.bindings()
	stored := corebinding.Unite(specsOf(bindings))
	compute := corebinding.Input{
		Selected: in.selected, Stored: stored, Unread: in.isUnread, UnreadCluster: in.unreadCluster,
	}
	if in.takers != nil {
		compute.Awaits, compute.AwaitsCluster = in.takers.awaitsObject, in.takers.awaitsCluster
	}
	spec := corebinding.Compute(compute)
	if p.waits = in.takers.waits(); p.waits {
		p.after.at(lookForTakers)
	}
	if stored != nil {
		spec, p.held, p.released = in.valve.Hold(corebinding.Change{Stored: stored, Wanted: &spec, Deleted: in.byItself, Going: in.withOthers})
	}
	changes, difference := divide(in, spec)
	if difference == corebinding.Equal {
		p.writes = annotated(in)
		p.settled = len(in.unread) == 0 && p.held == nil && !p.waits && len(p.writes) == 0
		p.spent = in.valve.Release != "" && len(in.unread) == 0 && p.held == nil && !p.waits
		return p
	}
	wait := in.waitSet
	switch {
	case in.binding == nil:
		wait = 0 // it is the first, or somebody deleted it
	case difference == corebinding.Versions:
		wait = in.waitVersions
	}
	if wait > 0 {
		p.after.at(wait)
		return p
	}
	p.writes = changes
	p.spent = p.released != nil && !p.waits
	return p
}

// divide returns the writes that make the policy's Bindings say that spec, and how far they are from it.
func divide(in *input, spec controlv1alpha1.BindingSpec) ([]bindingChange, corebinding.Difference) {
	// The first is that of the policy's name, also if there is none. What somebody deletes takes nothing any more; what it
	// lists goes to another.
	homes := []*controlv1alpha1.Binding{in.binding}
	for _, b := range in.overflow {
		if b.DeletionTimestamp == nil {
			homes = append(homes, b)
		}
	}
	stored := specsOf(homes)
	if in.binding == nil {
		stored[0] = &controlv1alpha1.BindingSpec{}
	}
	most := corebinding.Equal
	var changes []bindingChange
	change := func(c bindingChange, difference corebinding.Difference) {
		changes = append(changes, c)
		most = max(most, difference)
	}
	n := 1
	for i, part := range corebinding.Divide(spec, stored, in.maxSize) {
		switch {
		case i > 0 && i < len(homes) && corebinding.Empty(&part) && corebinding.Empty(stored[i]):
			change(bindingChange{before: homes[i], reason: reasonEmpty}, corebinding.Set)
		case i < len(homes) && homes[i] != nil:
			switch difference := corebinding.Diff(stored[i], &part); difference {
			case corebinding.Equal:
			case corebinding.Versions:
				change(bindingChange{homes[i], withSpec(in, homes[i], part), reasonVersions}, difference)
			case corebinding.Set:
				change(bindingChange{homes[i], withSpec(in, homes[i], part), reasonSet}, difference)
			}
		case i == 0:
			change(bindingChange{after: newBinding(in.policy, in.policy.Name, part), reason: reasonPlaced}, corebinding.Set)
		default:
			var name string
			name, n = nextOverflow(in.policy.Name, n, in.taken)
			change(bindingChange{after: newBinding(in.policy, name, part), reason: reasonPlaced}, corebinding.Set)
		}
	}
	return changes, most
}

// nextOverflow returns the first name for a further Binding that is free, counting on from the nth, and its number. A name that
// somebody else has is passed over.
func nextOverflow(policy string, n int, taken func(string) bool) (string, int) {
	for {
		n++
		if name := corebinding.OverflowName(policy, n); !taken(name) {
			return name, n
		}
	}
}

// annotated returns the writes that hand the policy's annotations on, if nothing else is to be written.
func annotated(in *input) []bindingChange {
	var changes []bindingChange
	for _, b := range in.bindings() {
		if _, changed := corebinding.Annotate(b.Annotations, in.policy.Annotations); changed && b.DeletionTimestamp == nil {
			changes = append(changes, bindingChange{b, withSpec(in, b, b.Spec), reasonAnnotations})
		}
	}
	return changes
}

// withSpec returns the Binding with that spec and the policy's annotations, for an update.
func withSpec(in *input, b *controlv1alpha1.Binding, spec controlv1alpha1.BindingSpec) *controlv1alpha1.Binding {
	written := &controlv1alpha1.Binding{TypeMeta: bindingType, ObjectMeta: *b.ObjectMeta.DeepCopy(), Spec: spec}
	written.Annotations, _ = corebinding.Annotate(b.Annotations, in.policy.Annotations)
	written.Status = b.Status // it is not written; the status of the policy is computed from it
	return written
}

func specsOf(bindings []*controlv1alpha1.Binding) []*controlv1alpha1.BindingSpec {
	specs := make([]*controlv1alpha1.BindingSpec, len(bindings))
	for i, b := range bindings {
		if b != nil {
			specs[i] = &b.Spec
		}
	}
	return specs
}

// mayWrite tells whether the Binding is the policy's to write, or is not there.
func mayWrite(in *input) bool {
	return in.binding == nil || ownedBy(in.binding, string(in.policy.UID)) && in.binding.DeletionTimestamp == nil
}

var bindingType = metav1.TypeMeta{APIVersion: controlv1alpha1.GroupVersion.String(), Kind: "Binding"}

// newBinding returns a Binding of the policy. All but the first are labelled, so that they can be found when a cache is not enough.
func newBinding(policy *controlv1alpha1.BindingPolicy, name string, spec controlv1alpha1.BindingSpec) *controlv1alpha1.Binding {
	isController, blocks := true, false
	annotations, _ := corebinding.Annotate(nil, policy.Annotations)
	var labels map[string]string
	if name != policy.Name {
		labels = map[string]string{controlv1alpha1.LabelOverflowOf: string(policy.UID)}
	}
	return &controlv1alpha1.Binding{
		TypeMeta: bindingType,
		Spec:     spec,
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Labels:      labels,
			Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion:         controlv1alpha1.GroupVersion.String(),
				Kind:               "BindingPolicy",
				Name:               policy.Name,
				UID:                policy.UID,
				Controller:         &isController,
				BlockOwnerDeletion: &blocks,
			}},
		},
	}
}

// ownedBy tells whether the policy of that UID controls the Binding.
func ownedBy(binding *controlv1alpha1.Binding, uid string) bool {
	owner := metav1.GetControllerOfNoCopy(binding)
	return owner != nil && string(owner.UID) == uid
}

// boundResources returns the resources of the objects of the Bindings; one may be there more than once.
func boundResources(bindings []*controlv1alpha1.Binding) []schema.GroupResource {
	var bound []schema.GroupResource
	add := func(group, resource string) {
		gr := schema.GroupResource{Group: group, Resource: resource}
		if len(bound) == 0 || bound[len(bound)-1] != gr { // they are sorted, but for those edited by hand
			bound = append(bound, gr)
		}
	}
	for _, b := range bindings {
		for i := range b.Spec.Workload.ClusterScope {
			add(b.Spec.Workload.ClusterScope[i].Group, b.Spec.Workload.ClusterScope[i].Resource)
		}
		for i := range b.Spec.Workload.NamespaceScope {
			add(b.Spec.Workload.NamespaceScope[i].Group, b.Spec.Workload.NamespaceScope[i].Resource)
		}
	}
	return bound
}

func countObjects(spec *controlv1alpha1.BindingSpec) int {
	return len(spec.Workload.ClusterScope) + len(spec.Workload.NamespaceScope)
}

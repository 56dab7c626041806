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
	// binding is that of the policy's name, whoever owns it; nil if there is none.
	binding *controlv1alpha1.Binding
	// invalid says what is wrong with the policy.
	invalid []string
	// unserved says what the policy names and the WDS does not serve.
	unserved  []string
	miscounts []match.Miscount
	// selected is what the policy selects, unless isSettled: then the Binding is known to say just that.
	selected  match.Snapshot
	isSettled bool
	// unread lists what could matter to the policy and was not read yet; unreadFor is for how long that has been so.
	unread    []string
	unreadFor time.Duration
	// valve says how the policy wants to be held; mistakes are what is wrong with its annotations.
	valve    corebinding.Valve
	mistakes []string
	// byItself and withOthers tell how objects depart.
	byItself, withOthers func(objref.Ref) bool
	isUnread             func(schema.GroupResource) bool
	unreadCluster        func(name string) bool
	// waitSet and waitVersions are how long a write of the Binding must wait.
	waitSet, waitVersions time.Duration
	now                   time.Time
}

// plan is what is to be done about one policy, beside its status.
type plan struct {
	addFinalizer bool
	// write is the Binding to be created or, if there is one, updated; nil if it is as it should be, or cannot be written
	// now.
	write *controlv1alpha1.Binding
	// reason of the write.
	reason string
	// settled: the Binding is what it should be and all is read.
	settled bool
	// held is what the safety valve holds, and release tells that the write was held until it was released.
	held    *corebinding.Loss
	release bool
	// after is when to look again.
	after soonest
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
	var annotations map[string]string
	annotate := false
	if in.binding != nil {
		annotations, annotate = corebinding.Annotate(in.binding.Annotations, in.policy.Annotations)
	}
	write := func(spec controlv1alpha1.BindingSpec, reason string) {
		p.write = &controlv1alpha1.Binding{TypeMeta: bindingType, ObjectMeta: *in.binding.ObjectMeta.DeepCopy(), Spec: spec}
		p.write.Annotations = annotations
		p.write.Status = in.binding.Status // it is not written; the status of the policy is computed from it
		p.reason = reason
	}
	if in.isSettled {
		if annotate {
			write(in.binding.Spec, reasonAnnotations)
		}
		return p
	}
	var stored *controlv1alpha1.BindingSpec
	if in.binding != nil {
		stored = &in.binding.Spec
	}
	spec := corebinding.Compute(corebinding.Input{
		Selected: in.selected, Stored: stored, Unread: in.isUnread, UnreadCluster: in.unreadCluster,
	})
	if in.binding == nil {
		p.write, p.reason = newBinding(in.policy), reasonPlaced
		p.write.Spec = spec
		return p
	}
	spec, p.held, p.release = in.valve.Hold(corebinding.Change{Stored: stored, Wanted: &spec, Deleted: in.byItself, Going: in.withOthers})
	wait := in.waitSet
	switch corebinding.Diff(stored, &spec) {
	case corebinding.Equal:
		p.settled = len(in.unread) == 0 && p.held == nil && !annotate
		if annotate {
			write(*stored, reasonAnnotations)
		}
		return p
	case corebinding.Versions:
		p.reason = reasonVersions
		wait = in.waitVersions
	case corebinding.Set:
		p.reason = reasonSet
	}
	if wait > 0 {
		p.after.at(wait)
		return p
	}
	write(spec, p.reason)
	return p
}

// mayWrite tells whether the Binding is the policy's to write, or is not there.
func mayWrite(in *input) bool {
	return in.binding == nil || ownedBy(in.binding, string(in.policy.UID)) && in.binding.DeletionTimestamp == nil
}

var bindingType = metav1.TypeMeta{APIVersion: controlv1alpha1.GroupVersion.String(), Kind: "Binding"}

func newBinding(policy *controlv1alpha1.BindingPolicy) *controlv1alpha1.Binding {
	isController, blocks := true, false
	annotations, _ := corebinding.Annotate(nil, policy.Annotations)
	return &controlv1alpha1.Binding{
		TypeMeta: bindingType,
		ObjectMeta: metav1.ObjectMeta{
			Name:        policy.Name,
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

func boundResources(binding *controlv1alpha1.Binding) []schema.GroupResource {
	if binding == nil {
		return nil
	}
	var bound []schema.GroupResource
	add := func(group, resource string) {
		gr := schema.GroupResource{Group: group, Resource: resource}
		if len(bound) == 0 || bound[len(bound)-1] != gr { // they are sorted, but for those edited by hand
			bound = append(bound, gr)
		}
	}
	for i := range binding.Spec.Workload.ClusterScope {
		add(binding.Spec.Workload.ClusterScope[i].Group, binding.Spec.Workload.ClusterScope[i].Resource)
	}
	for i := range binding.Spec.Workload.NamespaceScope {
		add(binding.Spec.Workload.NamespaceScope[i].Group, binding.Spec.Workload.NamespaceScope[i].Resource)
	}
	return bound
}

func countObjects(spec *controlv1alpha1.BindingSpec) int {
	return len(spec.Workload.ClusterScope) + len(spec.Workload.NamespaceScope)
}

package binding

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
)

const (
	// RecheckUnread is how soon the policy is synced again while something has not synced: what
	// heals it need not be an event. The status reports nothing sooner either: a start, or a new
	// kind of object, takes a moment.
	RecheckUnread = 10 * time.Second
	// reportReading is how long the status reports nothing of what is being read without an error.
	// A hundred thousand objects are read in some seconds on an idle machine. A restart must not
	// write the status of every policy, and then again.
	reportReading = 5 * time.Minute
	// RecheckRetained is how soon a policy is synced again that waits for others. Their Bindings
	// are events; it heals a lost one.
	RecheckRetained = 10 * time.Second
	// RecheckUnseen is how soon a policy is synced again that waits for what a watch has not shown
	// yet. What it then shows need not concern the policy, so it need not be an event of it.
	RecheckUnseen = time.Second
	// RecheckDeletion is how soon a policy is synced again that waits for the end of its Bindings.
	// It heals a lost event.
	RecheckDeletion = 30 * time.Second
)

// Reasons of writes, as the metric counts them.
const (
	ReasonPlaced      = "placed"
	ReasonSet         = "set"
	ReasonVersions    = "versions"
	ReasonEmpty       = "empty"
	ReasonDeleted     = "policy-deleted"
	ReasonAnnotations = "annotations"
)

// Decision has the writes for one policy, without that of its status.
type Decision struct {
	// AddFinalizer comes before all writes. RemoveFinalizer says that the cache shows no Binding
	// any more: it is to be removed if the API server shows none either.
	AddFinalizer, RemoveFinalizer bool
	// Writes are the Bindings to write, in this order.
	Writes []Write
	// UpToDate: the Bindings are what they should be, and everything is read.
	UpToDate bool
	// Waits: objects or clusters come or go, and the write of that has to wait. What was reported
	// before is not about the policy as it is now.
	Waits bool
	// Retained stays in the Bindings until other policies list it, RetainedSince since when.
	Retained      Retained
	RetainedSince map[objref.Ref]time.Time
	// Leaving is what the writes remove from clusters: it is to be confirmed first.
	Leaving Leaving
	// MissingSince is since when something has not synced, is not served or is Unseen; zero if all
	// was observed.
	MissingSince time.Time
	// Blocked is what the removal block holds back, Allowed what it would hold back if a user had
	// not allowed it.
	Blocked, Allowed *Loss
	// RemoveAllowance: nothing is left that the annotation could allow. It must not allow the same
	// accident another time.
	RemoveAllowance bool
	// After is when to sync the policy again.
	After Soonest
}

// Write is a write of one Binding.
type Write struct {
	// Before is the stored Binding, nil if there is none. After is the desired one, nil if it is to
	// be deleted.
	Before, After *controlv1alpha1.Binding
	Reason        string
}

// Decide decides about one policy.
func Decide(s *State) Decision {
	var d Decision
	if !s.IsObserved() {
		if d.MissingSince = s.MissingSince; d.MissingSince.IsZero() {
			d.MissingSince = s.Now
		}
	}
	if s.Policy.DeletionTimestamp != nil {
		d.delete(s)
		return d
	}
	d.AddFinalizer = !slices.Contains(s.Policy.Finalizers, controlv1alpha1.BindingPolicyFinalizer)
	if !s.WritesBindings() {
		return d
	}
	if len(s.Missing) > 0 {
		d.After.At(RecheckUnread)
	}
	if s.UpToDate {
		d.Writes = annotated(s)
		d.RemoveAllowance = s.RemovalBlock.Token != ""
		return d
	}
	stored := Unite(SpecsOf(s.Bindings()))
	d.retain(s, s.Selected, stored)
	spec := Compute(Input{Selected: s.Selected, Stored: stored, Unread: s.Unread, Retained: d.Retained})
	if stored != nil {
		spec, d.Blocked, d.Allowed = s.RemovalBlock.Apply(Change{Stored: stored, Desired: &spec, Departed: s.Departed, Unread: s.Unread.Clusters})
	}
	writes, difference := divide(s, spec)
	waits := len(d.Retained.Objects) > 0
	if difference == Equal {
		d.Writes = annotated(s)
		d.UpToDate = len(s.Missing) == 0 && d.Blocked == nil && !waits && len(d.Writes) == 0
		d.RemoveAllowance = s.RemovalBlock.Token != "" && len(s.Missing) == 0 && d.Blocked == nil && !waits
		return d
	}
	wait := s.WaitSet
	switch {
	case s.First == nil:
		wait = 0 // it is the first, or somebody deleted it
	case difference == Versions:
		wait = s.WaitVersions
	}
	if wait > 0 {
		d.After.At(wait)
		d.Waits = difference == Set
		return d
	}
	d.Writes, d.Leaving = writes, s.leaving(stored, &spec)
	d.RemoveAllowance = d.Allowed != nil && !waits
	return d
}

// retain finds what stays for other policies, or since something was not seen yet.
func (d *Decision) retain(s *State, selected match.Snapshot, stored *controlv1alpha1.BindingSpec) {
	d.Retained = s.HandOver.Retained(selected, stored)
	if len(s.Unseen.Of) > 0 {
		d.After.At(RecheckUnseen)
		d.Retained.add(&s.Unseen)
	}
	if len(d.Retained.Objects) == 0 {
		return
	}
	d.After.At(RecheckRetained)
	d.RetainedSince = make(map[objref.Ref]time.Time, len(d.Retained.Objects))
	for ref, policy := range d.Retained.Objects {
		if policy == "" {
			continue
		}
		since, known := s.RetainedSince[ref]
		if !known {
			since = s.Now
		}
		d.RetainedSince[ref] = since
	}
}

// delete decides about a policy that is being deleted. Its Bindings go first, but for what other
// policies do not list yet.
func (d *Decision) delete(s *State) {
	if !slices.Contains(s.Policy.Finalizers, controlv1alpha1.BindingPolicyFinalizer) {
		return
	}
	bindings := s.Bindings()
	if len(bindings) == 0 {
		d.RemoveFinalizer = true
		return
	}
	// Their end is an event.
	d.After.At(RecheckDeletion)
	stored := Unite(SpecsOf(bindings))
	d.retain(s, match.Snapshot{}, stored)
	if len(d.Retained.Objects) > 0 && bindings[0].DeletionTimestamp == nil {
		d.deleteRest(s, stored, d.Retained.Of(stored))
		return
	}
	d.Retained, d.RetainedSince = Retained{}, nil // what was deleted already cannot be retained
	if bindings[0].DeletionTimestamp == nil {
		d.Leaving = s.leaving(stored, &controlv1alpha1.BindingSpec{})
	}
	for _, b := range bindings {
		// How it leaves can be changed while it does.
		if _, changed := Annotate(b.Annotations, s.Policy); changed {
			d.Writes = append(d.Writes, Write{b, withSpec(s, b, b.Spec), ReasonAnnotations})
		}
		d.Writes = append(d.Writes, Write{Before: b, Reason: ReasonDeleted})
	}
}

// deleteRest decides about a policy that is being deleted and whose Bindings are to list that spec
// until other policies list it.
func (d *Decision) deleteRest(s *State, stored *controlv1alpha1.BindingSpec, spec controlv1alpha1.BindingSpec) {
	if s.First == nil || !s.ownsName() {
		return // there is no place but the overflow: it stays as it is
	}
	switch writes, difference := divide(s, spec); {
	case difference == Equal:
		d.Writes = annotated(s)
	case s.WaitSet > 0:
		d.After.At(s.WaitSet)
	default:
		d.Writes, d.Leaving = writes, s.leaving(stored, &spec)
	}
}

// divide returns the writes that make the policy's Bindings list that spec, and how far they are
// from it.
func divide(s *State, spec controlv1alpha1.BindingSpec) ([]Write, Difference) {
	// The first is that of the policy's name, also if there is none. A Binding that is being
	// deleted gets nothing any more; what it lists goes to another.
	homes := []*controlv1alpha1.Binding{s.First}
	for _, b := range s.Overflow {
		if b.DeletionTimestamp == nil {
			homes = append(homes, b)
		}
	}
	stored := SpecsOf(homes)
	if s.First == nil {
		stored[0] = &controlv1alpha1.BindingSpec{}
	}
	most := Equal
	var writes []Write
	write := func(w Write, difference Difference) {
		writes = append(writes, w)
		most = max(most, difference)
	}
	n := 1
	for i, part := range Divide(spec, stored, s.MaxSize) {
		switch {
		case i > 0 && i < len(homes) && CountObjects(&part)+CountObjects(stored[i]) == 0:
			write(Write{Before: homes[i], Reason: ReasonEmpty}, Set)
		case i < len(homes) && homes[i] != nil:
			switch difference := Diff(stored[i], &part); difference {
			case Equal:
			case Versions:
				write(Write{homes[i], withSpec(s, homes[i], part), ReasonVersions}, difference)
			case Set:
				write(Write{homes[i], withSpec(s, homes[i], part), ReasonSet}, difference)
			}
		case i == 0:
			write(Write{After: newBinding(s.Policy, s.Policy.Name, part), Reason: ReasonPlaced}, Set)
		default:
			var name string
			name, n = NextOverflow(s.Policy.Name, n, s.NamesTaken)
			write(Write{After: newBinding(s.Policy, name, part), Reason: ReasonPlaced}, Set)
		}
	}
	return writes, most
}

// NextOverflow returns the first free name for a further Binding, counting on from the nth, and its
// number. A name that somebody else's Binding has is passed over.
func NextOverflow(policy string, n int, taken map[string]bool) (string, int) {
	for {
		n++
		if name := OverflowName(policy, n); !taken[name] {
			return name, n
		}
	}
}

// annotated returns the writes that copy the policy's annotations to its Bindings, if nothing else
// is to be written.
func annotated(s *State) []Write {
	var writes []Write
	for _, b := range s.Bindings() {
		if _, changed := Annotate(b.Annotations, s.Policy); changed && b.DeletionTimestamp == nil {
			writes = append(writes, Write{b, withSpec(s, b, b.Spec), ReasonAnnotations})
		}
	}
	return writes
}

// withSpec returns the Binding with that spec and the policy's annotations, for an update.
func withSpec(s *State, b *controlv1alpha1.Binding, spec controlv1alpha1.BindingSpec) *controlv1alpha1.Binding {
	written := &controlv1alpha1.Binding{TypeMeta: bindingType, ObjectMeta: *b.ObjectMeta.DeepCopy(), Spec: spec}
	written.Annotations, _ = Annotate(b.Annotations, s.Policy)
	written.Status = b.Status // it is not written; the status of the policy is computed from it
	return written
}

var bindingType = metav1.TypeMeta{APIVersion: controlv1alpha1.GroupVersion.String(), Kind: "Binding"}

// newBinding returns a Binding of the policy. All but the first are labelled, so that they can be
// found when a cache is not enough.
func newBinding(policy *controlv1alpha1.BindingPolicy, name string, spec controlv1alpha1.BindingSpec) *controlv1alpha1.Binding {
	isController, blocks := true, false
	annotations, _ := Annotate(nil, policy)
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

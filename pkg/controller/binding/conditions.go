package binding

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	corebinding "github.com/starlinghq/starling/pkg/core/binding"
	"github.com/starlinghq/starling/pkg/core/match"
)

const (
	// maxErrors bounds status.errors.
	maxErrors = 32
	// maxListed bounds the things that one message lists.
	maxListed = 6
	// maxMiscounts bounds the examples in the error about singletons, as the contract does.
	maxMiscounts = 4
	// patienceUnread is how long something may be unread before the status says so: a start or a new kind of object takes
	// a moment, and is no news.
	patienceUnread = 10 * time.Second
)

// statusOf returns the status that the policy shall have, or nil if it is to stay as it is for now. The times of conditions
// are those of their last transitions.
func statusOf(in *input, d done) *controlv1alpha1.BindingPolicyStatus {
	if len(in.unread) > 0 && in.unreadFor < patienceUnread && d.err == nil {
		return nil
	}
	status := &controlv1alpha1.BindingPolicyStatus{
		Conditions:         slices.Clone(in.policy.Status.Conditions),
		ObservedGeneration: in.policy.Generation,
		Errors:             statusErrors(in, d),
	}
	set := func(c metav1.Condition) {
		c.ObservedGeneration = in.policy.Generation
		c.LastTransitionTime = metav1.NewTime(in.now)
		meta.SetStatusCondition(&status.Conditions, c)
	}
	if d.held != nil {
		set(heldOf(in.policy.Name, d.held))
	} else {
		meta.RemoveStatusCondition(&status.Conditions, controlv1alpha1.BindingPolicyConditionHeld)
	}
	setCollectors(&status.Conditions, in.collectors, set)
	synced := syncedOf(in, d)
	set(synced)
	ready := readyOf(d, synced, status.Errors)
	stored := meta.FindStatusCondition(in.policy.Status.Conditions, controlv1alpha1.BindingPolicyConditionReady)
	if d.settling > 0 && ready.Reason == controlv1alpha1.ReasonNotDelivered && unobserved(d.binding) &&
		stored != nil && stored.Status == metav1.ConditionTrue && stored.ObservedGeneration == in.policy.Generation {
		// The transport has not seen the last write of the Binding yet. To say so would write each policy twice for each
		// change; the caller looks again when the transport has had its time.
		ready = *stored
	}
	set(ready)
	if d.binding != nil && ownedBy(d.binding, string(in.policy.UID)) {
		for _, kind := range transported {
			if c := condition(d.binding, kind); c != nil {
				set(*c)
			}
		}
		status.Problems, status.Rollup = d.binding.Status.Problems, d.binding.Status.Rollup
	}
	return status
}

func syncedOf(in *input, d done) metav1.Condition {
	c := metav1.Condition{Type: controlv1alpha1.BindingPolicyConditionSynced, Status: metav1.ConditionFalse}
	switch {
	case in.policy.DeletionTimestamp != nil:
		c.Reason = controlv1alpha1.ReasonDeleting
		c.Message = "waiting until the objects have left the clusters"
		if delivered := condition(d.binding, controlv1alpha1.BindingConditionDelivered); delivered != nil && delivered.Reason == controlv1alpha1.ReasonDeleting {
			c.Message += ": " + delivered.Message
		}
		if d.err != nil && !apierrors.IsConflict(d.err) {
			c.Message += "; cannot delete a Binding: " + d.err.Error()
		}
	case len(in.invalid) > 0:
		c.Reason = controlv1alpha1.ReasonInvalidSpec
		c.Message = list(in.invalid, 1) + "; the Binding stays as it was"
	case in.binding != nil && !ownedBy(in.binding, string(in.policy.UID)):
		c.Reason = controlv1alpha1.ReasonNameTaken
		c.Message = fmt.Sprintf("the Binding %q does not belong to this policy; delete it, or give the policy another name", in.binding.Name)
	case in.binding != nil && in.binding.DeletionTimestamp != nil:
		c.Reason = controlv1alpha1.ReasonDeleting
		c.Message = "somebody deleted the Binding; it is made again when its objects have left the clusters"
	case d.err != nil:
		c.Reason = controlv1alpha1.ReasonFailed
		c.Message = "cannot write the Binding: " + d.err.Error()
	case d.held != nil:
		c.Reason = controlv1alpha1.ReasonHeld
		c.Message = "see condition Held"
	case len(in.unread) > 0:
		c.Status = metav1.ConditionUnknown
		c.Reason = controlv1alpha1.ReasonNotObserved
		c.Message = "could not be read since the start, and stay as they were: " + list(in.unread, maxListed)
	default:
		c.Status = metav1.ConditionTrue
		c.Reason = controlv1alpha1.ReasonSynced
		c.Message = emptiness(d.binding)
	}
	return c
}

// heldOf says what the safety valve holds, and how to let it go.
func heldOf(policy string, loss *corebinding.Loss) metav1.Condition {
	what := "everything"
	if len(loss.Objects) > 0 {
		objects := make([]string, len(loss.Objects))
		for i, ref := range loss.Objects {
			objects[i] = ref.String()
		}
		what = "everything (" + list(objects, maxListed) + ")"
	}
	return metav1.Condition{
		Type: controlv1alpha1.BindingPolicyConditionHeld, Status: metav1.ConditionTrue, Reason: controlv1alpha1.ReasonSafetyValve,
		Message: fmt.Sprintf("the last change would take %s from %d of %d clusters (%s), so it waits as a whole. Undo it, or release it with: kubectl annotate bindingpolicy %s %s=%s",
			what, len(loss.Clusters), loss.Of, list(loss.Clusters, maxListed), policy, controlv1alpha1.AnnotationReleaseHeld, loss.Token),
	}
}

// emptiness says what a user who waits for objects wants to know first.
func emptiness(binding *controlv1alpha1.Binding) string {
	if binding == nil {
		return ""
	}
	spec := &binding.Spec
	switch objects, clusters := countObjects(spec), len(spec.Destinations); {
	case objects == 0 && clusters == 0:
		return "the policy selects no objects and no clusters"
	case objects == 0:
		return "the policy selects no objects"
	case clusters == 0:
		return "the policy selects no clusters"
	}
	return ""
}

func readyOf(d done, synced metav1.Condition, errs []string) metav1.Condition {
	c := metav1.Condition{Type: controlv1alpha1.BindingPolicyConditionReady, Status: metav1.ConditionFalse}
	delivered := condition(d.binding, controlv1alpha1.BindingConditionDelivered)
	applied := condition(d.binding, controlv1alpha1.BindingConditionApplied)
	switch {
	case synced.Status != metav1.ConditionTrue:
		c.Status = synced.Status
		c.Reason = controlv1alpha1.ReasonNotSynced
		c.Message = "see condition Synced"
	case d.binding == nil || unobserved(d.binding):
		c.Reason = controlv1alpha1.ReasonNotDelivered
		c.Message = "the transport has not looked at the Binding yet"
	case delivered == nil || delivered.Status != metav1.ConditionTrue:
		c.Reason = controlv1alpha1.ReasonNotDelivered
		c.Message = messageOf(delivered)
	case applied == nil || applied.Status != metav1.ConditionTrue:
		if applied != nil {
			c.Status = applied.Status // Unknown, if nothing comes back from some clusters
		}
		c.Reason = controlv1alpha1.ReasonNotApplied
		c.Message = messageOf(applied)
	case len(errs) > 0:
		c.Reason = controlv1alpha1.ReasonErrors
		c.Message = "see status.errors"
	default:
		c.Status = metav1.ConditionTrue
		c.Reason = controlv1alpha1.ReasonApplied
		c.Message = applied.Message
	}
	return c
}

// merged returns what the Bindings of the policy say together; without any, the one that has its name, whoever owns it.
func (in *input) merged() *controlv1alpha1.Binding {
	if bindings := in.bindings(); len(bindings) > 0 {
		return merge(bindings)
	}
	return in.binding
}

// merge returns what the Bindings of one policy say together: of a condition what the worst of them say, of the objects some.
func merge(bindings []*controlv1alpha1.Binding) *controlv1alpha1.Binding {
	if len(bindings) == 0 {
		return nil
	}
	if len(bindings) == 1 {
		return bindings[0]
	}
	// Of the spec one that lists objects tells enough: all have the same destinations.
	some := max(0, slices.IndexFunc(bindings, func(b *controlv1alpha1.Binding) bool { return !corebinding.Empty(&b.Spec) }))
	merged := &controlv1alpha1.Binding{ObjectMeta: bindings[0].ObjectMeta, Spec: bindings[some].Spec}
	merged.Status.ObservedGeneration = merged.Generation
	for _, b := range bindings {
		if unobserved(b) {
			merged.Status.ObservedGeneration = merged.Generation - 1
		}
		merged.Status.Errors = append(merged.Status.Errors, b.Status.Errors...)
	}
	for _, kind := range transported {
		if worst := worstOf(bindings, kind); worst != nil {
			meta.SetStatusCondition(&merged.Status.Conditions, *worst)
		}
	}
	merged.Status.Rollup = addUp(bindings)
	merged.Status.Problems = firstProblems(bindings)
	return merged
}

// firstProblems returns the first problems of all Bindings, and how many more there are.
func firstProblems(bindings []*controlv1alpha1.Binding) []string {
	const most = 10
	var all []string
	more := 0
	for _, b := range bindings {
		for _, text := range b.Status.Problems {
			n := 0
			if _, err := fmt.Sscanf(text, "… and %d more", &n); err == nil {
				more += n
				continue
			}
			all = append(all, text)
		}
	}
	slices.Sort(all)
	if left := len(all) - most; left > 0 {
		all, more = all[:most], more+left
	}
	if more > 0 {
		all = append(all, fmt.Sprintf("… and %d more", more))
	}
	return all
}

// transported are the conditions of Bindings that policies show too.
var transported = []string{
	controlv1alpha1.BindingConditionDelivered, controlv1alpha1.BindingConditionApplied, controlv1alpha1.BindingConditionHealthy,
}

// addUp adds up what the Bindings of a policy count; all have the same clusters. Nil as long as one has not counted.
func addUp(bindings []*controlv1alpha1.Binding) *controlv1alpha1.Rollup {
	var sum controlv1alpha1.Rollup
	for _, b := range bindings {
		r := b.Status.Rollup
		if r == nil {
			return nil
		}
		sum.Objects += r.Objects
		sum.Clusters = max(sum.Clusters, r.Clusters)
		sum.Copies += r.Copies
		sum.Applied += r.Applied
		sum.Healthy += r.Healthy
	}
	sum.AppliedOf = fmt.Sprintf("%d/%d", sum.Applied, sum.Copies)
	sum.HealthyOf = fmt.Sprintf("%d/%d", sum.Healthy, sum.Copies)
	return &sum
}

// worstOf returns the worst condition of the kind, with the messages of all that are as bad; nil if one of the Bindings has none.
func worstOf(bindings []*controlv1alpha1.Binding, kind string) *metav1.Condition {
	badness := map[metav1.ConditionStatus]int{metav1.ConditionTrue: 0, metav1.ConditionUnknown: 1, metav1.ConditionFalse: 2}
	var worst metav1.Condition
	var messages []string
	for _, b := range bindings {
		c := condition(b, kind)
		if c == nil {
			return nil
		}
		if len(messages) == 0 || badness[c.Status] > badness[worst.Status] {
			worst, messages = *c, nil
		}
		if c.Status == worst.Status && !slices.Contains(messages, c.Message) {
			messages = append(messages, c.Message)
		}
	}
	const many = 3
	if more := len(messages) - many; more > 0 {
		messages = append(messages[:many], fmt.Sprintf("… and %d more", more))
	}
	worst.Message = strings.Join(messages, "; ")
	return &worst
}

// unobserved tells whether the transport has not reported on the Binding as it is.
func unobserved(binding *controlv1alpha1.Binding) bool {
	return binding != nil && binding.Status.ObservedGeneration < binding.Generation
}

func condition(binding *controlv1alpha1.Binding, kind string) *metav1.Condition {
	if binding == nil {
		return nil
	}
	return meta.FindStatusCondition(binding.Status.Conditions, kind)
}

func messageOf(c *metav1.Condition) string {
	if c == nil {
		return "the transport has not reported yet"
	}
	return c.Message
}

// statusErrors are the user's mistakes and what the transport and the clusters said, sorted and bounded.
func statusErrors(in *input, d done) []string {
	errs := slices.Concat(in.invalid, in.mistakes, in.unserved, in.troubles)
	if d.held != nil && in.valve.Release != "" {
		errs = append(errs, fmt.Sprintf("metadata.annotations[%s]: %q is not the token of what is held now; see condition Held", controlv1alpha1.AnnotationReleaseHeld, in.valve.Release))
	}
	if len(in.miscounts) > 0 {
		errs = append(errs, miscountError(in.miscounts))
	}
	if d.binding != nil && ownedBy(d.binding, string(in.policy.UID)) {
		errs = append(errs, d.binding.Status.Errors...)
	}
	slices.Sort(errs)
	errs = slices.Compact(errs)
	if more := len(errs) - maxErrors; more > 0 {
		errs = append(errs[:maxErrors:maxErrors], fmt.Sprintf("… and %d more", more))
	}
	return errs
}

// miscountError is the contract's text.
func miscountError(miscounts []match.Miscount) string {
	type objectName struct {
		Namespace string `json:"Namespace"`
		Name      string `json:"Name"`
	}
	type kind struct {
		Group   string `json:"Group"`
		Version string `json:"Version"`
		Kind    string `json:"Kind"`
	}
	type objectID struct {
		GVK        kind       `json:"GVK"`
		Resource   string     `json:"Resource"`
		ObjectName objectName `json:"ObjectName"`
	}
	type example struct {
		ObjectID objectID `json:"ObjectID"`
		NumWECs  int      `json:"NumWECs"`
	}
	examples := make([]example, 0, len(miscounts))
	for _, m := range miscounts {
		examples = append(examples, example{
			ObjectID: objectID{kind(m.Kind), m.Ref.Resource, objectName{m.Ref.Namespace, m.Ref.Name}},
			NumWECs:  m.Clusters,
		})
	}
	text, err := json.Marshal(examples)
	if err != nil { // strings and numbers
		text = []byte(err.Error())
	}
	return "Singleton reported status return is requested but some objects have the wrong number of associated WECs, for example: " + string(text)
}

// list joins the first few things of a sorted list.
func list(things []string, limit int) string {
	if more := len(things) - limit; more > 0 {
		return fmt.Sprintf("%s … and %d more", strings.Join(things[:limit], ", "), more)
	}
	return strings.Join(things, ", ")
}

// equalStatus tells whether the two mean the same.
func equalStatus(a, b *controlv1alpha1.BindingPolicyStatus) bool {
	return apiequality.Semantic.DeepEqual(a, b)
}

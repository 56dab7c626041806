package binding

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/text"
)

const (
	// maxErrors bounds status.errors.
	maxErrors = 32
	// maxListed bounds the items that one message lists.
	maxListed = 6
	// MaxMiscounts bounds the examples in the error about singletons, as the contract does.
	MaxMiscounts = 4
	// reportRetained is how long an entry may wait for another policy before the status says so.
	reportRetained = 10 * time.Second
)

// Result is what the writes of a Decision came to.
type Result struct {
	// Bindings are those of the policy after the writes, or, if it has none, the one that has its
	// name.
	Bindings []*controlv1alpha1.Binding
	// Settling is how long the transport-controller has to observe the last write before the policy
	// is reported as not ready.
	Settling time.Duration
	// Err is why a Binding, or the finalizer before it, could not be written.
	Err error
}

// Status returns the desired status of the policy, nil if it stays as it is for now, and when to
// sync the policy again. The times of conditions are those of their last transitions.
func Status(s *State, d *Decision, r Result) (*controlv1alpha1.BindingPolicyStatus, Soonest) {
	after := d.After
	after.At(r.Settling)
	after.At(s.StatusErrorsIn)
	if left := s.silence() - s.Now.Sub(d.MissingSince); !s.IsObserved() && left > 0 && r.Err == nil {
		after.At(min(left, RecheckUnread)) // a read may fail meanwhile
		return nil, after
	}
	if d.Waits {
		return nil, after // it is at most the time between two writes
	}
	merged := merge(r.Bindings)
	status := &controlv1alpha1.BindingPolicyStatus{
		Conditions:         slices.Clone(s.Policy.Status.Conditions),
		ObservedGeneration: s.Policy.Generation,
		Errors:             statusErrors(s, d, merged),
	}
	set := func(c metav1.Condition) {
		c.ObservedGeneration = s.Policy.Generation
		c.LastTransitionTime = metav1.NewTime(s.Now)
		meta.SetStatusCondition(&status.Conditions, c)
	}
	if d.Blocked != nil {
		set(removalBlocked(s.Policy.Name, d.Blocked))
	} else {
		meta.RemoveStatusCondition(&status.Conditions, controlv1alpha1.BindingPolicyConditionRemovalBlocked)
	}
	setCollectors(&status.Conditions, s.Collectors, set)
	synced := syncedCondition(s, d, r, merged)
	set(synced)
	ready := readyCondition(s, merged, synced, status.Errors)
	stored := meta.FindStatusCondition(s.Policy.Status.Conditions, controlv1alpha1.BindingPolicyConditionReady)
	if r.Settling > 0 && ready.Reason == controlv1alpha1.ReasonNotDelivered && unobserved(merged) &&
		stored != nil && stored.Status == metav1.ConditionTrue && stored.ObservedGeneration == s.Policy.Generation {
		// The transport-controller has not observed the last write of the Binding yet. Reporting
		// that would write each policy twice for each change. The policy is synced again when the
		// time is over.
		ready = *stored
	}
	set(ready)
	if merged != nil && OwnedBy(merged, string(s.Policy.UID)) {
		setTransported(&status.Conditions, merged, synced, set)
		status.Problems, status.ProblemsCount, status.Rollup = merged.Status.Problems, merged.Status.ProblemsCount, merged.Status.Rollup
	}
	return status, after
}

// setTransported copies the conditions of the Binding. They are about the policy as it is only if
// the Binding is, and if the transport-controller has observed that: otherwise each keeps the
// generation of the policy that it was about, so that who waits for an edit is not told that it has
// arrived.
func setTransported(conditions *[]metav1.Condition, merged *controlv1alpha1.Binding, synced metav1.Condition, set func(metav1.Condition)) {
	isCurrent := synced.Status == metav1.ConditionTrue && !unobserved(merged)
	for _, kind := range transported {
		c, stored := condition(merged, kind), meta.FindStatusCondition(*conditions, kind)
		switch {
		case c == nil, !isCurrent && stored == nil:
		case isCurrent:
			set(*c)
		default:
			before := stored.ObservedGeneration
			set(*c)
			meta.FindStatusCondition(*conditions, kind).ObservedGeneration = before
		}
	}
}

// silence is for how long the status does not report what has not synced.
func (s *State) silence() time.Duration {
	if s.Reading && s.NotServed.isEmpty() && len(s.Unseen.Of) == 0 {
		return reportReading
	}
	return RecheckUnread
}

func syncedCondition(s *State, d *Decision, r Result, merged *controlv1alpha1.Binding) metav1.Condition {
	c := metav1.Condition{Type: controlv1alpha1.BindingPolicyConditionSynced, Status: metav1.ConditionFalse}
	retained := retainedMessage(s, d)
	switch {
	case s.Policy.DeletionTimestamp != nil:
		c.Reason = controlv1alpha1.ReasonDeleting
		c.Message = deletingMessage(r, merged, cmp.Or(notObservedMessage(s), retained))
	case len(s.Invalid) > 0:
		c.Reason = controlv1alpha1.ReasonInvalidSpec
		c.Message = fmt.Sprintf("invalid spec: %s. The Bindings stay unchanged until it is corrected", text.List(s.Invalid, 1))
	case s.First != nil && !OwnedBy(s.First, string(s.Policy.UID)):
		c.Reason = controlv1alpha1.ReasonNameTaken
		c.Message = fmt.Sprintf("Binding %q belongs to another owner: re-create the policy under another name", s.First.Name)
	case s.First != nil && s.First.DeletionTimestamp != nil:
		c.Reason = controlv1alpha1.ReasonDeleting
		c.Message = "the Binding is being deleted by a user. It is re-created when its objects have left the clusters"
	case r.Err != nil:
		c.Reason = controlv1alpha1.ReasonFailed
		c.Message = "cannot write the Binding, will retry: " + r.Err.Error()
	case d.Blocked != nil:
		c.Reason = controlv1alpha1.ReasonRemovalBlocked
		c.Message = "see condition RemovalBlocked"
	case !s.IsObserved():
		c.Status = metav1.ConditionUnknown
		c.Reason = controlv1alpha1.ReasonNotObserved
		c.Message = notObservedMessage(s)
	case retained != "":
		c.Reason = controlv1alpha1.ReasonHandOver
		c.Message = retained
	default:
		c.Status = metav1.ConditionTrue
		c.Reason = controlv1alpha1.ReasonSynced
		c.Message = joined("; ", emptyMessage(s, merged), brokenMessage(s.Broken, true))
	}
	return c
}

// joined returns the texts that are not empty, with the separator between them.
func joined(separator string, texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), separator)
}

// brokenMessage names what fails, with the reason. It is known whether all else is.
func brokenMessage(broken []Broken, known bool) string {
	if len(broken) == 0 {
		return ""
	}
	items := make([]string, len(broken))
	for i, b := range broken {
		items[i] = fmt.Sprintf("%s (%s)", b.Name, b.Err)
	}
	what := "cannot be read, existing entries are kept and later changes are not delivered: "
	if known {
		what = "objects that cannot be read are not delivered: "
	}
	return what + text.List(items, maxListed) + ". " + text.Plural(len(items), "Repair it, or delete its", "Repair them, or delete their") +
		" CustomResourceDefinition or APIService"
}

// notObservedMessage names what has not synced, and what is not served for now and what to do about
// it. What is not served has not synced either, if that was so at startup: it is named once.
func notObservedMessage(s *State) string {
	var parts []string
	missing := slices.DeleteFunc(slices.Clone(s.Missing), func(name string) bool {
		isBroken := func(b Broken) bool { return b.Name == name }
		return s.NotServed.has(name) || slices.ContainsFunc(s.Broken, isBroken)
	})
	if len(missing) > 0 {
		parts = append(parts, "not synced since startup, existing entries are kept: "+text.List(missing, maxListed))
	}
	if n := len(s.NotServed.NoVersion); n > 0 {
		parts = append(parts, fmt.Sprintf("not served for now, existing entries are kept: %s. Set served: true in %s, or delete %s to remove the objects from the clusters",
			text.List(s.NotServed.NoVersion, maxListed),
			text.Plural(n, "a version of its CustomResourceDefinition", "versions of their CustomResourceDefinitions"),
			text.Plural(n, "the CustomResourceDefinition", "these")))
	}
	if n := len(s.NotServed.NoResponse); n > 0 {
		parts = append(parts, fmt.Sprintf("%s not respond, existing entries are kept: %s. Repair %s, or delete %s to remove the objects from the clusters",
			text.Plural(n, "the API server of this resource does", "the API servers of these resources do"), text.List(s.NotServed.NoResponse, maxListed),
			text.Plural(n, "it", "them"), text.Plural(n, "its APIService", "their APIServices")))
	}
	broken := slices.DeleteFunc(slices.Clone(s.Broken), func(b Broken) bool { return s.NotServed.has(b.Name) })
	if message := brokenMessage(broken, false); message != "" {
		parts = append(parts, message)
	}
	if len(s.Unseen.Of) > 0 {
		parts = append(parts, "a change was not observed yet, objects that it could concern stay in the clusters: "+text.List(s.Unseen.Of, maxListed))
	}
	return strings.Join(parts, "; ")
}

func deletingMessage(r Result, merged *controlv1alpha1.Binding, waits string) string {
	message := "waiting for the objects to leave the clusters"
	if delivered := condition(merged, controlv1alpha1.BindingConditionDelivered); delivered != nil && delivered.Reason == controlv1alpha1.ReasonDeleting {
		message += ": " + delivered.Message
	}
	if waits != "" {
		message = waits
	}
	if r.Err != nil && !apierrors.IsConflict(r.Err) {
		message += "; cannot write a Binding, will retry: " + r.Err.Error()
	}
	return message
}

// retainedMessage names the policies that entries have been waiting for, "" if none waits for long.
// It changes at most every ten seconds while more entries come to wait.
func retainedMessage(s *State, d *Decision) string {
	waitingFor := map[string]int{}
	total := 0
	before := s.Now.Add(-reportRetained).Truncate(reportRetained)
	for ref, since := range d.RetainedSince {
		if !since.After(before) {
			waitingFor[d.Retained.Objects[ref]]++
			total++
		}
	}
	if total == 0 {
		return ""
	}
	policies := make([]string, 0, len(waitingFor))
	for _, name := range slices.Sorted(maps.Keys(waitingFor)) {
		policies = append(policies, fmt.Sprintf("%q (%s)", name, text.Count(waitingFor[name], "object")))
	}
	return fmt.Sprintf("%s in the clusters, because %s: %s. See the conditions of %s", text.Count(total, "object stays|objects stay"),
		text.Plural(total, "another BindingPolicy selects it but does not list it yet", "other BindingPolicies select them but do not list them yet"),
		text.List(policies, maxListed), text.Plural(len(policies), "that policy", "these policies"))
}

// removalBlocked names what the removal block holds back, and how to allow it.
func removalBlocked(policy string, loss *Loss) metav1.Condition {
	what := "every object"
	if len(loss.Objects) > 0 {
		objects := make([]string, len(loss.Objects))
		for i, ref := range loss.Objects {
			objects[i] = ref.String()
		}
		what = fmt.Sprintf("every object (%s)", text.List(objects, maxListed))
	}
	unread := ""
	if loss.Unread > 0 {
		unread = fmt.Sprintf(", and it is not known whether from %s whose ITS cannot be read", text.Count(loss.Unread, "more cluster"))
	}
	return metav1.Condition{
		Type: controlv1alpha1.BindingPolicyConditionRemovalBlocked, Status: metav1.ConditionTrue, Reason: controlv1alpha1.ReasonRemovalLimitExceeded,
		Message: fmt.Sprintf("blocked: this change would remove %s from %d of %s (%s)%s. Revert it, or %skubectl annotate bindingpolicy %s %s=%s",
			what, len(loss.Clusters), text.Count(loss.Of, "cluster"), text.List(loss.Clusters, maxListed), unread, allowWith, policy,
			controlv1alpha1.AnnotationAllowRemoval, loss.Token),
	}
}

// allowWith precedes the command in the message of RemovalBlocked.
const allowWith = "allow it with: "

// AllowCommand returns the command that a message of RemovalBlocked ends with.
func AllowCommand(message string) string {
	_, command, _ := strings.Cut(message, allowWith)
	return command
}

// emptyMessage says what a user who waits for objects wants to know first.
func emptyMessage(s *State, merged *controlv1alpha1.Binding) string {
	if merged == nil {
		return ""
	}
	var empty []string
	if CountObjects(&merged.Spec) == 0 {
		empty = append(empty, noObjects)
	}
	if len(merged.Spec.Destinations) == 0 {
		empty = append(empty, noDestinations(s))
	} else if left := leftOut(s); left != "" {
		empty = append(empty, left)
	}
	return strings.Join(empty, "; ")
}

const noObjects = "no objects: nothing in the WDS matches spec.downsync"

func noDestinations(s *State) string {
	why := "no accepted cluster matches spec.clusterSelectors"
	switch {
	case len(s.Policy.Spec.ClusterSelectors) == 0:
		why = "spec.clusterSelectors is empty"
	default:
		if left := leftOut(s); left != "" {
			why = left
		}
	}
	return "no destinations: " + why
}

// leftOut names the clusters that match and are no destinations, and the command that changes that.
func leftOut(s *State) string {
	var parts []string
	add := func(clusters []string, format, verb string) {
		if n := len(clusters); n > 0 {
			parts = append(parts, fmt.Sprintf(format, text.Count(n, "cluster matches|clusters match"), text.Plural(n, "is", "are"),
				text.List(clusters, maxListed), text.Plural(n, "it", "them"), verb+" "+strings.Join(clusters[:min(n, maxListed)], " ")))
		}
	}
	add(s.Pending, "%s but %s not accepted (%s). Accept %s with: kubectl starling cluster %s", "accept")
	add(s.Drained, "%s but %s drained (%s). Deliver to %s again with: kubectl starling cluster %s", "undrain")
	return strings.Join(parts, "; ")
}

func readyCondition(s *State, merged *controlv1alpha1.Binding, synced metav1.Condition, errs []string) metav1.Condition {
	c := metav1.Condition{Type: controlv1alpha1.BindingPolicyConditionReady, Status: metav1.ConditionFalse}
	delivered := condition(merged, controlv1alpha1.BindingConditionDelivered)
	applied := condition(merged, controlv1alpha1.BindingConditionApplied)
	switch {
	case synced.Status != metav1.ConditionTrue:
		c.Status = synced.Status
		c.Reason = controlv1alpha1.ReasonNotSynced
		c.Message = "see condition Synced"
	case merged != nil && len(merged.Spec.Destinations) == 0:
		c.Reason = controlv1alpha1.ReasonNoDestinations
		c.Message = noDestinations(s)
	case merged != nil && CountObjects(&merged.Spec) == 0:
		c.Reason = controlv1alpha1.ReasonNoObjects
		c.Message = noObjects
	case merged == nil || unobserved(merged):
		c.Reason = controlv1alpha1.ReasonNotDelivered
		c.Message = "the transport-controller has not observed the Binding yet"
	case delivered == nil || delivered.Status != metav1.ConditionTrue:
		c.Reason = controlv1alpha1.ReasonNotDelivered
		c.Message = messageOf(delivered)
	case applied == nil || applied.Status != metav1.ConditionTrue:
		if applied != nil {
			c.Status = applied.Status // Unknown, if some clusters do not report
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

func messageOf(c *metav1.Condition) string {
	if c == nil {
		return "the transport-controller has not reported on the Binding yet"
	}
	return c.Message
}

// statusErrors are the user's mistakes and what the transport and the clusters reported, sorted and
// bounded.
func statusErrors(s *State, d *Decision, merged *controlv1alpha1.Binding) []string {
	errs := slices.Concat(s.Invalid, s.Mistakes, s.Unserved, s.StatusErrors)
	if d.Blocked != nil && s.RemovalBlock.Token != "" {
		errs = append(errs, fmt.Sprintf("metadata.annotations[%s]: %q is not the token of the change that is blocked now; see condition RemovalBlocked",
			controlv1alpha1.AnnotationAllowRemoval, s.RemovalBlock.Token))
	}
	if len(s.Miscounts) > 0 {
		errs = append(errs, miscountError(s.Miscounts))
	}
	if merged != nil && OwnedBy(merged, string(s.Policy.UID)) {
		errs = append(errs, merged.Status.Errors...)
	}
	if s.StatusErrorsIn > 0 {
		// What keeps status from coming back is found again soon. What was found before the start
		// is not dropped meanwhile.
		errs = append(errs, s.Policy.Status.Errors[:min(len(s.Policy.Status.Errors), maxErrors)]...)
	}
	slices.Sort(errs)
	return text.Bound(slices.Compact(errs), maxErrors)
}

// miscountError is the contract's text.
func miscountError(miscounts []match.Miscount) string {
	quote := func(text string) string {
		quoted, _ := json.Marshal(text) // a string has no error
		return string(quoted)
	}
	examples := make([]string, 0, len(miscounts))
	for _, m := range miscounts {
		examples = append(examples, fmt.Sprintf(
			`{"ObjectID":{"GVK":{"Group":%s,"Version":%s,"Kind":%s},"Resource":%s,"ObjectName":{"Namespace":%s,"Name":%s}},"NumWECs":%d}`,
			quote(m.Kind.Group), quote(m.Kind.Version), quote(m.Kind.Kind), quote(m.Ref.Resource), quote(m.Ref.Namespace), quote(m.Ref.Name), m.Clusters))
	}
	return "Singleton reported status return is requested but some objects have the wrong number of associated WECs, for example: [" +
		strings.Join(examples, ",") + "]"
}

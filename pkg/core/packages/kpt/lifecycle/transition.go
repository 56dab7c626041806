package lifecycle

import (
	"fmt"
	"slices"
	"strings"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
)

// at returns a lifecycle, which is Draft if empty.
func at(l porchv1alpha1.PackageRevisionLifecycle) porchv1alpha1.PackageRevisionLifecycle {
	if l == "" {
		return porchv1alpha1.LifecycleDraft
	}
	return l
}

// updates are the lifecycles that an update of the revision itself may set.
var updates = map[porchv1alpha1.PackageRevisionLifecycle][]porchv1alpha1.PackageRevisionLifecycle{
	porchv1alpha1.LifecycleDraft:            {porchv1alpha1.LifecycleDraft, porchv1alpha1.LifecycleProposed},
	porchv1alpha1.LifecycleProposed:         {porchv1alpha1.LifecycleDraft, porchv1alpha1.LifecycleProposed},
	porchv1alpha1.LifecyclePublished:        {porchv1alpha1.LifecyclePublished, porchv1alpha1.LifecycleDeletionProposed},
	porchv1alpha1.LifecycleDeletionProposed: {porchv1alpha1.LifecyclePublished, porchv1alpha1.LifecycleDeletionProposed},
}

// approvals are the lifecycles that an update of /approval may set.
var approvals = map[porchv1alpha1.PackageRevisionLifecycle][]porchv1alpha1.PackageRevisionLifecycle{
	porchv1alpha1.LifecycleProposed:         {porchv1alpha1.LifecyclePublished, porchv1alpha1.LifecycleDraft},
	porchv1alpha1.LifecyclePublished:        {porchv1alpha1.LifecycleDeletionProposed},
	porchv1alpha1.LifecycleDeletionProposed: {porchv1alpha1.LifecyclePublished},
}

// CheckCreate returns the error of the field spec.lifecycle of a new revision, "" if there is none.
func CheckCreate(to porchv1alpha1.PackageRevisionLifecycle) string {
	if at(to) == porchv1alpha1.LifecycleDraft {
		return ""
	}
	return fmt.Sprintf("Invalid value: %q: a revision must be created as Draft", to)
}

// CheckUpdate returns the error of the field spec.lifecycle in an update from one lifecycle to the
// other, "" if there is none.
func CheckUpdate(from, to porchv1alpha1.PackageRevisionLifecycle) string {
	from, to = at(from), at(to)
	switch next, known := updates[from]; {
	case !known:
		return fmt.Sprintf("Forbidden: the revision has the unknown lifecycle %q", from)
	case slices.Contains(next, to):
		return ""
	case to == porchv1alpha1.LifecyclePublished:
		return fmt.Sprintf("Forbidden: only the subresource approval can change %s to Published", from)
	default:
		return fmt.Sprintf("Invalid value: %q: %s can change to %s only", to, from, list(next))
	}
}

// CheckApproval returns why an update of /approval cannot change one lifecycle to the other, "" if
// it can.
func CheckApproval(from, to porchv1alpha1.PackageRevisionLifecycle) string {
	from, to = at(from), at(to)
	switch next, known := approvals[from]; {
	case !known:
		return fmt.Sprintf("cannot approve package with %s lifecycle value; only Proposed packages can be approved", from)
	case slices.Contains(next, to):
		return ""
	default:
		return fmt.Sprintf("cannot change approval from %s to %s; it can change to %s only", from, to, list(next))
	}
}

// CheckDelete returns why a revision with a lifecycle cannot be deleted, "" if it can.
func CheckDelete(l porchv1alpha1.PackageRevisionLifecycle) string {
	if at(l) == porchv1alpha1.LifecyclePublished {
		return "published PackageRevisions must be proposed for deletion by setting spec.lifecycle to 'DeletionProposed' prior to deletion"
	}
	return ""
}

// CheckFiles returns why the files of a revision with a lifecycle cannot be changed, "" if they
// can.
func CheckFiles(l porchv1alpha1.PackageRevisionLifecycle) string {
	if at(l) == porchv1alpha1.LifecycleDraft {
		return ""
	}
	return fmt.Sprintf("cannot update a package revision with lifecycle value %s; package must be Draft", l)
}

// GatesOf reports whether a transition requires the readiness gates: to propose, or to approve.
func GatesOf(from, to porchv1alpha1.PackageRevisionLifecycle) bool {
	from, to = at(from), at(to)
	return from == porchv1alpha1.LifecycleDraft && to == porchv1alpha1.LifecycleProposed ||
		from == porchv1alpha1.LifecycleProposed && to == porchv1alpha1.LifecyclePublished
}

// Unmet returns the gates of a revision that are not met, each with its condition, sorted; nil if
// the revision is ready. Gates of injection points hold up a package for a cluster only: a
// blueprint is published without what is injected (package variants, "Configuration Injection").
func Unmet(spec *porchv1alpha1.PackageRevisionSpec, status *porchv1alpha1.PackageRevisionStatus) []string {
	var unmet []string
	conditions := status.Conditions
	for _, gate := range spec.ReadinessGates {
		if !status.Deployment && strings.HasPrefix(gate.ConditionType, configv1alpha1.ConditionInjectionPrefix) {
			continue
		}
		i := slices.IndexFunc(conditions, func(c porchv1alpha1.Condition) bool { return c.Type == gate.ConditionType })
		switch {
		case i < 0:
			unmet = append(unmet, gate.ConditionType+" (no such condition)")
		case conditions[i].Status != porchv1alpha1.ConditionTrue:
			c := conditions[i]
			details := slices.DeleteFunc([]string{string(c.Status), c.Reason, c.Message}, func(part string) bool { return part == "" })
			unmet = append(unmet, gate.ConditionType+" ("+strings.Join(details, ": ")+")")
		}
	}
	slices.Sort(unmet)
	return slices.Compact(unmet)
}

// NotReady returns the message of the error if gates are not met.
func NotReady(unmet []string) string {
	return "the package revision is not ready; readiness gates that are not met: " + strings.Join(unmet, ", ")
}

func list(points []porchv1alpha1.PackageRevisionLifecycle) string {
	texts := make([]string, len(points))
	for i, point := range points {
		texts[i] = string(point)
	}
	return strings.Join(texts, " or ")
}

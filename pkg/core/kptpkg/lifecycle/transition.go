package lifecycle

import (
	"fmt"
	"slices"
	"strings"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
)

// at returns where a revision is; nothing is a Draft.
func at(l porchv1alpha1.PackageRevisionLifecycle) porchv1alpha1.PackageRevisionLifecycle {
	if l == "" {
		return porchv1alpha1.LifecycleDraft
	}
	return l
}

// ways are where an update of the revision itself may lead; what stays where it is may always.
var ways = map[porchv1alpha1.PackageRevisionLifecycle][]porchv1alpha1.PackageRevisionLifecycle{
	porchv1alpha1.LifecycleDraft:            {porchv1alpha1.LifecycleDraft, porchv1alpha1.LifecycleProposed},
	porchv1alpha1.LifecycleProposed:         {porchv1alpha1.LifecycleDraft, porchv1alpha1.LifecycleProposed},
	porchv1alpha1.LifecyclePublished:        {porchv1alpha1.LifecyclePublished, porchv1alpha1.LifecycleDeletionProposed},
	porchv1alpha1.LifecycleDeletionProposed: {porchv1alpha1.LifecyclePublished, porchv1alpha1.LifecycleDeletionProposed},
}

// approvals are where /approval may lead.
var approvals = map[porchv1alpha1.PackageRevisionLifecycle][]porchv1alpha1.PackageRevisionLifecycle{
	porchv1alpha1.LifecycleProposed:         {porchv1alpha1.LifecyclePublished, porchv1alpha1.LifecycleDraft},
	porchv1alpha1.LifecyclePublished:        {porchv1alpha1.LifecycleDeletionProposed},
	porchv1alpha1.LifecycleDeletionProposed: {porchv1alpha1.LifecyclePublished},
}

// CheckCreate returns why a revision cannot be created at that point, "" if it can.
func CheckCreate(to porchv1alpha1.PackageRevisionLifecycle) string {
	if at(to) == porchv1alpha1.LifecycleDraft {
		return ""
	}
	return fmt.Sprintf("spec.lifecycle: Invalid value: %q: a revision is created as Draft", to)
}

// CheckUpdate returns why an update may not lead from one point to the other, "" if it may.
func CheckUpdate(from, to porchv1alpha1.PackageRevisionLifecycle) string {
	from, to = at(from), at(to)
	switch next, known := ways[from]; {
	case !known:
		return fmt.Sprintf("spec.lifecycle: the revision is at %q, from where no way is known", from)
	case slices.Contains(next, to):
		return ""
	case to == porchv1alpha1.LifecyclePublished:
		return fmt.Sprintf("spec.lifecycle: Forbidden: from %s to Published leads the subresource approval only", from)
	default:
		return fmt.Sprintf("spec.lifecycle: Invalid value: %q: from %s it may become %s", to, from, list(next))
	}
}

// CheckApproval returns why /approval may not lead from one point to the other, "" if it may.
func CheckApproval(from, to porchv1alpha1.PackageRevisionLifecycle) string {
	from, to = at(from), at(to)
	switch next, known := approvals[from]; {
	case !known:
		return fmt.Sprintf("cannot approve package with %s lifecycle value; only Proposed packages can be approved", from)
	case slices.Contains(next, to):
		return ""
	default:
		return fmt.Sprintf("cannot change approval from %s to %s; it may become %s", from, to, list(next))
	}
}

// CheckDelete returns why a revision at that point cannot be deleted, "" if it can.
func CheckDelete(l porchv1alpha1.PackageRevisionLifecycle) string {
	if at(l) == porchv1alpha1.LifecyclePublished {
		return "published PackageRevisions must be proposed for deletion by setting spec.lifecycle to 'DeletionProposed' prior to deletion"
	}
	return ""
}

// CheckFiles returns why the files of a revision at that point cannot be changed, "" if they can.
func CheckFiles(l porchv1alpha1.PackageRevisionLifecycle) string {
	if at(l) == porchv1alpha1.LifecycleDraft {
		return ""
	}
	return fmt.Sprintf("cannot update a package revision with lifecycle value %s; package must be Draft", l)
}

// GatesOf tells whether the gates stand before that step: to be proposed, or to be approved.
func GatesOf(from, to porchv1alpha1.PackageRevisionLifecycle) bool {
	from, to = at(from), at(to)
	return from == porchv1alpha1.LifecycleDraft && to == porchv1alpha1.LifecycleProposed ||
		from == porchv1alpha1.LifecycleProposed && to == porchv1alpha1.LifecyclePublished
}

// Unmet returns the gates that are not met, each with what is known of its condition; nil if the revision is ready.
func Unmet(gates []porchv1alpha1.ReadinessGate, conditions []porchv1alpha1.Condition) []string {
	var unmet []string
	for _, gate := range gates {
		i := slices.IndexFunc(conditions, func(c porchv1alpha1.Condition) bool { return c.Type == gate.ConditionType })
		switch {
		case i < 0:
			unmet = append(unmet, gate.ConditionType+" (there is no such condition)")
		case conditions[i].Status != porchv1alpha1.ConditionTrue:
			c := conditions[i]
			said := slices.DeleteFunc([]string{string(c.Status), c.Reason, c.Message}, func(part string) bool { return part == "" })
			unmet = append(unmet, gate.ConditionType+" ("+strings.Join(said, ": ")+")")
		}
	}
	slices.Sort(unmet)
	return slices.Compact(unmet)
}

// NotReady is the text of a refusal because of unmet gates.
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

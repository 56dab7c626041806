package transaction

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	"github.com/starlinghq/starling/pkg/core/text"
)

// AnnotationGenerations on a revision has the Generations of its objects.
const AnnotationGenerations = "starling.io/installed-generations"

// Generations are the generations that objects of a revision had when they were installed, by their
// UIDs: what the API server has returned. An object with the same UID and generation has the same
// content, so the content need not be read to know that it has not changed.
type Generations map[types.UID]int64

// uidPrefix is how much of a UID is encoded: hundreds of objects must fit into an annotation.
const uidPrefix = len("01234567-0123")

func short(uid types.UID) types.UID { return uid[:min(len(uid), uidPrefix)] }

// Encode returns the value of the annotation.
func (g Generations) Encode() string {
	byPrefix := make(map[types.UID]int64, len(g))
	for uid, generation := range g {
		byPrefix[short(uid)] = generation
	}
	encoded, err := json.Marshal(byPrefix)
	if err != nil {
		panic(err) // strings and numbers can be encoded
	}
	return string(encoded)
}

// generationsOf returns the Generations of a revision by the beginnings of UIDs; nil if it has none
// that can be read.
func generationsOf(r *pkgv1.ProviderRevision) Generations {
	var g Generations
	if json.Unmarshal([]byte(r.Annotations[AnnotationGenerations]), &g) != nil {
		return nil
	}
	return g
}

// Lookup returns the metadata of an object of a package, nil if there is none. known is false if
// that is not known.
type Lookup func(pkgv1.TypedReference) (found metav1.Object, known bool)

// Deviation is an object that is not as a revision has installed it.
type Deviation struct {
	Object pkgv1.TypedReference
	// Why completes a sentence that begins with the object.
	Why string
	// Taken: something else controls the object.
	Taken bool
}

// String returns the sentence.
func (d Deviation) String() string { return d.Object.Kind + " " + d.Object.Name + " " + d.Why }

// maxDeviations bounds how many objects a text names.
const maxDeviations = 5

// Describe returns a text with the first of these deviations.
func Describe(deviations []Deviation) string {
	texts := make([]string, len(deviations))
	for i, d := range deviations {
		texts[i] = d.String()
	}
	return text.Join(texts, "; ", maxDeviations)
}

// Installed reports whether the objects of a revision were installed, and it has not been
// deactivated since.
func Installed(r *pkgv1.ProviderRevision) bool {
	return meta.FindStatusCondition(r.Status.Conditions, pkgv1.RevisionConditionHealthy) != nil && !Awaits(r)
}

// Deviations returns the objects of an active revision that are not as they were installed, and
// those of which that is not known. Objects that the version has dropped are not among them:
// nothing says how they must be.
func Deviations(r *pkgv1.ProviderRevision, find Lookup) (deviations []Deviation, unknown []pkgv1.TypedReference) {
	generations := generationsOf(r)
	for _, ref := range r.Status.ObjectRefs {
		if ref.UID == nil {
			continue
		}
		generation, installed := generations[short(*ref.UID)]
		if generations != nil && !installed {
			continue // dropped
		}
		o, known := find(ref)
		if why := deviates(r, ref, generation, o); known && why != "" && (generations != nil || o == nil) {
			deviations = append(deviations, Deviation{Object: ref, Why: why, Taken: taken(r, o)})
		} else if !known || generations == nil { // an earlier version has recorded no generations
			unknown = append(unknown, ref)
		}
	}
	return deviations, unknown
}

// deviates returns how an object differs from what was installed, "" if it does not.
func deviates(r *pkgv1.ProviderRevision, ref pkgv1.TypedReference, generation int64, o metav1.Object) string {
	switch {
	case o == nil:
		return "does not exist"
	case o.GetUID() != *ref.UID:
		return "was deleted and created again"
	case o.GetGeneration() > generation: // a cache may be behind
		return fmt.Sprintf("was changed since it was installed: its generation is %d, and was %d", o.GetGeneration(), generation)
	}
	switch controller := ControllerOf(o); {
	case controller == nil:
		return "has no controller"
	case taken(r, o):
		return "is controlled by " + controller.Kind + " " + controller.Name
	}
	for _, key := range slices.Sorted(maps.Keys(r.Spec.CommonLabels)) {
		if got, has := o.GetLabels()[key]; !has || got != r.Spec.CommonLabels[key] {
			return "does not have the label " + key + "=" + r.Spec.CommonLabels[key]
		}
	}
	return ""
}

// taken reports whether something else than a revision controls an object, which may be nil.
func taken(r *pkgv1.ProviderRevision, o metav1.Object) bool {
	if o == nil {
		return false
	}
	controller := ControllerOf(o)
	return controller != nil && controller.UID != r.UID
}

// Half returns the objects that revisions control which are not active: what an installation that
// did not end has written.
func Half(revisions []*pkgv1.ProviderRevision, find Lookup) []pkgv1.TypedReference {
	var half []pkgv1.TypedReference
	active := Active(revisions)
	for _, r := range revisions {
		if r == active {
			continue
		}
		for _, ref := range r.Status.ObjectRefs {
			if o, _ := find(ref); o == nil {
				continue
			} else if controller := ControllerOf(o); controller != nil && controller.UID == r.UID {
				half = append(half, ref)
			}
		}
	}
	return half
}

// Health returns the condition of a revision of a package, as its objects are. last is the
// Transaction of the present generation of the package, "" if it does not exist any more.
func Health(kind, p, last string, deviations []Deviation, unknown []pkgv1.TypedReference) metav1.Condition {
	condition := metav1.Condition{Type: pkgv1.RevisionConditionHealthy, Status: metav1.ConditionTrue, Reason: pkgv1.ReasonHealthyPackageRevision}
	switch {
	case len(deviations) > 0:
		condition.Status, condition.Reason = metav1.ConditionFalse, pkgv1.ReasonUnhealthyPackageRevision
		condition.Message = Describe(deviations) + ". The next transaction installs what differs again" + except(deviations) + ". To have one now: " + again(kind, p, last)
	case len(unknown) > 0:
		condition.Status, condition.Reason = metav1.ConditionUnknown, pkgv1.ReasonUnknownPackageRevisionHealth
		condition.Message = fmt.Sprintf("%s %s cannot be compared with what was installed", unknown[0].Kind, unknown[0].Name)
	}
	return condition
}

// except says which deviations no Transaction repairs.
func except(deviations []Deviation) string {
	if !slices.ContainsFunc(deviations, func(d Deviation) bool { return d.Taken }) {
		return ""
	}
	return ", but takes no object that another package or program controls"
}

// again returns the command that has a package installed again.
func again(kind, p, last string) string {
	if last != "" {
		return "kubectl delete transaction " + last
	}
	return fmt.Sprintf("kubectl label %s %s %s-", strings.ToLower(kind), p, pkgv1.LabelGeneration)
}

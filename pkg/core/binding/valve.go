package binding

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/valve"
)

// The safety valve stands between what a policy asks for and its Binding. A change that would take everything from more than half
// of the clusters of a policy is mostly a mistake: a selector with a typo, a label that a script removed, an inventory that was
// emptied, a Namespace or a CustomResourceDefinition that was deleted. Such a change waits as a whole until somebody releases it.
// What users delete one by one is never held.

// fewest is the number of clusters below which nothing is held: a few are soon set right.
const fewest = 10

// Valve says how a policy wants to be held.
type Valve struct {
	valve.Limits
	// Begun is what was released by the token in Release, of a change that may be half done; nil if nothing was.
	Begun *Loss
}

// ParseValve reads the annotations of a policy. What cannot be read is told, each by its annotation, and counts as not there.
func ParseValve(annotations map[string]string) (Valve, []string) {
	limits, mistakes := valve.Parse(annotations, "clusters")
	return Valve{Limits: limits}, mistakes
}

// Loss is what a change would take away.
type Loss struct {
	// Clusters are those that would lose everything, sorted; Of is how many have something now.
	Clusters []string
	Of       int
	// Objects are those that would leave all clusters, sorted; not those that were deleted one by one.
	Objects []objref.Ref
	// Token identifies the loss: it is the same as long as the same would be lost.
	Token string
}

// Within tells whether nothing would be lost that the other loss does not take away as well.
func (l *Loss) Within(other *Loss) bool {
	return subset(l.Clusters, other.Clusters, strings.Compare) && subset(l.Objects, other.Objects, objref.Compare)
}

// subset tells whether all of a, which is sorted, are in b, which is.
func subset[T any](a, b []T, compare func(T, T) int) bool {
	return !slices.ContainsFunc(a, func(x T) bool {
		_, found := slices.BinarySearchFunc(b, x, compare)
		return !found
	})
}

// releases tells whether a loss was released: just that, or what is left of one that was.
func (v *Valve) releases(l *Loss) bool {
	return v.Release != "" && (v.Release == l.Token || v.Begun != nil && v.Release == v.Begun.Token && l.Within(v.Begun))
}

// Change is a change of a Binding.
type Change struct {
	Stored, Wanted *controlv1alpha1.BindingSpec
	// Deleted tells of an object that it was deleted by itself: that is explicit.
	Deleted func(objref.Ref) bool
	// Going tells of an object that it is about to vanish with its Namespace or kind, though it may still be there.
	Going func(objref.Ref) bool
}

// Hold returns the spec that the Binding shall have for now, and what the change would take away that is held, nil if nothing is.
// What is held leaves the Binding as it is stored, but for objects that were deleted by themselves, and for what is new of the
// objects that stay. released is what would be held, had it not been released.
func (v *Valve) Hold(change Change) (spec controlv1alpha1.BindingSpec, held, released *Loss) {
	if v.Off || len(change.Stored.Destinations) < fewest { // the common case costs nothing
		return *change.Wanted, nil, nil
	}
	loss := change.loss()
	if loss == nil || v.Allow(len(loss.Clusters), loss.Of) {
		return *change.Wanted, nil, nil
	}
	if v.releases(loss) {
		return *change.Wanted, nil, loss
	}
	wanted := index(change.Wanted)
	var entries []entry
	for ref, e := range index(change.Stored) {
		if change.Deleted(ref) {
			continue
		}
		if now, ok := wanted[ref]; ok {
			e = now
		}
		entries = append(entries, e)
	}
	sortEntries(entries)
	clusters := make([]string, 0, len(change.Stored.Destinations))
	for _, d := range change.Stored.Destinations {
		clusters = append(clusters, d.ClusterID)
	}
	slices.Sort(clusters)
	return assemble(entries, slices.Compact(clusters)), loss, nil
}

// loss returns what the change takes away; nil if no cluster loses everything.
func (c *Change) loss() *Loss {
	stored, wanted := index(c.Stored), index(c.Wanted)
	had := 0 // objects that clusters have, but for those that were deleted by themselves
	stays := false
	l := &Loss{Of: len(c.Stored.Destinations)}
	for ref := range stored {
		if c.Deleted(ref) {
			continue
		}
		had++
		if _, ok := wanted[ref]; ok && !c.Going(ref) {
			stays = true
		} else {
			l.Objects = append(l.Objects, ref)
		}
	}
	if had == 0 {
		return nil // nothing was there, or all of it was deleted
	}
	kept := map[string]bool{}
	for _, d := range c.Wanted.Destinations {
		kept[d.ClusterID] = true
	}
	for _, d := range c.Stored.Destinations {
		if !stays || !kept[d.ClusterID] {
			l.Clusters = append(l.Clusters, d.ClusterID)
		}
	}
	if len(l.Clusters) == 0 {
		return nil
	}
	slices.Sort(l.Clusters)
	if stays {
		l.Objects = nil // they leave, but not everything does
	}
	slices.SortFunc(l.Objects, objref.Compare)
	l.Token = l.token()
	return l
}

func (l *Loss) token() string {
	h := sha256.New()
	for _, cluster := range l.Clusters {
		fmt.Fprintf(h, "%s\n", cluster)
	}
	for _, ref := range l.Objects {
		fmt.Fprintf(h, "%s\n", ref)
	}
	const digits = 12
	return hex.EncodeToString(h.Sum(nil))[:digits]
}

// Annotate returns the annotations that a Binding shall have: those that policies hand on to their Bindings as the policy has them,
// and all others as they are. changed tells whether that is another state.
func Annotate(binding, policy map[string]string) (annotations map[string]string, changed bool) {
	annotations = maps.Clone(binding)
	for _, key := range handedOn {
		want, wanted := policy[key]
		have, there := annotations[key]
		switch {
		case wanted == there && want == have:
			continue
		case !wanted:
			delete(annotations, key)
		default:
			if annotations == nil {
				annotations = map[string]string{}
			}
			annotations[key] = want
		}
		changed = true
	}
	return annotations, changed
}

var handedOn = []string{
	controlv1alpha1.AnnotationApply, controlv1alpha1.AnnotationIgnoreFields, controlv1alpha1.AnnotationOnRemoval, controlv1alpha1.AnnotationRelease,
}

package binding

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/removalblock"
)

// The removal block checks each change of a Binding before it is written. A change that would
// remove every object from more than half of the clusters of a policy is mostly a mistake: a
// selector with a typo, a label that a script removed, an ITS that was emptied, a Namespace or a
// CustomResourceDefinition that was deleted. Such a change is blocked as a whole until a user
// allows it. The deletion of single objects is never blocked.

// fewest is the number of clusters below which nothing is blocked: a few are soon repaired.
const fewest = 10

// RemovalBlock has the limits of a policy.
type RemovalBlock struct {
	removalblock.Limits
	// Begun is what Token allowed, of a change that may be half written; nil if it allowed nothing.
	Begun *Loss
}

// ParseRemovalBlock reads the annotations of a policy. It returns a message for each annotation
// that cannot be read. Such an annotation has no effect.
func ParseRemovalBlock(annotations map[string]string) (RemovalBlock, []string) {
	limits, mistakes := removalblock.Parse(annotations, "clusters")
	return RemovalBlock{Limits: limits}, mistakes
}

// Loss is what a change would remove.
type Loss struct {
	// Clusters are those that would lose every object, sorted; Of is how many have some now.
	Clusters []string `json:"clusters"`
	Of       int      `json:"of"`
	// Unread is how many of the others are in an ITS that cannot be read: each may have to lose
	// every object too.
	Unread int `json:"unread,omitempty"`
	// Objects are those that would leave all clusters, sorted, without those that were deleted one
	// by one.
	Objects []objref.Ref `json:"objects,omitempty"`
	// Token identifies the loss: the same loss has the same token.
	Token string `json:"token"`
}

// Within reports whether the other loss includes all of this one.
func (l *Loss) Within(other *Loss) bool {
	return subset(l.Clusters, other.Clusters, strings.Compare) && subset(l.Objects, other.Objects, objref.Compare)
}

// subset reports whether all of a are in b; both are sorted.
func subset[T any](a, b []T, compare func(T, T) int) bool {
	return !slices.ContainsFunc(a, func(x T) bool {
		_, found := slices.BinarySearchFunc(b, x, compare)
		return !found
	})
}

// allows reports whether Token allows a loss: just that, or what is left of one that it allowed.
func (v *RemovalBlock) allows(l *Loss) bool {
	return v.Token != "" && (v.Token == l.Token || v.Begun != nil && v.Token == v.Begun.Token && l.Within(v.Begun))
}

// Departed says how objects depart.
type Departed struct {
	// Deleted are the objects that were deleted one by one, which is explicit.
	Deleted map[objref.Ref]bool
	// WithOthers are the objects that are about to vanish with their Namespace or kind, though they
	// may still exist.
	WithOthers map[objref.Ref]bool
}

// Change is a change of a Binding.
type Change struct {
	Stored, Desired *controlv1alpha1.BindingSpec
	Departed        Departed
	// Unread are the clusters of which nothing may be concluded. While an ITS is read cluster by
	// cluster, those that were read must not leave as if the others stayed.
	Unread map[string]bool
}

// Applies reports whether a change of a Binding that lists this could be blocked.
func (v *RemovalBlock) Applies(stored *controlv1alpha1.BindingSpec) bool {
	return !v.Off && stored != nil && len(stored.Destinations) >= fewest
}

// Apply returns the spec that the Binding shall have for now, and the loss that is blocked, nil if
// none is. While a change is blocked, the Binding stays as it is stored, but for objects that were
// deleted one by one, and for the new content of the others. allowed is the loss that would be
// blocked if Token did not allow it.
func (v *RemovalBlock) Apply(change Change) (spec controlv1alpha1.BindingSpec, blocked, allowed *Loss) {
	if !v.Applies(change.Stored) { // the common case costs nothing
		return *change.Desired, nil, nil
	}
	loss := change.loss()
	if loss == nil || v.Allow(len(loss.Clusters)+loss.Unread, loss.Of) {
		return *change.Desired, nil, nil
	}
	if v.allows(loss) {
		return *change.Desired, nil, loss
	}
	desired := index(change.Desired)
	var entries []match.Match
	for ref, e := range index(change.Stored) {
		if change.Departed.Deleted[ref] {
			continue
		}
		if now, ok := desired[ref]; ok {
			e = now
		}
		entries = append(entries, e)
	}
	return assemble(entries, clustersOf(change.Stored)), loss, nil
}

// loss returns what the change removes; nil if no cluster loses every object.
func (c *Change) loss() *Loss {
	stored, desired := index(c.Stored), index(c.Desired)
	had := 0 // objects that clusters have, without those that were deleted one by one
	stays := false
	l := &Loss{Of: len(c.Stored.Destinations)}
	for ref := range stored {
		if c.Departed.Deleted[ref] {
			continue
		}
		had++
		if _, ok := desired[ref]; ok && !c.Departed.WithOthers[ref] {
			stays = true
		} else {
			l.Objects = append(l.Objects, ref)
		}
	}
	if had == 0 {
		return nil // there was nothing, or all of it was deleted one by one
	}
	kept := clustersOf(c.Desired)
	slices.Sort(kept)
	for _, cluster := range clustersOf(c.Stored) {
		if _, stay := slices.BinarySearch(kept, cluster); !stays || !stay {
			l.Clusters = append(l.Clusters, cluster)
		} else if c.Unread[cluster] {
			l.Unread++
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

// Annotate returns the desired annotations of a Binding: those that are copied from the policy as
// the policy has them, and all others as they are. changed reports whether they differ from those
// of the Binding.
//
// AnnotationRelease is the user's, on the Binding. A policy that is being deleted adds its own.
func Annotate(binding map[string]string, policy *controlv1alpha1.BindingPolicy) (annotations map[string]string, changed bool) {
	annotations = maps.Clone(binding)
	set := func(key, want string) {
		if have, exists := annotations[key]; exists && want == have {
			return
		}
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[key], changed = want, true
	}
	for _, key := range copied {
		want, wanted := policy.Annotations[key]
		if wanted {
			set(key, want)
			continue
		}
		if _, exists := annotations[key]; exists {
			delete(annotations, key)
			changed = true
		}
	}
	if release, ok := policy.Annotations[controlv1alpha1.AnnotationRelease]; ok && policy.DeletionTimestamp != nil {
		set(controlv1alpha1.AnnotationRelease, release)
	}
	return annotations, changed
}

var copied = []string{controlv1alpha1.AnnotationApply, controlv1alpha1.AnnotationIgnoreFields, controlv1alpha1.AnnotationOnRemoval}

package plan

import (
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/packing"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// Work is a work in a mailbox, without its content. It is immutable.
type Work struct {
	// Mailbox is the mailbox that the work is in: the name of the destination.
	Mailbox string
	Name    string
	UID     types.UID
	// ResourceVersion is the version of the work that this was read from.
	ResourceVersion string
	// Generation counts the changes of the work's spec.
	Generation int64
	// Created is when the work was created, in seconds since 1970.
	Created int64
	// Foreign is the WDS that the work belongs to; zero if it is ours.
	Foreign WDS
	// BindingUID and Binding are the UID and the name of the Binding that the work belongs to.
	BindingUID types.UID
	Binding    string
	// Wave is the wave of all objects in the work.
	Wave int
	// Items are the objects in the work, in the order in which they are applied.
	Items []Item
	// Listed are objects that the work no longer has, but that the destination listed when it last
	// reported.
	Listed []objref.Ref
	// Behind: the destination could not read an object of the work when it last reported. So it has
	// neither deleted nor recorded anything then (Item.Unread).
	Behind bool
	// Left are objects that the work no longer has, and that the destination may still have.
	Left Left
	// Recorded is the hash that was written with the spec, zero if there is no valid one; Actual is
	// the hash of the spec as it is. They differ if another writer edited the work.
	Recorded, Actual transform.Hash
	// Unmarked: the work does not say which of its objects it delivers, or says something else. So
	// the destination could report the status of those that another WDS delivers to ours.
	Unmarked bool
	// Begun: the destination may have applied something of the work. A work that is not begun is
	// never applied once it is deleted.
	Begun bool
	// Deleting: the work is being deleted.
	Deleting bool
	// Restored is the ID of the restoration from a backup that the work came with, empty for
	// others. The cluster does nothing with such a work, and what it has of it is not known.
	Restored string
	// Nudges is how often the work was nudged.
	Nudges int
}

// Left are objects that a work no longer has: for the LeftKey of each the UID of the object in the
// WDS that the destination has a copy of, empty if that is not known.
type Left map[string]types.UID

// LeftKey returns a hash of a name. It distinguishes the objects of one work.
func LeftKey(ref objref.Ref) string {
	const digits = 16
	return transform.HashOf([]byte(ref.String())).String()[:digits]
}

// Lost reports whether the destination may still have, for the work, an object that the work no
// longer has, and the UID of the object in the WDS that it is a copy of, empty if that is not
// known.
func (w *Work) Lost(ref objref.Ref) (source types.UID, may bool) {
	left := false
	if len(w.Left) > 0 {
		source, left = w.Left[LeftKey(ref)]
	}
	return source, w.Behind && left || slices.Contains(w.Listed, ref)
}

// Items yields the objects in works, each with its work.
func Items(works []*Work) iter.Seq2[*Work, *Item] {
	return func(yield func(*Work, *Item) bool) {
		for _, work := range works {
			for i := range work.Items {
				if !yield(work, &work.Items[i]) {
					return
				}
			}
		}
	}
}

// Item is an object in a work.
type Item struct {
	Ref objref.Ref
	// Kind is the object's kind, without group and version.
	Kind string
	// Version is the version of the kind that the work delivers.
	Version string
	// Source is the UID of the object in the WDS that the content is of, empty if it names none.
	Source types.UID
	Hash   transform.Hash
	// Bare is the hash of the content without what differs between WDSes that deliver the same;
	// zero if that is Hash.
	Bare transform.Hash
	// Size counts as packing counts it.
	Size int
	Options
	// State is what the destination reported at the work's generation.
	State State
	// Reported: the destination keeps account of the object. It has reported it Applied, or
	// anything of one that is Withdrawn, since the last Action that was Unproven, and with that
	// report no object of the work was Unread.
	Reported bool
	// Seen: the destination has reported something of the object, at whatever generation. So it may
	// have the object with the options of any earlier generation.
	Seen bool
	// Withdrawn: the work has no content of the object any more, since the object is leaving.
	Withdrawn bool
	// UID is that of the object in the cluster, empty if it is not known. Missing: the cluster has
	// no such object; Unreadable: its agent cannot read it. They are read of objects with a Stage.
	UID                 string
	Missing, Unreadable bool
	// Reason and Message are what the destination reported of a Failed object. The message may
	// contain parts of the object.
	Reason, Message string
	// Immutable: it Failed because a field cannot be changed (IsImmutable).
	Immutable bool
	// Since is when it began to be Applied, or Failed, by the destination's clock, in seconds since
	// 1970.
	Since int64
}

// Content returns the hash of what WDSes that deliver the same have in common.
func (i *Item) Content() transform.Hash {
	if i.Bare == (transform.Hash{}) {
		return i.Hash
	}
	return i.Bare
}

// Claim reports whether the work only claims the object: another owner delivers it.
func (i *Item) Claim() bool { return i.Observe && !i.Withdrawn }

// State is what a destination reported of an object.
type State int8

// States.
const (
	// Pending: nothing was reported yet at the work's generation.
	Pending State = iota
	// Applied: the object is in the cluster.
	Applied
	// Failed: the object could not be applied.
	Failed
	// Silent: the destination reports nothing, ever. What was delivered is taken to arrive in the
	// order of delivery.
	Silent
)

// Object is an object that a destination should hold.
type Object struct {
	transform.Object
	// Known: the content was read. The content of an object that could not be read stays as it is.
	Known bool
	// Whole is the object with its ignored fields, which the content lacks; nil if it has all, or
	// if the cluster does not leave them alone (Object.Ignoring).
	Whole *transform.Object
	Options
}

// Options are how a cluster handles an object, beside its content. They are comparable. With the
// zero Options the cluster keeps the object equal to the content, and deletes it when it leaves its
// last work.
type Options struct {
	// CreateOnly: the cluster creates the object if it does not exist, and never updates it.
	CreateOnly bool `json:"createOnly,omitempty"`
	// NoForce: an apply fails if another field manager owns a field with another value.
	NoForce bool `json:"noForce,omitempty"`
	// IgnoredFields are the JSON paths of fields that are written when the object is created and
	// left alone afterwards: sorted, one on each line.
	IgnoredFields string `json:"ignoredFields,omitempty"`
	// Stage is how far the cluster is with that. The plan decides on it.
	Stage Stage `json:"-"`
	// Update: the cluster writes the object with an update. What the content does not name may be
	// removed or stay, which depends on the kind. NoForce and IgnoredFields do not apply.
	Update bool `json:"update,omitempty"`
	// Orphan: the cluster keeps the object when it leaves the work.
	Orphan bool `json:"orphan,omitempty"`
	// Observe: the cluster applies nothing. The manifest is a claim: we would deliver the object if
	// another owner did not.
	Observe bool `json:"observe,omitempty"`
}

// Size returns the size of the object as packing counts it.
func (o *Object) Size() int { return len(o.JSON) + packing.Overhead }

// Desired is what each destination of a Binding should hold. It is immutable, and shared by the
// plans of all destinations.
type Desired struct {
	objects []Object // in packing.Order
	index   map[objref.Ref]int
	limits  packing.Limits
	needs   [][]int // for each object the objects that must be in the cluster before it
	once    []objref.Ref
}

// NewDesired returns a Desired of these objects. It owns the slice from then on.
func NewDesired(objects []Object, limits packing.Limits) *Desired {
	slices.SortFunc(objects, func(a, b Object) int { return packing.Order(a.Ref, b.Ref) })
	d := &Desired{
		objects: objects,
		index:   make(map[objref.Ref]int, len(objects)),
		limits:  limits,
		needs:   make([][]int, len(objects)),
	}
	for i := range objects {
		d.index[objects[i].Ref] = i
		if runsOnce(objects[i].Ref) {
			d.once = append(d.once, objects[i].Ref)
		}
	}
	for i := range objects {
		for _, ref := range Prerequisites(objects[i].Ref) {
			if j, ok := d.index[ref]; ok {
				d.needs[i] = append(d.needs[i], j)
			}
		}
	}
	return d
}

// With returns a Desired in which change has changed each object: for destinations whose desired
// content differs from that of the others. Change receives a copy, and must not change its Ref.
// Order and prerequisites are shared.
func (d *Desired) With(change func(*Object)) *Desired {
	varied := *d
	varied.objects = slices.Clone(d.objects)
	for i := range varied.objects {
		change(&varied.objects[i])
	}
	return &varied
}

// Ignores reports whether some object has fields that clusters are to leave alone.
func (d *Desired) Ignores() bool {
	return slices.ContainsFunc(d.objects, func(o Object) bool { return o.IgnoredFields != "" })
}

// Once returns the objects that do their work once. Shared: do not change it. Of one that comes to
// a destination it matters what other Bindings of its source have of it there (Current.Siblings).
func (d *Desired) Once() []objref.Ref { return d.once }

// Object returns one of them, nil if it is none.
func (d *Desired) Object(ref objref.Ref) *Object {
	if i, ok := d.index[ref]; ok {
		return &d.objects[i]
	}
	return nil
}

// Wants reports whether the object is one of them.
func (d *Desired) Wants(ref objref.Ref) bool {
	_, ok := d.index[ref]
	return ok
}

// Knows reports whether the content of an object is known.
func (d *Desired) Knows(ref objref.Ref) bool {
	o := d.Object(ref)
	return o != nil && o.Known
}

// Len returns the number of objects.
func (d *Desired) Len() int { return len(d.objects) }

// Prerequisites returns what must be in a cluster before the object can be: its Namespace, and its
// CustomResourceDefinition if the kind has one.
func Prerequisites(ref objref.Ref) []objref.Ref {
	if packing.WaveOf(ref.GroupResource()) == packing.WaveFirst {
		return nil
	}
	var refs []objref.Ref
	if ref.Namespace != "" {
		refs = append(refs, objref.Ref{Resource: "namespaces", Name: ref.Namespace})
	}
	if ref.Group != "" {
		refs = append(refs, objref.Ref{
			Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Name: ref.Resource + "." + ref.Group,
		})
	}
	return refs
}

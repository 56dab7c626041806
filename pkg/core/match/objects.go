package match

import (
	"hash/maphash"
	"iter"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
)

// Resource is a resource in the version in which its objects are seen.
type Resource struct {
	schema.GroupVersionResource
	// Kind is the kind of the resource's objects.
	Kind string
	// TracksContent says that the generation of the objects changes whenever their content does.
	TracksContent bool
}

// tracks reports whether the generation of an object says when its content changes.
func (r Resource) tracks(obj metav1.Object) bool { return r.TracksContent && obj.GetGeneration() > 0 }

// resource holds the objects of one resource.
type resource struct {
	Resource
	// known reports whether everything that existed at the start was seen.
	known   bool
	objects map[objectName]*object
}

type objectName struct{ namespace, name string }

// object is what the Index keeps of one object: about 130 bytes, beside the strings and labels that
// it shares with the informer. 100,000 objects must fit in a few hundred MiB together with that.
type object struct {
	resource  *resource
	namespace string
	name      string
	uid       types.UID
	labels    map[string]string
	// generation, labels and the digest of the annotations show whether the content changed.
	generation  int64
	annotations uint64
	// resourceVersion is that of the last change of the content.
	resourceVersion string
	// edited reports whether such a change was seen, or only what there was at the start.
	edited bool
	// writes are those of the status by us, if the generation does not track the content; nil if
	// there were none.
	writes  *statusWrites
	matches []match
}

// match says that a policy selects an object, and how it is carried. The modulation is shared.
type match struct {
	policy     *policy
	modulation *controlv1alpha1.DownsyncModulation
}

func (o *object) ref() objref.Ref {
	return objref.New(o.resource.GroupResource(), o.namespace, o.name)
}

// match returns the index of the match of the policy, -1 if it does not select the object.
func (o *object) match(p *policy) int {
	return slices.IndexFunc(o.matches, func(m match) bool { return m.policy == p })
}

// modulation returns how the policy carries the object, nil if it does not select it.
func (o *object) modulation(p *policy) *controlv1alpha1.DownsyncModulation {
	if i := o.match(p); i >= 0 {
		return o.matches[i].modulation
	}
	return nil
}

// update stores the state of the object. It reports whether the content changed, and whether the
// labels did.
//
// Where the generation tracks the content, a change of neither the generation nor labels nor
// annotations is no change of the content: a write of the status, for example. For other resources
// each write counts as a change of the content, except those of the status by us. The labels by
// which Starling marks a returned status are no content.
func (o *object) update(obj metav1.Object, seed maphash.Seed) (content, labels bool) {
	now := obj.GetLabels()
	labels = !maps.Equal(o.labels, now)
	digest := digest(seed, obj.GetAnnotations())
	content = o.uid != obj.GetUID() || o.generation != obj.GetGeneration() || o.annotations != digest ||
		labels && !equalContentLabels(o.labels, now) ||
		!o.resource.tracks(obj) && !o.sameContent(obj)
	o.uid, o.generation, o.annotations, o.labels = obj.GetUID(), obj.GetGeneration(), digest, now
	if content {
		o.edit(obj.GetResourceVersion())
	}
	return content, labels
}

// statusLabels is the prefix of the labels by which Starling marks objects whose status it returns.
const statusLabels = "managed-by.kubestellar.io/"

// StatusLabel reports whether the label is one of those that Starling puts on objects whose status
// it returns. They are no content.
func StatusLabel(key string) bool {
	return key == controlv1alpha1.LabelExecutingCount || strings.HasPrefix(key, statusLabels)
}

func equalContentLabels(a, b map[string]string) bool {
	for key := range changedKeys(a, b) {
		if !StatusLabel(key) {
			return false
		}
	}
	return true
}

// digest returns a number that is the same for the same annotations in any order.
func digest(seed maphash.Seed, annotations map[string]string) uint64 {
	var sum uint64
	for key, value := range annotations {
		// Of the hashes, not of the texts: so no pair can be mistaken for another of the same
		// letters.
		sum += maphash.String(seed, key)*31 ^ maphash.String(seed, value)
	}
	return sum
}

// posting is a set of objects. Most sets by name or by a label of high variety hold one object,
// which then costs no map.
type posting struct {
	one  *object
	many map[*object]struct{}
}

func (p posting) add(o *object) posting {
	switch {
	case p.many != nil:
		p.many[o] = struct{}{}
	case p.one == nil || p.one == o:
		p.one = o
	default:
		p.many = map[*object]struct{}{p.one: {}, o: {}}
		p.one = nil
	}
	return p
}

func (p posting) remove(o *object) posting {
	if p.many != nil {
		delete(p.many, o)
		if len(p.many) == 0 {
			p.many = nil
		}
	} else if p.one == o {
		p.one = nil
	}
	return p
}

func (p posting) len() int {
	if p.one != nil {
		return 1
	}
	return len(p.many)
}

func (p posting) all() iter.Seq[*object] {
	return func(yield func(*object) bool) {
		if p.one != nil {
			yield(p.one)
			return
		}
		for o := range p.many {
			if !yield(o) {
				return
			}
		}
	}
}

// postings are sets of objects by a key. An empty set has no entry.
type postings map[string]posting

func (p postings) add(key string, o *object) { p[key] = p[key].add(o) }

func (p postings) remove(key string, o *object) {
	if left := p[key].remove(o); left.len() > 0 {
		p[key] = left
	} else {
		delete(p, key)
	}
}

// catalog finds objects by their properties.
type catalog struct {
	resources   map[schema.GroupResource]*resource
	byName      postings
	byNamespace postings
	byLabel     map[string]postings
	// namespaces are the labels of the known Namespaces.
	namespaces map[string]map[string]string
	// ending are Namespaces that are being deleted, or were and have objects that are still known.
	ending map[string]bool
}

func newCatalog() catalog {
	return catalog{
		resources:   map[schema.GroupResource]*resource{},
		byName:      postings{},
		byNamespace: postings{},
		byLabel:     map[string]postings{},
		namespaces:  map[string]map[string]string{},
		ending:      map[string]bool{},
	}
}

// resource returns the resource, which is made if it is not there.
func (c *catalog) resource(r Resource) *resource {
	found := c.resources[r.GroupResource()]
	if found == nil {
		found = &resource{Resource: r, objects: map[objectName]*object{}}
		c.resources[r.GroupResource()] = found
	}
	return found
}

func (c *catalog) object(ref objref.Ref) *object {
	if r := c.resources[ref.GroupResource()]; r != nil {
		return r.objects[objectName{ref.Namespace, ref.Name}]
	}
	return nil
}

func (c *catalog) insert(o *object) {
	o.resource.objects[objectName{o.namespace, o.name}] = o
	c.byName.add(o.name, o)
	if o.namespace != "" {
		c.byNamespace.add(o.namespace, o)
	}
	c.addLabels(o)
}

func (c *catalog) remove(o *object) {
	delete(o.resource.objects, objectName{o.namespace, o.name})
	c.byName.remove(o.name, o)
	if o.namespace != "" {
		c.byNamespace.remove(o.namespace, o)
		c.forgetEnding(o.namespace)
	}
	c.removeLabels(o, o.labels)
}

// forgetEnding forgets a Namespace that was being deleted, if it and the objects in it are gone.
func (c *catalog) forgetEnding(name string) {
	if _, exists := c.namespaces[name]; !exists && c.byNamespace[name].len() == 0 {
		delete(c.ending, name)
	}
}

func (c *catalog) addLabels(o *object) {
	for key, value := range o.labels {
		values := c.byLabel[key]
		if values == nil {
			values = postings{}
			c.byLabel[key] = values
		}
		values.add(value, o)
	}
}

func (c *catalog) removeLabels(o *object, labels map[string]string) {
	for key, value := range labels {
		values := c.byLabel[key]
		values.remove(value, o)
		if len(values) == 0 {
			delete(c.byLabel, key)
		}
	}
}

// reach returns the objects that could pass the clause, found in the way that leads to the fewest.
// An object may come more than once.
func (c *catalog) reach(of *clause) iter.Seq[*object] {
	way := of.way(func(a anchor) int {
		count, _ := c.find(a)
		return count
	})
	sets := make([]iter.Seq[*object], 0, len(way))
	for _, a := range way {
		_, set := c.find(a)
		sets = append(sets, set)
	}
	return concat(sets)
}

// find returns the objects that have the anchor, and how many they are.
func (c *catalog) find(a anchor) (int, iter.Seq[*object]) {
	var sets []iter.Seq[*object]
	count := 0
	addPosting := func(p posting) {
		if n := p.len(); n > 0 {
			count += n
			sets = append(sets, p.all())
		}
	}
	switch a.kind {
	case byName:
		addPosting(c.byName[a.key])
	case byNamespace:
		addPosting(c.byNamespace[a.key])
	case byLabel:
		addPosting(c.byLabel[a.key][a.value])
	case byLabelKey:
		for _, p := range c.byLabel[a.key] {
			addPosting(p)
		}
	case byNamespaceLabel, byNamespaceLabelKey:
		for name, labels := range c.namespaces {
			if value, ok := labels[a.key]; ok && (a.kind == byNamespaceLabelKey || value == a.value) {
				addPosting(c.byNamespace[name])
			}
		}
	default:
		for _, r := range c.resources {
			if a.kind == byNothing || a.kind == byResource && r.Resource.Resource == a.key || a.kind == byGroup && r.Group == a.key {
				count += len(r.objects)
				sets = append(sets, maps.Values(r.objects))
			}
		}
	}
	return count, concat(sets)
}

func concat(sets []iter.Seq[*object]) iter.Seq[*object] {
	return func(yield func(*object) bool) {
		for _, set := range sets {
			for o := range set {
				if !yield(o) {
					return
				}
			}
		}
	}
}

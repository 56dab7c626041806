package placement

import (
	"context"
	"maps"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/options"
	"github.com/starlinghq/starling/pkg/core/plan"
)

// change is why a Binding is in the queue.
type change struct {
	// since is when the first change was observed.
	since time.Time
	// version is the newest resourceVersion of what changed, 0 if it has none.
	version uint64
	// whole says that the Binding must be gathered. Otherwise, only some of its objects changed.
	whole bool
	// held says that Transactions hold other objects of the Binding than before, so all its
	// mailboxes must be planned again.
	held    bool
	objects map[objref.Ref]struct{}
}

// note notes a change of a Binding and enqueues it. The version is that of what changed, "" if it
// has none.
func (g *Gatherer) note(name, version string, how func(*change)) {
	now := g.config.Clock.Now()
	number, _ := strconv.ParseUint(version, 10, 64) // 0 if it is no number
	g.mu.Lock()
	c, waiting := g.changed[name]
	if !waiting {
		c.since = now
	}
	c.version = max(c.version, number)
	how(&c)
	g.changed[name] = c
	g.mu.Unlock()
	g.config.Queue.Add(name)
}

// enqueue enqueues a Binding that must be gathered.
func (g *Gatherer) enqueue(name, version string) {
	g.note(name, version, func(c *change) { c.whole = true })
}

// enqueueFor enqueues a Binding because an object changed. Perhaps only its status did.
func (g *Gatherer) enqueueFor(name string, ref objref.Ref, version string) {
	g.note(name, version, func(c *change) {
		if c.objects == nil {
			c.objects = map[objref.Ref]struct{}{}
		}
		c.objects[ref] = struct{}{}
	})
}

// ofItself reports whether a change of an object is one of that object only: how others are
// delivered does not depend on it. Either object may be nil.
func ofItself(ref objref.Ref, before, after metav1.Object) bool {
	return before != nil && after != nil && before.GetUID() == after.GetUID() && !options.IsAutoscaler(ref)
}

// isOf reports whether the Placement, which may be nil, is that of a Binding as it is now, unless
// objects of the WDS changed. That of a Binding with packages is not: an object of a package may
// have the name of one of the WDS.
func (p *Placement) isOf(binding *controlv1alpha1.Binding) bool {
	return p != nil && p.settled && !p.Provisional && !p.Deleting && p.UID == binding.UID && p.Generation == binding.Generation &&
		p.Source == "" && p.Source == SourceOf(binding) && p.Annotations.AreOf(binding)
}

// revise returns the Placement that gather would return, given the one before, if the content of no
// other objects changed. It reads only these objects. ok is false if more than their content
// changed. If not even that did, it returns the one before.
func (g *Gatherer) revise(ctx context.Context, before *Placement, changed map[objref.Ref]struct{}) (next *Placement, ok bool) {
	now := g.config.Clock.Now()
	contents := map[objref.Ref]plan.Object{}
	templates := maps.Clone(before.Templates)
	for ref := range changed {
		how, made := g.objects.recipeOf(ref)
		object, listed := before.Objects[ref]
		if !made || !listed {
			return nil, false
		}
		f := g.objects.find(ctx, ref, how, now)
		if f.manifest == nil || f.manifest.Requested != before.requested[ref] {
			return nil, false
		}
		if f.manifest.Hash == object.Hash {
			continue
		}
		delete(templates, ref)
		if f.manifest.Template != nil {
			templates[ref] = f.manifest.Template
		}
		object.Object = f.manifest.Object
		contents[ref] = object
	}
	if len(contents) == 0 {
		return before, true
	}
	revised := *before
	revised.Templates, revised.Decided = templates, now
	revised.Objects = maps.Clone(before.Objects)
	maps.Copy(revised.Objects, contents)
	revised.Desired = before.Desired.With(func(o *plan.Object) {
		if content, edited := contents[o.Ref]; edited {
			*o = content
		}
	})
	return &revised, true
}

// recipeOf returns how the content of an object was made; made is false if there is none.
func (o *objects) recipeOf(ref objref.Ref) (how recipe, made bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	have := o.cache[ref]
	if have == nil || !have.missing.IsZero() {
		return recipe{}, false
	}
	return have.how, true
}

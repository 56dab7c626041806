package forecast

import (
	"maps"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
)

// Unknown is something that could not be read.
type Unknown struct {
	// Text says what, and what counts instead.
	Text string
	// About is what it is about.
	About About
	// Of are the objects, if it is about objects: those of a resource, or without one those of an
	// API group.
	Of schema.GroupResource
}

// About is what an Unknown is about.
type About int

// What an Unknown is about. On the first depends every change, on the second every change of what a
// cluster gets, and on the others only some.
const (
	AboutTheChange About = iota
	AboutClusters
	AboutObjects
	AboutTemplates
)

// Matters reports whether a change can do something else than the Forecast says because this is
// unknown. packages: the change is also one of packages, which is not in the Worlds.
func (c *Comparison) Matters(u *Unknown, packages bool) bool {
	switch u.About {
	case AboutTheChange:
		return true
	case AboutClusters:
		if packages || c.moves {
			return true
		}
		for ref := range c.edited {
			if c.isListed(ref) {
				return true
			}
		}
		return false
	case AboutObjects: // they stay what they are, and so does where they go, if only other objects change
		return c.moves && c.mayCarry(u.Of)
	case AboutTemplates:
		for _, w := range []*World{c.before.world, c.after.world} {
			for ref, o := range w.Objects {
				if templated(o) && c.isListed(ref) && (c.moves || c.edited[ref]) {
					return true
				}
			}
		}
		return false
	}
	return true
}

// moving reports whether the change may alter which objects go to which clusters, or what becomes
// of all objects of a resource: it is not only one of single objects.
func (c *Comparison) moving() bool {
	before, after := c.before.world, c.after.world
	for ref := range c.edited {
		if gr := ref.GroupResource(); gr == namespaces || gr == definitions {
			return true
		}
	}
	samePolicy := func(a, b *controlv1alpha1.BindingPolicy) bool {
		return a == b || apiequality.Semantic.DeepEqual(a.Spec, b.Spec) && maps.Equal(a.Annotations, b.Annotations)
	}
	sameBinding := func(a, b *controlv1alpha1.Binding) bool {
		return a == b || apiequality.Semantic.DeepEqual(a.Spec, b.Spec) && maps.Equal(a.Annotations, b.Annotations)
	}
	return !maps.EqualFunc(before.Policies, after.Policies, samePolicy) || !maps.EqualFunc(before.Bindings, after.Bindings, sameBinding) ||
		!maps.Equal(before.Transforms, after.Transforms) || !maps.Equal(before.Clusters, after.Clusters)
}

// isListed reports whether a Binding lists an object, before or after the change.
func (c *Comparison) isListed(ref objref.Ref) bool {
	for _, s := range []*settled{c.before, c.after} {
		for _, l := range s.listings {
			if l.objects[ref] != nil {
				return true
			}
		}
	}
	return false
}

// mayCarry reports whether a policy may select, or a Binding list, objects of a resource, or of an
// API group.
func (c *Comparison) mayCarry(of schema.GroupResource) bool {
	for _, p := range c.policiesOfBoth() {
		if of.Resource == "" && p.ReachesGroup(of.Group) || of.Resource != "" && p.Reaches(of) {
			return true
		}
	}
	for _, s := range []*settled{c.before, c.after} {
		for _, l := range s.listings {
			for ref := range l.objects {
				if ref.Group == of.Group && (of.Resource == "" || of.Resource == ref.Resource) {
					return true
				}
			}
		}
	}
	return false
}

// policiesOfBoth returns the policies of both Worlds, compiled once. One that is invalid leaves its
// Bindings as they are.
func (c *Comparison) policiesOfBoth() []*match.Policy {
	if c.compiled == nil {
		c.compiled = []*match.Policy{}
		seen := map[*controlv1alpha1.BindingPolicy]bool{}
		for _, s := range []*settled{c.before, c.after} {
			for _, policy := range s.world.Policies {
				if seen[policy] {
					continue
				}
				seen[policy] = true
				if p, _ := match.Compile(&policy.Spec); p != nil {
					c.compiled = append(c.compiled, p)
				}
			}
		}
	}
	return c.compiled
}

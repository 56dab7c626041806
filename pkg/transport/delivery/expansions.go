package delivery

import (
	"slices"

	"k8s.io/utils/lru"

	"github.com/starlinghq/starling/pkg/core/customize"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
	"github.com/starlinghq/starling/pkg/transport/placement"
)

// expansions caches expanded templates, because each is needed whenever something changes at a
// destination. What the cache evicts is expanded again. It is safe for concurrent use.
type expansions struct {
	expanded *lru.Cache // transform.Object by customize.Key
	ignoring *lru.Cache // ignoringObject by ignoringKey
}

// ignoringKey is what an object without its ignored fields depends on.
type ignoringKey struct {
	ref    objref.Ref
	hash   transform.Hash
	fields string
}

// ignoringObject is what plan.Object.Ignoring returned.
type ignoringObject struct {
	object plan.Object
	err    error
}

// largest is the size in bytes of an object up to which its expansion is cached: 256 MiB for all of
// them at most. A larger object is seldom a template, and most of it would be the same in all
// clusters.
const largest = 16 << 10

func newExpansions() *expansions {
	return &expansions{expanded: lru.New(1 << 14), ignoring: lru.New(1 << 12)}
}

// expand returns an object as a cluster receives it. Clusters that receive the same share it.
func (e *expansions) expand(template *customize.Template, p *customize.Properties) (transform.Object, error) {
	key := template.Key(p)
	if o, ok := e.expanded.Get(key); ok {
		if o, ok := o.(transform.Object); ok {
			return o, nil
		}
	}
	object, err := template.Expand(p)
	if err == nil && len(object.JSON) <= largest {
		e.expanded.Add(key, object)
	}
	return object, err
}

// expandAll returns what a Placement asks of a destination with these properties, nil if they are
// not known, and what is wrong there. An object that cannot be expanded, or not yet, is not Known:
// it stays as it is at the destination.
func (e *expansions) expandAll(p *placement.Placement, properties *customize.Properties) (desired *plan.Desired, problems []string) {
	desired = p.Desired.With(func(o *plan.Object) {
		template := p.Templates[o.Ref]
		if template == nil || !o.Known {
			return
		}
		if properties == nil {
			o.Known = false
			return
		}
		expanded, err := e.expand(template, properties)
		if err != nil {
			o.Known = false
			problems = append(problems, o.Ref.String()+": "+placement.Clip(err.Error()))
			return
		}
		o.Object = expanded
	})
	slices.Sort(problems)
	return desired, problems
}

// ignoreAll returns the objects such that clusters leave their ignored fields alone, and what is
// wrong with some. An object with a field that they cannot leave alone is not Known: it stays as it
// is.
func (e *expansions) ignoreAll(desired *plan.Desired) (ignoring *plan.Desired, problems []string) {
	if !desired.Ignores() {
		return desired, nil
	}
	ignoring = desired.With(func(o *plan.Object) {
		if o.IgnoredFields == "" || !o.Known {
			return
		}
		made := e.ignore(o)
		if made.err != nil {
			o.Known = false
			problems = append(problems, o.Ref.String()+": "+placement.Clip(made.err.Error()))
			return
		}
		o.Object, o.Whole = made.object.Object, made.object.Whole
	})
	slices.Sort(problems)
	return ignoring, problems
}

func (e *expansions) ignore(o *plan.Object) ignoringObject {
	key := ignoringKey{o.Ref, o.Hash, o.IgnoredFields}
	if made, ok := e.ignoring.Get(key); ok {
		if made, ok := made.(ignoringObject); ok {
			return made
		}
	}
	var made ignoringObject
	made.object, made.err = o.Ignoring()
	if len(o.JSON) <= largest {
		e.ignoring.Add(key, made)
	}
	return made
}

// refusedTexts returns which ignored fields a cluster could not leave alone.
func refusedTexts(works []*plan.Work) []string {
	var texts []string
	for _, item := range plan.Items(works) {
		if item.Stage.Refused != "" {
			texts = append(texts, item.Ref.String()+": "+item.NotIgnored())
		}
	}
	return texts
}

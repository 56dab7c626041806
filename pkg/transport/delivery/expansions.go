package delivery

import (
	"slices"

	"k8s.io/utils/lru"

	"github.com/starlinghq/starling/pkg/core/customize"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
	"github.com/starlinghq/starling/pkg/transport/placement"
)

// expansions caches expanded templates, because each is needed whenever something changes at a
// destination. What the cache evicts is expanded again. It is safe for concurrent use.
type expansions struct {
	expanded *lru.Cache // transform.Object by customize.Key
}

// largest is the size in bytes of an object up to which its expansion is cached: 256 MiB for all of
// them at most. A larger object is seldom a template, and most of it would be the same in all
// clusters.
const largest = 16 << 10

func newExpansions() *expansions { return &expansions{expanded: lru.New(1 << 14)} }

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

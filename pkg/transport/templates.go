package transport

import (
	"slices"

	"k8s.io/utils/lru"

	"github.com/starlinghq/starling/pkg/core/customize"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// templates remembers what was made of templates, since each is needed whenever something happens at a destination. What is
// forgotten is made again. It is safe for concurrent use.
type templates struct {
	compiled *lru.Cache // compiledTemplate by compilation
	expanded *lru.Cache // transform.Object by customize.Key
}

// largest is the size of an object up to which it is remembered as it goes to a cluster: 256 MiB for all of them at most. What is
// larger is seldom a template, and most of it would be the same in all clusters.
const largest = 16 << 10

// compilation is what a compiled template depends on.
type compilation struct {
	ref    objref.Ref
	source transform.Hash
}

type compiledTemplate struct {
	template *customize.Template
	err      error
}

func newTemplates() *templates {
	const compiled, expanded = 1 << 13, 1 << 14
	return &templates{compiled: lru.New(compiled), expanded: lru.New(expanded)}
}

// compile returns the templates of an object, nil if it has none.
func (t *templates) compile(object transform.Object) (*customize.Template, error) {
	if !customize.Asks(object) {
		return nil, nil
	}
	key := compilation{object.Ref, object.Hash}
	if c, ok := t.compiled.Get(key); ok {
		if c, ok := c.(compiledTemplate); ok {
			return c.template, c.err
		}
	}
	template, err := customize.Compile(object)
	t.compiled.Add(key, compiledTemplate{template, err})
	return template, err
}

// expand returns the object as it goes to a cluster. Clusters that get the same share it.
func (t *templates) expand(template *customize.Template, p *customize.Properties) (transform.Object, error) {
	key := template.Key(p)
	if o, ok := t.expanded.Get(key); ok {
		if o, ok := o.(transform.Object); ok {
			return o, nil
		}
	}
	object, err := template.Expand(p)
	if err == nil && len(object.JSON) <= largest {
		t.expanded.Add(key, object)
	}
	return object, err
}

// expand fits what a Binding asks for to a destination. What cannot be expanded there, or not yet, stays as it is there. It
// returns the properties that it used, nil if they are not known, and what is wrong.
func (s *space) expand(p *placement, mailbox string) (desired *plan.Desired, used *customize.Properties, problems []string) {
	destination, _ := s.store.destination(mailbox)
	desired = p.desired.With(func(o *plan.Object) {
		template := p.templates[o.Ref]
		if template == nil || !o.Known {
			return
		}
		if destination.Properties == nil {
			o.Known = false
			return
		}
		expanded, err := s.templates.expand(template, destination.Properties)
		if err != nil {
			o.Known = false
			problems = append(problems, o.Ref.String()+": "+clip(err.Error()))
			return
		}
		o.Object = expanded
	})
	slices.Sort(problems)
	return desired, destination.Properties, problems
}

package placement

import (
	"k8s.io/utils/lru"

	"github.com/starlinghq/starling/pkg/core/customize"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// templates caches compiled templates: a Binding is gathered whenever one of its objects changes.
// What the cache evicts is compiled again. It is safe for concurrent use.
type templates struct {
	compiled *lru.Cache // compiledTemplate by compilation
}

// compilation is what a compiled template depends on.
type compilation struct {
	ref    objref.Ref
	source transform.Hash
}

type compiledTemplate struct {
	template *customize.Template
	err      error
}

func newTemplates() *templates { return &templates{compiled: lru.New(1 << 13)} }

// compile returns the templates of an object, nil if it has none.
func (t *templates) compile(object transform.Object) (*customize.Template, error) {
	if !customize.MayHave(object) {
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

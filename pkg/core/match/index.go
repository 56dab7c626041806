package match

import (
	"github.com/starlinghq/starling/pkg/core/objref"
)

// Index relates policies, objects, Namespaces and clusters. It is safe for concurrent use.
type Index struct{}

// NewIndex returns an empty Index.
func NewIndex() *Index { return &Index{} }

// Observe adds an Observer. Call it before the Index is told of anything.
func (x *Index) Observe(Observer) {}

// Requests returns what is asked for the status of the object. Its cost is that of the policies that select the object.
func (x *Index) Requests(objref.Ref) Requests { return Requests{} }

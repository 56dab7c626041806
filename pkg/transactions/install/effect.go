package install

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Effect is which objects of a package would change, as users write them:
// "CustomResourceDefinition.apiextensions.k8s.io/buckets.example.com".
type Effect struct {
	Created, Updated []string
	// Adopted are those of Updated that exist and that no package owns.
	Adopted []string
}

type change int

const (
	unchanged change = iota
	created
	updated
	adopted
)

func (e *Effect) add(c change, o *unstructured.Unstructured) {
	name := o.GroupVersionKind().GroupKind().String() + "/" + o.GetName()
	switch c {
	case created:
		e.Created = append(e.Created, name)
	case updated:
		e.Updated = append(e.Updated, name)
	case adopted:
		e.Updated, e.Adopted = append(e.Updated, name), append(e.Adopted, name)
	case unchanged:
	}
}

func (e *Effect) sort() {
	slices.Sort(e.Created)
	slices.Sort(e.Updated)
	slices.Sort(e.Adopted)
}

package match

import (
	"fmt"
	"slices"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/text"
)

// withhold notes that the object passes a clause that does not name its Namespace. A clause that
// selects whatever there is does not count: nobody means the system of a cluster by it. It reports
// whether the clause counts.
func (p *policy) withhold(o *object, clause int) bool {
	if !p.compiled.clauses[clause].specific {
		return false
	}
	if before, known := p.withheld[o]; !known || clause < before {
		p.withheld[o] = clause
	}
	return true
}

// release forgets which policies the object is withheld from.
func (x *Index) release(c *changing, o *object) {
	if !isSystem(o.namespace) {
		return
	}
	for _, p := range x.policies {
		if _, known := p.withheld[o]; known {
			delete(p.withheld, o)
			c.policy(p, ChangedRequests)
		}
	}
}

// Withheld says which objects in kube-system and kube-public the policy would select if its clauses
// named the namespace, and how to have them delivered.
func (x *Index) Withheld(name string) []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.policies[name]
	if p == nil {
		return nil
	}
	type place struct {
		clause    int
		namespace string
	}
	found := map[place][]objref.Ref{}
	for o, clause := range p.withheld {
		if _, selected := p.objects[o]; selected {
			continue // by another clause
		}
		at := place{clause, o.namespace}
		found[at] = append(found[at], o.ref())
	}
	var texts []string
	for at, refs := range found {
		slices.SortFunc(refs, objref.Compare)
		names := make([]string, len(refs))
		for i, ref := range refs {
			names[i] = ref.String()
		}
		const most = 3
		texts = append(texts, fmt.Sprintf("spec.downsync[%d]: %s not delivered, because the clause does not name namespace %s: %s. "+
			"To deliver %s, add a clause with namespaces: [%s]; otherwise exclude the namespace by its label kubernetes.io/metadata.name in namespaceSelectors",
			at.clause, text.Count(len(refs), "object is|objects are"), at.namespace, text.List(names, most),
			text.Plural(len(refs), "it", "them"), at.namespace))
	}
	slices.Sort(texts)
	return texts
}

package match

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/text"
)

// withhold notes that the object passes a clause that does not take it: it does not name its
// Namespace, or no object of its kind is workload. A clause that
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
	if !isSystem(o.namespace) && !Unsent(o.resource.GroupResource()) {
		return
	}
	for _, p := range x.policies {
		if _, known := p.withheld[o]; known {
			delete(p.withheld, o)
			c.policy(p, ChangedRequests)
		}
	}
}

// Withheld says which objects the policy would select if its clauses named their Namespace, which
// is kube-system or kube-public, or if objects of their kind were workload; and what to do.
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
		unsent    schema.GroupResource
	}
	found := map[place][]objref.Ref{}
	for o, clause := range p.withheld {
		if _, selected := p.objects[o]; selected {
			continue // by another clause
		}
		at := place{clause: clause, namespace: o.namespace}
		if gr := o.resource.GroupResource(); Unsent(gr) {
			at = place{clause: clause, unsent: gr}
		}
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
		objects := fmt.Sprintf("spec.downsync[%d]: %s not delivered, because ", at.clause, text.Count(len(refs), "object is|objects are"))
		list, it := text.List(names, most), text.Plural(len(refs), "it", "them")
		if at.unsent.Resource != "" {
			texts = append(texts, fmt.Sprintf("%sno object of resource %s is workload: %s. Create %s in the clusters by other means, "+
				"and remove the labels or names that select %s", objects, at.unsent, list, it, it))
			continue
		}
		texts = append(texts, fmt.Sprintf("%sthe clause does not name namespace %s: %s. "+
			"To deliver %s, add a clause with namespaces: [%s]; otherwise exclude the namespace by its label kubernetes.io/metadata.name in namespaceSelectors",
			objects, at.namespace, list, it, at.namespace))
	}
	slices.Sort(texts)
	return texts
}

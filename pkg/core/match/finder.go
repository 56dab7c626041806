package match

import "slices"

// entry is a clause as the finder holds it.
type entry struct {
	policy *policy
	clause *clause
	// index is that of the clause in its policy.
	index   int
	anchors []anchor
}

// finder leads from the properties of an object to the clauses that it could pass. Each clause
// hangs on the anchors of one way to it, so that an object which passes meets it at least once.
type finder struct {
	entries map[anchor][]*entry
	// count is the number of anchors of each kind in use: a kind without any is not searched.
	count [anchorKinds]int
	// selectors counts the clauses that have namespace selectors.
	selectors int
}

// add hangs up the clauses of the policy, each where it meets the fewest others: 200 policies that
// select the same label in 200 namespaces spread over the namespaces.
func (f *finder) add(p *policy) {
	for i := range p.compiled.clauses {
		c := &p.compiled.clauses[i]
		e := &entry{policy: p, clause: c, index: i}
		e.anchors = c.way(func(a anchor) int { return len(f.entries[a]) })
		for _, a := range e.anchors {
			f.entries[a] = append(f.entries[a], e)
			f.count[a.kind]++
		}
		if c.namespaceSelectors != nil {
			f.selectors++
		}
		p.entries = append(p.entries, e)
	}
}

// remove takes down the clauses of the policy.
func (f *finder) remove(p *policy) {
	for _, e := range p.entries {
		for _, a := range e.anchors {
			f.entries[a] = slices.DeleteFunc(f.entries[a], func(other *entry) bool { return other == e })
			if len(f.entries[a]) == 0 {
				delete(f.entries, a)
			}
			f.count[a.kind]--
		}
		if e.clause.namespaceSelectors != nil {
			f.selectors--
		}
	}
	p.entries = nil
}

// candidates calls visit for the clauses that the object could pass; for some, more than once.
func (f *finder) candidates(o *object, namespaceLabels map[string]string, visit func(*entry)) {
	at := func(a anchor) {
		if f.count[a.kind] == 0 {
			return
		}
		for _, e := range f.entries[a] {
			visit(e)
		}
	}
	at(anchor{kind: byNothing})
	at(anchor{kind: byGroup, key: o.resource.Group})
	at(anchor{kind: byResource, key: o.resource.Resource.Resource})
	at(anchor{kind: byName, key: o.name})
	if o.namespace != "" {
		at(anchor{kind: byNamespace, key: o.namespace})
	}
	for key, value := range o.labels {
		at(anchor{kind: byLabel, key: key, value: value})
		at(anchor{kind: byLabelKey, key: key})
	}
	for key, value := range namespaceLabels {
		at(anchor{kind: byNamespaceLabel, key: key, value: value})
		at(anchor{kind: byNamespaceLabelKey, key: key})
	}
}

package match

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/text"
)

// Candidate is what the tests of a clause look at.
type Candidate struct {
	schema.GroupResource

	Namespace, Name string
	Labels          map[string]string
	// NamespaceLabels are those of its Namespace. NamespaceKnown is false if that was not read, or
	// does not exist.
	NamespaceLabels map[string]string
	NamespaceKnown  bool
}

// Test is a test that an object must pass for a clause to select it.
type Test int8

// Tests, in their order. An object that fails a later one is nearer to being selected.
const (
	TestGroup Test = iota
	TestResource
	TestName
	TestNamespace
	TestObjectLabels
	TestNamespaceLabels
	// TestSystem: the clause must name the Namespace, if that is kube-system or kube-public.
	TestSystem
	// TestNone: there is no test that the object fails.
	TestNone
)

// ClauseResult is whether a clause selects an object, and why not.
type ClauseResult struct {
	// Clause is its index in spec.downsync.
	Clause int
	// Failed is the first test that the object fails, TestNone if the clause selects the object.
	Failed Test
	// Text says what the test wants and what the object has. It is empty for TestNone.
	Text string
	// Change has arguments of `kubectl label` by which the labels that the test looks at would pass
	// it; it is empty for other tests.
	Change []string
}

// maxValues bounds the values that a text lists.
const maxValues = 6

// Explain returns for each clause whether it selects an object that is workload. What it says
// selected is what an Index selects.
func (p *Policy) Explain(o *Candidate) []ClauseResult {
	results := make([]ClauseResult, len(p.clauses))
	for i := range p.clauses {
		c := &p.clauses[i]
		r := &results[i]
		r.Clause, r.Failed = i, c.fails(o)
		if r.Failed == TestNone && !c.takes(o.GroupResource, o.Namespace) {
			r.Failed = TestSystem
		}
		r.Text, r.Change = c.describe(&p.spec.Downsync[i], o, r.Failed)
	}
	return results
}

// Modulation returns how the policy carries an object, nil if it does not select it.
func (p *Policy) Modulation(o *Candidate) *controlv1alpha1.DownsyncModulation {
	var m *controlv1alpha1.DownsyncModulation
	for i := range p.clauses {
		if c := &p.clauses[i]; c.fails(o) == TestNone && c.takes(o.GroupResource, o.Namespace) {
			m = mergeModulation(m, c.modulation)
		}
	}
	return m
}

// describe says what a test of a clause wants and what the object has.
func (c *clause) describe(spec *controlv1alpha1.DownsyncPolicyClause, o *Candidate, failed Test) (what string, change []string) {
	switch failed {
	case TestGroup:
		return fmt.Sprintf("apiGroup is %q, that of the object is %q", *c.group, o.Group), nil
	case TestResource:
		return "resources are " + list(spec.Resources) + ", that of the object is " + o.Resource, nil
	case TestName:
		return "objectNames are " + list(spec.ObjectNames) + ", that of the object is " + o.Name, nil
	case TestNamespace:
		if o.Namespace != "" {
			return "namespaces are " + list(spec.Namespaces) + ", that of the object is " + o.Namespace, nil
		}
		return "the object is in no namespace, and a clause with namespaces or namespaceSelectors selects only objects that are in one", nil
	case TestObjectLabels:
		what, change = describeSelectors("objectSelectors", c.objectSelectors, o.Labels)
		return what, change
	case TestNamespaceLabels:
		if !o.NamespaceKnown {
			return "namespaceSelectors select by labels of Namespace " + o.Namespace + ", which are not known", nil
		}
		return describeSelectors("namespaceSelectors", c.namespaceSelectors, o.NamespaceLabels)
	case TestSystem:
		if Unsent(o.GroupResource) {
			return becauseResource, nil
		}
		return fmt.Sprintf("the clause does not name namespace %s, which each cluster has of its own: add a clause with namespaces: [%s]", o.Namespace, o.Namespace), nil
	case TestNone:
	}
	return "", nil
}

func list(names []string) string { return "[" + text.List(names, maxValues) + "]" }

// ExplainCluster reports whether a cluster with these labels is a destination and, if not, what the
// cluster selectors want, and the arguments of `kubectl label` that make it one.
func (p *Policy) ExplainCluster(clusterLabels map[string]string) (selected bool, what string, change []string) {
	switch {
	case p.SelectsCluster(clusterLabels):
		return true, "", nil
	case p.MatchesCluster(clusterLabels):
		return false, "it is drained", []string{controlv1alpha1.LabelDrained + "-"}
	case len(p.clusters) == 0:
		return false, "clusterSelectors is empty, so it selects no cluster", nil
	}
	what, change = describeSelectors("clusterSelectors", p.clusters, clusterLabels)
	return false, what, change
}

// describeSelectors says of each selector what the labels lack, and which change of the labels
// passes the selector that needs the fewest.
func describeSelectors(field string, selectors []labels.Selector, of map[string]string) (what string, change []string) {
	var parts []string
	for i, s := range selectors {
		missing, changes, possible := lacks(s, of)
		parts = append(parts, fmt.Sprintf("%s[%d] wants %s", field, i, strings.Join(missing, " and ")))
		if possible && (change == nil || len(changes) < len(change)) {
			change = changes
		}
	}
	const most = 3
	return text.Join(parts, "; ", most), change
}

// lacks returns what a selector wants that labels do not have, and arguments of `kubectl label` for
// it.
func lacks(s labels.Selector, of map[string]string) (missing, changes []string, possible bool) {
	requirements, selectable := s.Requirements()
	if !selectable {
		return []string{"something that no labels have"}, nil, false
	}
	possible = true
	for i := range requirements {
		r := &requirements[i]
		if r.Matches(labels.Set(of)) {
			continue
		}
		have := "no label " + r.Key()
		if value, ok := of[r.Key()]; ok {
			have = r.Key() + " is " + quoted(value)
		}
		missing = append(missing, r.String()+" ("+have+")")
		change, ok := changeFor(r)
		possible = possible && ok
		changes = append(changes, change)
	}
	return missing, changes, possible
}

func quoted(value string) string {
	if value == "" {
		return `""`
	}
	return value
}

// changeFor returns the argument of `kubectl label` with which labels pass a requirement.
func changeFor(r *labels.Requirement) (change string, possible bool) {
	switch r.Operator() {
	case selection.In, selection.Equals, selection.DoubleEquals:
		values := slices.Sorted(slices.Values(r.ValuesUnsorted()))
		if len(values) == 0 {
			return "", false
		}
		return r.Key() + "=" + values[0], true
	case selection.Exists:
		return r.Key() + "=", true
	case selection.NotIn, selection.NotEquals, selection.DoesNotExist:
		return r.Key() + "-", true
	case selection.GreaterThan, selection.LessThan:
	}
	return "", false
}

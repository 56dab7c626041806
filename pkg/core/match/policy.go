package match

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/inventory"
)

// wildcard is the entry of a list that stands for everything.
const wildcard = "*"

// Policy is a BindingPolicy, understood. It does not change.
type Policy struct {
	spec     *controlv1alpha1.BindingPolicySpec
	clauses  []clause
	clusters []labels.Selector
	// clusterKeys are the label keys that the cluster selectors mention, and that of clusters that
	// are drained.
	clusterKeys map[string]struct{}
	// requests reports whether a clause asks for a status, collects whether one names
	// StatusCollectors.
	requests, collects bool
}

// clause is a compiled DownsyncPolicyClause. A nil test passes always.
type clause struct {
	group              *string
	resources          sets.Set[string]
	names              sets.Set[string]
	namespaces         sets.Set[string]
	namespaceSelectors []labels.Selector
	objectSelectors    []labels.Selector
	// system are the systemNamespaces that the clause names: it selects nothing in the others.
	system sets.Set[string]
	// specific reports whether objects must have a name or a label for the clause to select them.
	// Then somebody may expect that those in systemNamespaces are selected.
	specific   bool
	modulation *controlv1alpha1.DownsyncModulation
}

// Compile understands the spec, or says what is wrong with it: each error begins with the path of
// its field, as in "spec.downsync[2].objectSelectors[0].matchLabels: …", and they are sorted. With
// an error there is no Policy. The spec is retained and must not change.
func Compile(spec *controlv1alpha1.BindingPolicySpec) (*Policy, []string) {
	p := &Policy{
		spec: spec, clauses: make([]clause, 0, len(spec.Downsync)),
		clusterKeys: map[string]struct{}{controlv1alpha1.LabelDrained: {}},
	}
	path := field.NewPath("spec")
	var errs field.ErrorList
	for i := range spec.ClusterSelectors {
		selector, found := compileSelector(&spec.ClusterSelectors[i], path.Child("clusterSelectors").Index(i))
		errs = append(errs, found...)
		if len(found) > 0 {
			continue
		}
		p.clusters = append(p.clusters, selector)
		requirements, _ := selector.Requirements()
		for _, requirement := range requirements {
			p.clusterKeys[requirement.Key()] = struct{}{}
		}
	}
	for i := range spec.Downsync {
		c, found := compileClause(&spec.Downsync[i], path.Child("downsync").Index(i))
		errs = append(errs, found...)
		p.clauses = append(p.clauses, c)
		p.collects = p.collects || collects(c.modulation)
		p.requests = p.requests || wantsStatus(c.modulation)
	}
	if len(errs) == 0 {
		return p, nil
	}
	texts := sets.New[string]()
	for _, err := range errs {
		texts.Insert(err.Error())
	}
	return nil, sets.List(texts)
}

func compileClause(in *controlv1alpha1.DownsyncPolicyClause, path *field.Path) (clause, field.ErrorList) {
	if in.APIGroup == nil && len(in.Resources) == 0 && len(in.Namespaces) == 0 && len(in.NamespaceSelectors) == 0 &&
		len(in.ObjectSelectors) == 0 && len(in.ObjectNames) == 0 {
		return clause{}, field.ErrorList{field.Required(path, `a clause must have at least one of apiGroup, resources, `+
			`namespaces, namespaceSelectors, objectSelectors, objectNames; to select every object say objectNames: ["*"]`)}
	}
	c := clause{
		group:      in.APIGroup,
		resources:  compileNames(in.Resources),
		names:      compileNames(in.ObjectNames),
		namespaces: compileNames(in.Namespaces),
		modulation: mergeModulation(nil, &in.DownsyncModulation),
	}
	var errs, found field.ErrorList
	c.namespaceSelectors, errs = compileSelectors(in.NamespaceSelectors, path.Child("namespaceSelectors"))
	c.objectSelectors, found = compileSelectors(in.ObjectSelectors, path.Child("objectSelectors"))
	c.system = namedSystem(in.Namespaces, c.namespaceSelectors)
	same := func(anchor) int { return 0 }
	c.specific = c.names != nil || selectorsWay(byLabel, byLabelKey, c.objectSelectors, same) != nil ||
		selectorsWay(byNamespaceLabel, byNamespaceLabelKey, c.namespaceSelectors, same) != nil
	return c, append(errs, found...)
}

// compileNames returns nil if every name passes.
func compileNames(names []string) sets.Set[string] {
	if len(names) == 0 || slices.Contains(names, wildcard) {
		return nil
	}
	return sets.New(names...)
}

// compileSelectors returns nil if all labels, and the lack of a labelled thing, pass: for an empty
// list, or one with an empty selector.
func compileSelectors(in []metav1.LabelSelector, path *field.Path) ([]labels.Selector, field.ErrorList) {
	var errs field.ErrorList
	selectors := make([]labels.Selector, 0, len(in))
	all := len(in) == 0
	for i := range in {
		selector, found := compileSelector(&in[i], path.Index(i))
		errs = append(errs, found...)
		if len(found) > 0 {
			continue
		}
		all = all || selector.Empty()
		selectors = append(selectors, selector)
	}
	if all {
		return nil, errs
	}
	return selectors, errs
}

func compileSelector(in *metav1.LabelSelector, path *field.Path) (labels.Selector, field.ErrorList) {
	errs := validation.ValidateLabelSelector(in, validation.LabelSelectorValidationOptions{}, path)
	if len(errs) > 0 {
		return nil, errs
	}
	selector, err := metav1.LabelSelectorAsSelector(in)
	if err != nil {
		return nil, field.ErrorList{field.Invalid(path, metav1.FormatLabelSelector(in), err.Error())}
	}
	return selector, nil
}

// Reaches reports whether objects of that resource could pass a clause.
func (p *Policy) Reaches(gr schema.GroupResource) bool {
	return slices.ContainsFunc(p.clauses, func(c clause) bool { return c.reaches(gr.Group, gr.Resource) })
}

// ReachesGroup reports whether a clause could select objects of that group beyond what it says of
// resources of other groups: it names the group, or neither group nor resource.
func (p *Policy) ReachesGroup(group string) bool {
	return slices.ContainsFunc(p.clauses, func(c clause) bool {
		return c.group != nil && *c.group == group || c.group == nil && c.resources == nil
	})
}

// Names reports whether objects of that resource could pass a clause that names the resource or its
// group: then somebody expects such objects.
func (p *Policy) Names(gr schema.GroupResource) bool {
	return slices.ContainsFunc(p.clauses, func(c clause) bool {
		return (c.group != nil || c.resources != nil) && c.reaches(gr.Group, gr.Resource)
	})
}

// NamesGroup reports whether a clause names the group.
func (p *Policy) NamesGroup(group string) bool {
	return slices.ContainsFunc(p.clauses, func(c clause) bool { return c.group != nil && *c.group == group })
}

// WantsStatus reports whether a clause asks for a status.
func (p *Policy) WantsStatus() bool { return p.requests }

// SelectsCluster reports whether an accepted cluster with these labels is a destination.
func (p *Policy) SelectsCluster(clusterLabels map[string]string) bool {
	return !inventory.Drained(clusterLabels) && p.MatchesCluster(clusterLabels)
}

// MatchesCluster reports whether the selectors match these labels. The cluster may nevertheless not
// be a destination, because it is drained.
func (p *Policy) MatchesCluster(clusterLabels map[string]string) bool {
	return matchesAny(p.clusters, clusterLabels)
}

func (c *clause) reaches(group, resource string) bool {
	return (c.group == nil || *c.group == group) && contains(c.resources, resource)
}

// passes reports whether the object passes all tests. namespaceLabels are those of its Namespace,
// nil if that is not known. An object in one of the systemNamespaces is selected only if the clause
// takes that, too.
func (c *clause) passes(o *object, namespaceLabels map[string]string, namespaceKnown bool) bool {
	return c.fails(&Candidate{
		GroupResource: o.resource.GroupResource(), Namespace: o.namespace, Name: o.name, Labels: o.labels,
		NamespaceLabels: namespaceLabels, NamespaceKnown: namespaceKnown,
	}) == TestNone
}

// fails returns the first test that the object fails, TestNone if it passes all.
func (c *clause) fails(o *Candidate) Test {
	switch {
	case c.group != nil && *c.group != o.Group:
		return TestGroup
	case !contains(c.resources, o.Resource):
		return TestResource
	case !contains(c.names, o.Name):
		return TestName
	case o.Namespace == "" && (c.namespaces != nil || c.namespaceSelectors != nil), o.Namespace != "" && !contains(c.namespaces, o.Namespace):
		return TestNamespace
	case c.objectSelectors != nil && !matchesAny(c.objectSelectors, o.Labels):
		return TestObjectLabels
	case c.namespaceSelectors != nil && !(o.NamespaceKnown && matchesAny(c.namespaceSelectors, o.NamespaceLabels)):
		return TestNamespaceLabels
	}
	return TestNone
}

// takes reports whether the clause selects objects of that resource in that Namespace that pass its
// tests.
func (c *clause) takes(gr schema.GroupResource, namespace string) bool {
	return !Unsent(gr) && (!isSystem(namespace) || c.system.Has(namespace))
}

func contains(set sets.Set[string], name string) bool { return set == nil || set.Has(name) }

func matchesAny(selectors []labels.Selector, of map[string]string) bool {
	return slices.ContainsFunc(selectors, func(s labels.Selector) bool { return s.Matches(labels.Set(of)) })
}

// wantsStatus reports whether the modulation asks for a status. nil asks for nothing.
func wantsStatus(m *controlv1alpha1.DownsyncModulation) bool {
	return m != nil && (m.WantSingletonReportedState || m.WantMultiWECReportedState)
}

// collects reports whether the modulation names StatusCollectors.
func collects(m *controlv1alpha1.DownsyncModulation) bool {
	return m != nil && len(m.StatusCollectors) > 0
}

// mergeModulation returns what two clauses that select one object say together: booleans ORed,
// collectors united, sorted. The first may be nil. Neither is changed; the result may be either.
func mergeModulation(a, b *controlv1alpha1.DownsyncModulation) *controlv1alpha1.DownsyncModulation {
	if a == nil {
		if isSet(b.StatusCollectors) {
			return b
		}
		a = &controlv1alpha1.DownsyncModulation{}
	}
	if EqualModulation(a, b) {
		return a
	}
	merged := &controlv1alpha1.DownsyncModulation{
		CreateOnly:                 a.CreateOnly || b.CreateOnly,
		WantSingletonReportedState: a.WantSingletonReportedState || b.WantSingletonReportedState,
		WantMultiWECReportedState:  a.WantMultiWECReportedState || b.WantMultiWECReportedState,
	}
	merged.StatusCollectors = slices.Concat(a.StatusCollectors, b.StatusCollectors) // nil for none
	slices.Sort(merged.StatusCollectors)
	merged.StatusCollectors = slices.Compact(merged.StatusCollectors)
	return merged
}

// isSet reports whether the names are sorted and none comes twice.
func isSet(names []string) bool {
	for i := 1; i < len(names); i++ {
		if names[i-1] >= names[i] {
			return false
		}
	}
	return true
}

// EqualModulation reports whether two ways to carry an object are the same.
func EqualModulation(a, b *controlv1alpha1.DownsyncModulation) bool {
	return a == b || a.CreateOnly == b.CreateOnly &&
		a.WantSingletonReportedState == b.WantSingletonReportedState &&
		a.WantMultiWECReportedState == b.WantMultiWECReportedState &&
		slices.Equal(a.StatusCollectors, b.StatusCollectors)
}

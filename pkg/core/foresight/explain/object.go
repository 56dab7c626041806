package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/binding"
	"github.com/starlinghq/starling/pkg/core/foresight"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/text"
)

// Explain returns the way of an object to the clusters and back.
func (o *Object) Explain() *Explanation {
	ways := o.Ways()
	e := &Explanation{Subject: o.Ref.String(), Links: ways.Links, Groups: group(ways.Clusters)}
	for i := range ways.Behind {
		e.Notes = append(e.Notes, ways.Behind[i].Text)
	}
	e.Notes = append(e.Notes, o.unknownSettings()...)
	return e.finish(o.well(slices.Sorted(maps.Keys(ways.Clusters))))
}

// Ways are the links of an object, before they are summarized.
type Ways struct {
	// Links are those that all clusters have in common.
	Links []foresight.Link
	// Behind has a link that is not good of each policy that selects the object while its Bindings
	// do not list it, though those of others do; or whose Bindings list it and do not follow the
	// policy yet, so that they may change.
	Behind []foresight.Link
	// Clusters has the links to each cluster that Bindings list with the object, or that policies
	// select for it, or to the one that was asked for; none if a common link is not good.
	Clusters map[string][]foresight.Link
}

// Ways judges the way of an object to the clusters and back.
func (o *Object) Ways() *Ways {
	w := &Ways{Clusters: map[string][]foresight.Link{}}
	c := &chain{}
	carriers := o.carriers()
	c.then(o.exists(carriers), o.isWorkload(carriers), o.selected(carriers))
	if !c.ended {
		carriers, w.Behind = o.carry(c, carriers)
	}
	var reached []string
	if !c.ended {
		reached = o.reach(c, carriers)
	}
	w.Links = c.links
	if !c.ended {
		for _, cluster := range reached {
			w.Clusters[cluster] = o.toCluster(cluster, carriers)
		}
	}
	return w
}

func (o *Object) well(clusters []string) string {
	return fmt.Sprintf("%s is in %s, applied and healthy as far as it reports", o.Ref, listClusters(clusters))
}

// maxNames bounds the names that a text lists.
const maxNames = 6

func listClusters(names []string) string {
	return text.Plural(len(names), "cluster ", "clusters ") + text.List(names, maxNames)
}

// carrier is a policy, or a Binding without one, that selects the object or lists it.
type carrier struct {
	name   string
	policy *controlv1alpha1.BindingPolicy // nil for a Binding that no policy owns
	// pkg is what the Binding delivers the object of, "" for an object of the WDS.
	pkg string
	// compiled is nil if the spec is invalid, for the reasons in invalid.
	compiled *match.Policy
	invalid  []string
	results  []match.ClauseResult
	selects  bool
	bindings foresight.Fact[[]*controlv1alpha1.Binding]
	// listing are those of its Bindings that list the object.
	listing []*controlv1alpha1.Binding
}

func (r *carrier) String() string {
	if r.pkg != "" {
		return r.pkg + " (Binding " + r.name + ")"
	}
	if r.policy == nil {
		return "Binding " + r.name
	}
	return "BindingPolicy " + r.name
}

func shown(carriers []*carrier) []string {
	names := make([]string, len(carriers))
	for i, r := range carriers {
		names[i] = r.String()
	}
	return names
}

// carriers returns what is known of each policy, and of Bindings without one, sorted by name.
func (o *Object) carriers() []*carrier {
	var list []*carrier
	for i := range o.Policies.Value {
		s := &o.Policies.Value[i]
		r := &carrier{name: s.Policy.Name, policy: s.Policy, bindings: s.Bindings, listing: listing(s.Bindings.Value, o.Ref)}
		r.compiled, r.invalid = match.Compile(&s.Policy.Spec)
		if r.compiled != nil && o.Live.Value != nil {
			r.results = r.compiled.Explain(o.Candidate())
			r.selects = slices.ContainsFunc(r.results, func(c match.ClauseResult) bool { return c.Failed == match.TestNone })
		}
		list = append(list, r)
	}
	for _, b := range o.Loose {
		list = append(list, &carrier{name: b.Name, selects: true, bindings: foresight.Known([]*controlv1alpha1.Binding{b}), listing: []*controlv1alpha1.Binding{b}})
	}
	for _, b := range o.Packages.Value {
		list = append(list, &carrier{
			name: b.Name, pkg: packagesOf(b), selects: true, bindings: foresight.Known([]*controlv1alpha1.Binding{b}), listing: []*controlv1alpha1.Binding{b},
		})
	}
	slices.SortFunc(list, func(a, b *carrier) int { return strings.Compare(a.name, b.name) })
	return list
}

// packagesOf returns the packages that a Binding delivers.
func packagesOf(b *controlv1alpha1.Binding) string {
	var names []string
	for i := range b.Spec.Workload.Packages {
		p := &b.Spec.Workload.Packages[i]
		names = append(names, fmt.Sprintf("PackageRevision %s of namespace %s", p.Name, p.Namespace))
	}
	return text.List(names, maxNames)
}

// listing returns the Bindings that list an object.
func listing(bindings []*controlv1alpha1.Binding, ref objref.Ref) []*controlv1alpha1.Binding {
	var found []*controlv1alpha1.Binding
	for _, b := range bindings {
		for entry := range match.Entries(&b.Spec) {
			if entry.Ref == ref {
				found = append(found, b)
				break
			}
		}
	}
	return found
}

func namesOf(bindings []*controlv1alpha1.Binding) string {
	names := make([]string, len(bindings))
	for i, b := range bindings {
		names[i] = b.Name
	}
	return text.Plural(len(names), "Binding ", "Bindings ") + text.List(names, maxNames)
}

// allListing returns the Bindings of all carriers that list the object.
func allListing(carriers []*carrier) []*controlv1alpha1.Binding {
	var all []*controlv1alpha1.Binding
	for _, r := range carriers {
		all = append(all, r.listing...)
	}
	return all
}

func (o *Object) exists(carriers []*carrier) func(*chain) {
	return func(c *chain) {
		switch {
		case o.Live.Unread != "":
			c.add(foresight.Link{Name: LinkExists, State: foresight.Unknown, Text: "whether " + o.Ref.String() + " exists is unknown: " + o.Live.Unread})
		case o.Live.Value == nil:
			what := o.Ref.String() + " does not exist in the WDS"
			if packages := slices.DeleteFunc(slices.Clone(carriers), func(r *carrier) bool { return r.pkg == "" }); len(packages) > 0 {
				c.good(LinkExists, "works have it that are of %s", text.List(shown(packages), maxNames))
				return
			}
			if said := o.leaving(carriers); said != "" {
				c.waiting(LinkExists, what+", and has not left the clusters. "+said)
				return
			}
			if all := allListing(carriers); len(all) > 0 {
				c.waiting(LinkExists, what+". "+namesOf(all)+text.Plural(len(all), " lists", " list")+" it still: it is being removed from the clusters")
				return
			}
			if o.Packages.Unread != "" {
				c.unknown(LinkExists, what+", and whether a package has it is unknown: "+o.Packages.Unread)
				return
			}
			if o.Policy == "" {
				if what += ", and no package has delivered it"; o.Cluster != "" {
					what += " to cluster " + o.Cluster
				}
				c.broken(LinkExists, what, "kubectl apply -f FILE",
					"If a package should deliver it: kubectl starling explain package/REPOSITORY/NAME")
				return
			}
			c.broken(LinkExists, what, "kubectl apply -f FILE")
		case o.Live.Value.GetDeletionTimestamp() != nil:
			o.ends(c, carriers)
		default:
			c.good(LinkExists, "it exists in the WDS")
		}
	}
}

// leaving returns what a Binding says of the object that it does not list any more, "" if nothing.
func (o *Object) leaving(carriers []*carrier) string {
	for _, r := range carriers {
		for _, b := range r.bindings.Value {
			delivered := meta.FindStatusCondition(b.Status.Conditions, controlv1alpha1.BindingConditionDelivered)
			if delivered == nil || slices.Contains(r.listing, b) {
				continue
			}
			for said := range strings.SplitSeq(delivered.Message, "; ") {
				if strings.Contains(said, ": "+o.Ref.String()+" ") {
					return "Binding " + b.Name + ": " + said
				}
			}
		}
	}
	return ""
}

// ends says what becomes of an object that is being deleted: no policy selects it any more. What a
// user lists in a Binding stays in the clusters as long as it exists.
func (o *Object) ends(c *chain, carriers []*carrier) {
	waitsFor, remedy := "its finalizers to be removed: "+text.List(o.Live.Value.GetFinalizers(), maxNames), o.edit()+"   # metadata.finalizers: remove those that no controller of the WDS removes"
	if o.Ref.GroupResource() == (schema.GroupResource{Resource: "namespaces"}) && len(o.Live.Value.GetFinalizers()) == 0 {
		waitsFor, remedy = "the objects in it to leave the WDS: "+remaining(o.Live.Value), "kubectl get namespace "+o.Ref.Name+" --output yaml   # status.conditions"
	}
	ofUsers := func(r *carrier) bool { return r.policy == nil }
	all := allListing(slices.DeleteFunc(slices.Clone(carriers), ofUsers))
	switch {
	case slices.ContainsFunc(carriers, ofUsers):
		c.good(LinkExists, "it exists, and is being deleted: it waits for %s", waitsFor)
	case len(all) > 0:
		c.waiting(LinkExists, o.Ref.String()+" is being deleted in the WDS. "+namesOf(all)+text.Plural(len(all), " lists", " list")+
			" it still: it is being removed from the clusters")
	default:
		c.broken(LinkExists, o.Ref.String()+" is being deleted, so it is not delivered any more. It stays in the WDS, and waits for "+waitsFor, remedy)
	}
}

// remaining returns what the WDS says of the objects in a Namespace that is being deleted.
func remaining(namespace *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(namespace.Object, "status", "conditions")
	var says []string
	for _, condition := range conditions {
		if c, is := condition.(map[string]any); is && c["status"] == "True" {
			says = append(says, fmt.Sprint(c["message"]))
		}
	}
	return cmp.Or(text.List(says, maxNames), "not reported yet")
}

func (o *Object) isWorkload(carriers []*carrier) func(*chain) {
	return func(c *chain) {
		if o.Live.Value == nil {
			return // then only what is listed counts
		}
		if why := match.NeverBecause(o.Ref.GroupResource(), o.Live.Value); why != "" {
			c.broken(LinkWorkload, o.Ref.String()+" is no workload, and is never delivered: "+why, "Deliver an object of another kind or name.")
			return
		}
		known, listed := &o.Settings.Bindings, len(allListing(carriers)) > 0
		if !known.Selectable(o.Ref.GroupResource()) && !listed {
			c.broken(LinkWorkload, fmt.Sprintf("%s is of an API group that is not delivered: the binding-controller runs with --api-groups=%s", o.Ref, strings.Join(known.APIGroups, ",")),
				"To deliver it nevertheless, add the group to --api-groups of the binding-controller.")
			return
		}
		if match.Generated(o.Ref.GroupResource(), o.Live.Value) && !known.IncludeGenerated && !listed {
			c.broken(LinkWorkload, o.Ref.String()+" is made by controllers in each namespace of each cluster, so it is no workload by default",
				"To deliver it nevertheless, run the binding-controller with --include-generated.")
			return
		}
		c.good(LinkWorkload, "it may be delivered")
	}
}

// selected judges whether a policy selects the object.
func (o *Object) selected(carriers []*carrier) func(*chain) {
	return func(c *chain) {
		selects := false
		for _, r := range carriers {
			for _, result := range r.results {
				if result.Failed == match.TestNone {
					selects = true
					c.good(LinkSelected, "%s selects it: spec.downsync[%d]", r, result.Clause)
				}
			}
			switch {
			case r.pkg != "":
				selects = true
				c.good(LinkSelected, "it is delivered with its package, whatever policies select")
			case r.policy == nil:
				selects = true
				c.good(LinkSelected, "%s lists it, and belongs to no policy", r)
			}
		}
		listed := allListing(carriers)
		switch {
		case selects, o.Live.Value == nil && len(listed) > 0:
		case o.Policies.Unread != "":
			c.unknown(LinkSelected, "which policies select it is unknown: "+o.Policies.Unread)
		case o.Policy != "" && len(carriers) == 0:
			c.broken(LinkSelected, "there is no BindingPolicy "+o.Policy, "kubectl get bindingpolicies")
		case len(carriers) == 0:
			c.broken(LinkSelected, "there is no BindingPolicy, so nothing is delivered", "Create a BindingPolicy: kubectl explain bindingpolicy.spec")
		case o.Live.Value == nil:
			c.unknown(LinkSelected, "no Binding lists it. Whether a policy selects it depends on its labels, which are unknown")
		default:
			o.notSelected(c, carriers, listed)
		}
	}
}

// notSelected says what each policy lacks, the nearest first.
func (o *Object) notSelected(c *chain, carriers []*carrier, listed []*controlv1alpha1.Binding) {
	type near struct {
		test   match.Test
		text   string
		change []string
	}
	var nearest []near
	frozen := false
	for _, r := range carriers {
		if len(r.invalid) > 0 {
			frozen = frozen || len(r.listing) > 0
			nearest = append(nearest, near{test: match.TestNone, text: fmt.Sprintf("%s is invalid, and selects nothing new: %s", r, text.List(r.invalid, 1))})
			continue
		}
		best := near{test: -1, text: r.String() + ": spec.downsync is empty"}
		for _, result := range r.results {
			if result.Failed > best.test {
				best = near{test: result.Failed, text: fmt.Sprintf("%s: spec.downsync[%d]: %s", r, result.Clause, result.Text), change: result.Change}
			}
		}
		nearest = append(nearest, best)
	}
	if frozen {
		return // the links of the policy say more
	}
	slices.SortStableFunc(nearest, func(a, b near) int { return int(b.test) - int(a.test) })
	texts := make([]string, len(nearest))
	for i := range nearest {
		texts[i] = nearest[i].text
	}
	what := "no policy selects it. "
	if o.Policy != "" {
		what = "the policy does not select it. "
	}
	const most = 3
	what += text.Join(texts, "; ", most)
	var fix []string
	if change := nearest[0].change; len(change) > 0 {
		switch nearest[0].test { //nolint:exhaustive // only labels can be changed by a command
		case match.TestObjectLabels:
			fix = append(fix, relabelInWDS(o.Ref.GroupResource().String()+" "+o.Ref.Name, o.Ref.Namespace, o.labels(), change)...)
		case match.TestNamespaceLabels:
			fix = append(fix, relabelInWDS("namespace "+o.Ref.Namespace, "", o.Namespace.Value, change)...)
		}
	} else if name := o.nearestPolicy(carriers); name != "" {
		fix = append(fix, "kubectl edit bindingpolicy "+name)
	}
	if len(listed) > 0 {
		what += ". " + namesOf(listed) + text.Plural(len(listed), " lists", " list") + " it still"
		for _, r := range carriers {
			if len(r.listing) == 0 || r.policy == nil {
				continue
			}
			if blocked := meta.FindStatusCondition(r.policy.Status.Conditions, controlv1alpha1.BindingPolicyConditionRemovalBlocked); blocked != nil {
				what += ": " + blocked.Message
				if len(fix) > 0 {
					fix = append(fix, "Or, if it is to leave these clusters:")
				}
				fix = append(fix, binding.AllowCommand(blocked.Message))
			}
		}
	}
	c.broken(LinkSelected, what, fix...)
}

// nearestPolicy returns the only policy that could be meant.
func (o *Object) nearestPolicy(carriers []*carrier) string {
	if o.Policy != "" {
		return o.Policy
	}
	if len(carriers) == 1 {
		return carriers[0].name
	}
	return ""
}

// labels returns the labels that the object has in the WDS.
func (o *Object) labels() map[string]string {
	if o.Live.Value == nil {
		return nil
	}
	return o.Live.Value.GetLabels()
}

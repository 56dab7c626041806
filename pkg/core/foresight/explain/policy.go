package explain

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/binding"
	"github.com/starlinghq/starling/pkg/core/foresight"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/text"
)

// Explain returns the way of what a policy selects.
func (p *Policy) Explain() *Explanation {
	e := &Explanation{Subject: "BindingPolicy " + p.Name}
	c := &chain{}
	bindings := p.Selection.Value.Bindings.Value
	var clusters []string
	c.then(p.exists, p.isValid, p.isSynced, p.hasObjects, func(c *chain) { clusters = p.reach(c) }, held(bindings, &p.Transactions))
	e.Links = c.links
	if policy := p.Selection.Value.Policy; policy != nil {
		e.Notes = append(p.notes(policy), p.unknownSettings()...)
	}
	if !c.ended {
		chains := map[string][]foresight.Link{}
		for _, cluster := range clusters {
			chains[cluster] = p.toCluster(cluster, bindings)
		}
		e.Groups = group(chains)
	}
	return e.finish(fmt.Sprintf("what BindingPolicy %s selects is in %s, applied and healthy as far as it reports", p.Name, listClusters(clusters)))
}

// Common judges what the policy has in common for all clusters: that it exists, and that its
// Bindings list what it selects.
func (p *Policy) Common() []foresight.Link {
	c := &chain{}
	c.then(p.exists, p.isValid, p.isSynced, p.listsObjects, p.hasObjects, func(c *chain) { p.reach(c) }, p.listsClusters)
	return c.links
}

// Listed returns what its Bindings list, with the version of the API.
func (p *Policy) Listed() map[objref.Ref]string {
	all := map[objref.Ref]string{}
	for _, b := range p.Selection.Value.Bindings.Value {
		for entry := range match.Entries(&b.Spec) {
			all[entry.Ref] = entry.Version
		}
	}
	return all
}

// Leaving returns the objects that its Bindings do not list any more for a cluster, though its
// mailbox still has them, by cluster.
func (p *Policy) Leaving() map[string][]objref.Ref {
	bindings := p.Selection.Value.Bindings.Value
	listed := make([]map[objref.Ref]struct{}, len(bindings))
	for i, b := range bindings {
		listed[i] = binding.Refs(&b.Spec)
	}
	leaving := map[string][]objref.Ref{}
	for cluster, box := range p.Mailboxes {
		var lists []map[objref.Ref]struct{} // of the Bindings that list the cluster
		for i, b := range bindings {
			if listsCluster(b, cluster) {
				lists = append(lists, listed[i])
			}
		}
		for ref, places := range box.all() {
			stays := slices.ContainsFunc(lists, func(refs map[objref.Ref]struct{}) bool {
				_, lists := refs[ref]
				return lists
			})
			if !stays && has(places, bindings) {
				leaving[cluster] = append(leaving[cluster], ref)
			}
		}
	}
	return leaving
}

// notes are the errors of the policy that no link shows: those of the transport are about objects,
// and links show them.
func (p *Policy) notes(policy *controlv1alpha1.BindingPolicy) []string {
	const most = 6
	var transported []string
	for _, b := range p.Selection.Value.Bindings.Value {
		transported = append(transported, b.Status.Errors...)
	}
	notes := slices.Clone(p.Unserved)
	if p.objects() == 0 {
		notes = nil // the link has them
	}
	for _, one := range policy.Status.Errors {
		if !slices.Contains(transported, one) && !slices.Contains(p.Unserved, one) {
			notes = append(notes, one)
		}
	}
	return text.Bound(notes, most)
}

func (p *Policy) exists(c *chain) {
	switch policy := p.Selection.Value.Policy; {
	case p.Selection.Unread != "":
		c.unknown(LinkExists, "BindingPolicy "+p.Name+" is unknown: "+p.Selection.Unread)
	case policy == nil:
		c.broken(LinkExists, "there is no BindingPolicy "+p.Name, "kubectl get bindingpolicies")
	case policy.DeletionTimestamp != nil:
		p.isDeleted(c, policy)
	default:
		c.good(LinkExists, "it exists")
	}
}

// isDeleted says what a policy that is being deleted waits for.
func (p *Policy) isDeleted(c *chain, policy *controlv1alpha1.BindingPolicy) {
	what := "BindingPolicy " + p.Name + " is being deleted: "
	var names, errs []string
	for _, b := range p.Selection.Value.Bindings.Value {
		names, errs = append(names, b.Name), append(errs, b.Status.Errors...)
		if held := heldBack(b); held != nil {
			c.broken(LinkFree, what+held.Message+", and leaves no cluster", release(b, held.Message, p.Holds.Value)...)
			return
		}
	}
	get := "kubectl get bindings.control.kubestellar.io " + strings.Join(names, " ")
	synced := meta.FindStatusCondition(policy.Status.Conditions, controlv1alpha1.BindingPolicyConditionSynced)
	switch {
	case len(errs) > 0:
		c.broken(LinkExists, what+text.Join(errs, "; ", maxNames), get+" -o yaml")
	case synced == nil || synced.Reason != controlv1alpha1.ReasonDeleting:
		c.waiting(LinkExists, what+"the binding-controller has not observed that yet", checkBinding)
	default:
		c.waiting(LinkExists, what+synced.Message,
			"If that takes long, see what is left, for example because of its finalizers. In a cluster that is named: kubectl get appliedmanifestworks -o yaml   # status.appliedResources",
			get+" -o yaml")
	}
}

// heldBack returns the condition Held of a Binding that is being deleted, if what is held keeps it;
// nil if nothing does.
func heldBack(b *controlv1alpha1.Binding) *metav1.Condition {
	held := meta.FindStatusCondition(b.Status.Conditions, controlv1alpha1.BindingConditionHeld)
	delivered := meta.FindStatusCondition(b.Status.Conditions, controlv1alpha1.BindingConditionDelivered)
	if b.DeletionTimestamp == nil || held == nil || delivered == nil || held.Status != metav1.ConditionTrue || !strings.Contains(delivered.Message, held.Message) {
		return nil
	}
	return held
}

func (p *Policy) isValid(c *chain) {
	if _, invalid := match.Compile(&p.Selection.Value.Policy.Spec); len(invalid) > 0 {
		c.broken(LinkValid, text.Join(invalid, "; ", maxNames), "kubectl edit bindingpolicy "+p.Name)
		return
	}
	c.good(LinkValid, "its spec is valid")
}

func (p *Policy) isSynced(c *chain) {
	if l := syncedLink(p.Selection.Value.Policy, p.Now); l.State != foresight.Good {
		c.end(l)
		return
	}
	c.good(LinkSynced, "its Bindings list what it selects")
}

// listsObjects judges whether its Bindings list all objects that it selects. It adds a link only if
// they do not.
func (p *Policy) listsObjects(c *chain) {
	switch unlisted := p.Unlisted; {
	case len(unlisted.Value) > 0: // also if there may be more, which cannot be read
		names := make([]string, len(unlisted.Value))
		for i, ref := range unlisted.Value {
			names[i] = ref.String()
		}
		c.waiting(LinkListed, fmt.Sprintf("BindingPolicy %s selects %s, and no Binding of it lists %s yet: %s",
			p.Name, text.Count(len(names), "object"), text.Plural(len(names), "it", "them"), text.List(names, maxNames)), checkBinding)
	case unlisted.Unread != "":
		c.unknown(LinkListed, "whether its Bindings list all that it selects is unknown: "+unlisted.Unread)
	}
}

func (p *Policy) hasObjects(c *chain) {
	bindings := p.Selection.Value.Bindings
	if bindings.Unread != "" {
		c.unknown(LinkObjects, "what it selects is unknown: "+bindings.Unread)
		return
	}
	n := p.objects()
	if n == 0 {
		what := "it selects no objects: nothing in the WDS matches spec.downsync"
		if len(p.Unserved) > 0 {
			what += ". " + text.Join(p.Unserved, "; ", maxNames)
		}
		c.broken(LinkObjects, what, "To see what an object lacks: kubectl starling explain policy/"+p.Name+" --object KIND/NAME")
		return
	}
	c.good(LinkObjects, "%s in %s", text.Count(n, "object"), namesOf(bindings.Value))
}

// objects returns how many objects its Bindings list.
func (p *Policy) objects() int {
	n := 0
	for _, b := range p.Selection.Value.Bindings.Value {
		n += binding.CountObjects(&b.Spec)
	}
	return n
}

// reach returns the clusters of the policy, or the one that was asked for.
func (p *Policy) reach(c *chain) []string {
	clusters := p.Destinations()
	if len(clusters) == 0 {
		what, fix := p.noClusters(p.Selection.Value.Policy)
		c.broken(LinkClusters, what, fix...)
		return nil
	}
	c.good(LinkClusters, "%s", listClusters(clusters))
	if p.Cluster != "" {
		return []string{p.Cluster}
	}
	return clusters
}

// Destinations returns the clusters that its Bindings list, and those that it selects while they do
// not list them yet. Sorted.
func (p *Policy) Destinations() []string { return p.destinations([]*carrier{p.carrier()}) }

// carrier returns the policy as one that selects each object that its Bindings list.
func (p *Policy) carrier() *carrier {
	r := &carrier{name: p.Name, policy: p.Selection.Value.Policy, selects: true, bindings: p.Selection.Value.Bindings, listing: p.Selection.Value.Bindings.Value}
	if r.policy != nil {
		r.compiled, r.invalid = match.Compile(&r.policy.Spec)
	}
	return r
}

// listsClusters judges whether its Bindings list all clusters that it selects.
func (p *Policy) listsClusters(c *chain) {
	listed := listedClusters([]*carrier{p.carrier()})
	more := slices.DeleteFunc(p.Destinations(), func(cluster string) bool { return slices.Contains(listed, cluster) })
	if len(more) > 0 {
		c.waiting(LinkCluster, fmt.Sprintf("BindingPolicy %s selects %s, and its Binding does not list %s yet", p.Name, listClusters(more), text.Plural(len(more), "it", "them")), checkBinding)
		return
	}
	c.good(LinkCluster, "its Bindings list all clusters that it selects")
}

// toCluster judges what the policy delivers to one cluster.
func (p *Policy) toCluster(cluster string, bindings []*controlv1alpha1.Binding) []foresight.Link {
	known := p.Clusters.Value[cluster]
	if slices.ContainsFunc(bindings, func(b *controlv1alpha1.Binding) bool { return listsCluster(b, cluster) }) || known == nil || !known.Delivers() {
		return p.inMailbox(cluster, bindings)
	}
	o := &Object{Fleet: p.Fleet}
	way := &passage{Object: o, cluster: cluster, known: known, carriers: []*carrier{p.carrier()}}
	c := &chain{}
	c.then(way.notListed)
	return c.links
}

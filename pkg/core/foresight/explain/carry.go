package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/binding"
	"github.com/starlinghq/starling/pkg/core/foresight"
	"github.com/starlinghq/starling/pkg/core/inventory"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/text"
)

// silence is how long a controller may take to see a change.
const silence = 30 * time.Second

const (
	checkBinding   = "Check that the binding-controller of this WDS is running and ready: its log says what it waits for."
	checkTransport = "Check that the transport-controller of this WDS is running and ready: its log says what it waits for."
)

// carry judges the policies up to their Bindings, and returns those whose Bindings list the object.
// If none does, the links of the one that comes farthest are the answer; otherwise behind has the
// first link that is not good of each of the others, and why those that list it may change.
func (o *Object) carry(c *chain, carriers []*carrier) (reached []*carrier, behind []foresight.Link) {
	var farthest *chain
	for _, r := range carriers {
		if !r.selects && len(r.listing) == 0 {
			continue
		}
		own := &chain{}
		own.then(o.isSynced(r), o.isListed(r))
		if !own.ended {
			reached = append(reached, r)
			for _, l := range own.links {
				c.add(l)
			}
			if l := o.notFollowed(r); l != nil {
				behind = append(behind, *l)
			}
			continue
		}
		behind = append(behind, own.links[len(own.links)-1])
		if farthest == nil || len(own.links) > len(farthest.links) {
			farthest = own
		}
	}
	if len(reached) == 0 && farthest != nil {
		behind = nil
		for _, l := range farthest.links {
			c.add(l)
		}
		c.ended = true
	}
	return reached, behind
}

// isSynced judges whether the Bindings of a policy follow it.
func (o *Object) isSynced(r *carrier) func(*chain) {
	return func(c *chain) {
		if r.policy == nil {
			return
		}
		l := syncedLink(r.policy, o.Now)
		// What is listed already stays while the Bindings do not follow the policy.
		if l.State != foresight.Good && r.selects && len(r.listing) > 0 && r.policy.DeletionTimestamp == nil {
			c.good(LinkSynced, "%s. What is listed stays", l.Text)
			return
		}
		if l.State != foresight.Good {
			c.end(l)
			return
		}
		c.add(l)
	}
}

// notFollowed returns why the Bindings of a policy that list the object may change: they do not
// follow the policy yet. It is nil if they do, and if the removal block keeps them as they are.
func (o *Object) notFollowed(r *carrier) *foresight.Link {
	if r.policy == nil {
		return nil
	}
	l := syncedLink(r.policy, o.Now)
	blocked := l.State == foresight.Broken && meta.IsStatusConditionTrue(r.policy.Status.Conditions, controlv1alpha1.BindingPolicyConditionRemovalBlocked)
	if l.State == foresight.Good || blocked {
		return nil
	}
	return &l
}

// syncedLink returns whether the Bindings of a policy list what the policy selects.
func syncedLink(p *controlv1alpha1.BindingPolicy, now time.Time) foresight.Link {
	who := "BindingPolicy " + p.Name
	l := foresight.Link{Name: LinkSynced, State: foresight.Broken}
	synced := meta.FindStatusCondition(p.Status.Conditions, controlv1alpha1.BindingPolicyConditionSynced)
	blocked := meta.FindStatusCondition(p.Status.Conditions, controlv1alpha1.BindingPolicyConditionRemovalBlocked)
	switch {
	case synced == nil || p.Status.ObservedGeneration < p.Generation:
		l.State, l.Text, l.Fix = foresight.Waiting, "the binding-controller has not observed the last edit of "+who+" yet", []string{checkBinding}
		if synced == nil && now.Sub(p.CreationTimestamp.Time) > silence {
			l.State, l.Text = foresight.Broken, "the binding-controller has not observed "+who
		}
	case synced.Status == metav1.ConditionTrue:
		l.State, l.Text = foresight.Good, who+" is synced"
		if synced.Message != "" {
			l.Text += ": " + synced.Message // such as kinds that cannot be read
		}
	case blocked != nil && blocked.Status == metav1.ConditionTrue:
		l.Text, l.Fix = who+": "+blocked.Message, []string{binding.AllowCommand(blocked.Message)}
	default:
		l.Text, l.Fix = who+": "+synced.Message, fixSynced(p, synced.Reason)
		if synced.Status == metav1.ConditionUnknown || synced.Reason == controlv1alpha1.ReasonHandOver || synced.Reason == controlv1alpha1.ReasonDeleting {
			l.State = foresight.Waiting
		}
	}
	return l
}

func fixSynced(p *controlv1alpha1.BindingPolicy, reason string) []string {
	switch reason {
	case controlv1alpha1.ReasonInvalidSpec:
		return []string{"kubectl edit bindingpolicy " + p.Name}
	case controlv1alpha1.ReasonNameTaken:
		return []string{
			"Re-create BindingPolicy " + p.Name + " under another name.",
			"kubectl get bindings.control.kubestellar.io " + p.Name + " -o yaml   # see its owner. To delete it takes what it lists off all clusters",
		}
	case controlv1alpha1.ReasonNotObserved, controlv1alpha1.ReasonFailed:
		return []string{checkBinding}
	case controlv1alpha1.ReasonDeleting:
		return []string{"kubectl starling explain policy/" + p.Name}
	}
	return nil
}

// isListed judges whether a Binding of a policy lists the object.
func (o *Object) isListed(r *carrier) func(*chain) {
	return func(c *chain) {
		switch {
		case r.bindings.Unread != "":
			c.unknown(LinkListed, fmt.Sprintf("whether a Binding of %s lists it is unknown: %s", r, r.bindings.Unread))
		case r.pkg != "":
			c.good(LinkListed, "Binding %s delivers the package", r.name)
		case len(r.listing) > 0:
			n := 0
			for _, b := range r.listing {
				n += len(b.Spec.Destinations)
			}
			c.good(LinkListed, "%s %s it, for %s", namesOf(r.listing), text.Plural(len(r.listing), "lists", "list"), text.Count(n, "cluster"))
		default:
			what := fmt.Sprintf("no Binding of %s lists it yet", r)
			if o.Live.Value != nil && o.Now.Sub(o.Live.Value.GetCreationTimestamp().Time) > silence {
				what = fmt.Sprintf("%s selects it, and no Binding of it lists it", r)
			}
			c.waiting(LinkListed, what, checkBinding)
		}
	}
}

// reach returns the clusters to which the object is to go, or the one that was asked for.
func (o *Object) reach(c *chain, carriers []*carrier) []string {
	if o.Cluster != "" {
		return []string{o.Cluster}
	}
	clusters := o.destinations(carriers)
	if len(clusters) > 0 {
		return clusters
	}
	var texts, fix []string
	for _, r := range carriers {
		if r.policy == nil {
			texts = append(texts, r.String()+" lists no cluster")
			continue
		}
		what, do := o.noClusters(r.policy)
		texts, fix = append(texts, what), append(fix, do...)
	}
	c.broken(LinkClusters, text.Join(texts, "; ", maxNames), fix...)
	return nil
}

// noClusters says why a policy has no cluster.
func (f *Fleet) noClusters(p *controlv1alpha1.BindingPolicy) (what string, fix []string) {
	what = "BindingPolicy " + p.Name + " selects no cluster"
	if ready := meta.FindStatusCondition(p.Status.Conditions, controlv1alpha1.BindingPolicyConditionReady); ready != nil &&
		ready.Reason == controlv1alpha1.ReasonNoDestinations {
		what = "BindingPolicy " + p.Name + ": " + ready.Message
	}
	if pending, drained := f.leftOut(p); len(pending)+len(drained) > 0 {
		if len(pending) > 0 {
			fix = append(fix, "kubectl starling cluster accept "+strings.Join(pending, " "))
		}
		if len(drained) > 0 {
			fix = append(fix, "kubectl starling cluster undrain "+strings.Join(drained, " "))
		}
		return what, fix
	}
	return what, []string{"kubectl edit bindingpolicy " + p.Name, "kubectl starling clusters"}
}

// destinations returns the clusters that Bindings list, and those that policies select while their
// Bindings do not list them yet. Sorted.
func (f *Fleet) destinations(carriers []*carrier) []string {
	clusters := listedClusters(carriers)
	for _, r := range carriers {
		if r.selects && r.compiled != nil && r.policy.DeletionTimestamp == nil {
			clusters = append(clusters, f.selectedClusters(r)...)
		}
	}
	slices.Sort(clusters)
	return slices.Compact(clusters)
}

// selectedClusters returns the clusters that a policy selects, of those that are known.
func (f *Fleet) selectedClusters(r *carrier) []string {
	if selected, known := f.selected[r.policy]; known {
		return selected
	}
	var selected []string
	for name, cluster := range f.Clusters.Value {
		if cluster.Delivers() && r.compiled.MatchesCluster(cluster.Labels) {
			selected = append(selected, name)
		}
	}
	if f.selected != nil {
		f.selected[r.policy] = selected
	}
	return selected
}

// listedClusters returns the clusters that Bindings list, sorted.
func listedClusters(carriers []*carrier) []string {
	var clusters []string
	for _, b := range allListing(carriers) {
		for i := range b.Spec.Destinations {
			clusters = append(clusters, b.Spec.Destinations[i].ClusterID)
		}
	}
	slices.Sort(clusters)
	return slices.Compact(clusters)
}

// leftOut returns the clusters that match a policy and are no destinations: those that their ITSes
// do not accept, and those that are drained. Sorted.
func (f *Fleet) leftOut(p *controlv1alpha1.BindingPolicy) (pending, drained []string) {
	compiled, invalid := match.Compile(&p.Spec)
	if len(invalid) > 0 {
		return nil, nil
	}
	for name, cluster := range f.Clusters.Value {
		switch {
		case cluster.Leaving || !compiled.MatchesCluster(cluster.Labels):
		case !cluster.Accepted:
			pending = append(pending, name)
		case inventory.Drained(cluster.Labels):
			drained = append(drained, name)
		}
	}
	slices.Sort(pending)
	slices.Sort(drained)
	return pending, drained
}

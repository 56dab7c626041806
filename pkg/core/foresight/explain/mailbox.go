package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/foresight"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// passage is the way of an object into one cluster.
type passage struct {
	*Object

	cluster string
	known   *foresight.Cluster // nil if it does not exist, or is not known
	box     *Mailbox
	// carriers are those whose Bindings list the object; binding is the one that lists the cluster,
	// too, and delivers the object.
	carriers []*carrier
	binding  *controlv1alpha1.Binding
	// work and item are where the mailbox has the object, nil if it does not.
	work *plan.Work
	item *plan.Item
	// rendered is the object as the cluster is to receive it; renderError says why it is not known,
	// and renderUnread what could not be read for it.
	rendered     *transform.Object
	renderError  *foresight.Link
	renderUnread string
}

// toCluster judges the way of the object into a cluster and back.
func (o *Object) toCluster(cluster string, carriers []*carrier) []foresight.Link {
	p := &passage{Object: o, cluster: cluster, carriers: carriers, known: o.Clusters.Value[cluster], box: o.Mailboxes[cluster]}
	if p.box == nil {
		p.box = &Mailbox{}
	}
	c := &chain{}
	c.then(p.isDestination)
	if c.ended {
		return c.links
	}
	if o.NoITS != "" {
		c.then(p.render, p.isRendered, p.byStatus)
		return c.links
	}
	c.then(p.find, p.render, p.isFree, p.isRendered, p.isDelivered, p.isAlive, p.isApplied, p.isReported, p.isHealthy, p.isReturned)
	return c.links
}

// isDestination judges whether a Binding lists the cluster.
func (p *passage) isDestination(c *chain) {
	c.then(p.mayReceive(p.cluster))
	if c.ended {
		return
	}
	for _, b := range allListing(p.carriers) {
		if listsCluster(b, p.cluster) && (p.binding == nil || p.delivers(b)) {
			p.binding = b
		}
	}
	if l := p.leaving(); l != nil {
		c.end(*l)
		return
	}
	if p.binding != nil {
		c.good(LinkCluster, "Binding %s lists cluster %s", p.binding.Name, p.cluster)
		return
	}
	p.notListed(c)
}

// leaving returns why Bindings list the cluster though no policy selects it any more, nil if they
// rightly do or do not.
func (p *passage) leaving() *foresight.Link {
	if p.known == nil {
		return nil
	}
	var l *foresight.Link
	for _, r := range p.carriers {
		if !slices.ContainsFunc(r.listing, func(b *controlv1alpha1.Binding) bool { return listsCluster(b, p.cluster) }) {
			continue
		}
		if !r.selects || r.compiled == nil || r.compiled.MatchesCluster(p.known.Labels) {
			return nil
		}
		if synced := syncedLink(r.policy, p.Now); synced.State != foresight.Good {
			synced.Name, l = LinkCluster, &synced
			continue
		}
		l = &foresight.Link{
			Name: LinkCluster, State: foresight.Waiting, Fix: []string{checkBinding},
			Text: fmt.Sprintf("%s does not select cluster %s any more, and its Binding lists it still", r, p.cluster),
		}
	}
	return l
}

// mayReceive judges whether anything is delivered to a cluster. It adds a link only if nothing is.
func (f *Fleet) mayReceive(cluster string) func(*chain) {
	return func(c *chain) {
		known := f.Clusters.Value[cluster]
		switch {
		case known != nil && !known.Delivers():
			c.end(known.Judge(f.Now)[0])
		case known == nil && f.NoITS == "" && f.Clusters.Unread == "":
			c.broken(foresight.LinkAccepted, "no ITS that is read has a cluster "+cluster, "kubectl starling clusters")
		}
	}
}

func listsCluster(b *controlv1alpha1.Binding, cluster string) bool {
	for i := range b.Spec.Destinations {
		if b.Spec.Destinations[i].ClusterID == cluster {
			return true
		}
	}
	return false
}

// delivers reports whether a work of the Binding has the object, and no claim to it.
func (p *passage) delivers(b *controlv1alpha1.Binding) bool {
	work, item := p.box.workWith(b, p.Ref)
	return work != nil && !item.Observe
}

// place is where a mailbox has an object.
type place struct {
	work *plan.Work
	item *plan.Item
}

// of returns where the mailbox has an object.
func (m *Mailbox) of(ref objref.Ref) []place { return m.all()[ref] }

// all returns where the mailbox has each object.
func (m *Mailbox) all() map[objref.Ref][]place {
	if m.places == nil {
		m.places = map[objref.Ref][]place{}
		for work, item := range plan.Items(m.Works.Value) {
			m.places[item.Ref] = append(m.places[item.Ref], place{work, item})
		}
	}
	return m.places
}

// has reports whether a work of one of these Bindings has an object: it is in one of the places.
func has(places []place, bindings []*controlv1alpha1.Binding) bool {
	return slices.ContainsFunc(places, func(in place) bool {
		return owns(bindings, in.work) && (!in.item.Observe || in.item.Withdrawn)
	})
}

// Work returns the name of the work of a Binding that has the object, "" if none has.
func (m *Mailbox) Work(b *controlv1alpha1.Binding, ref objref.Ref) string {
	if work, item := m.workWith(b, ref); work != nil && !work.Deleting && !item.Withdrawn {
		return work.Name
	}
	return ""
}

// workWith returns where works of a Binding have an object: not one that is withdrawn if there is
// another.
func (m *Mailbox) workWith(b *controlv1alpha1.Binding, ref objref.Ref) (found *plan.Work, at *plan.Item) {
	for _, in := range m.of(ref) {
		if in.work.BindingUID == b.UID && (found == nil || at.Withdrawn || found.Deleting) {
			found, at = in.work, in.item
		}
	}
	return found, at
}

// notListed says why no Binding lists the cluster.
func (p *passage) notListed(c *chain) {
	if p.known == nil {
		c.broken(LinkCluster, fmt.Sprintf("%s %s cluster %s. Which clusters the policy selects is unknown: %s",
			namesOf(allListing(p.carriers)), text.Plural(len(allListing(p.carriers)), "does not list", "do not list"), p.cluster, p.unreadClusters()))
		return
	}
	var texts, fix []string
	for _, r := range p.carriers {
		if r.policy == nil || r.compiled == nil {
			texts = append(texts, r.String()+" does not list cluster "+p.cluster)
			continue
		}
		selects, what, change := r.compiled.ExplainCluster(p.known.Labels)
		if selects {
			l := syncedLink(r.policy, p.Now)
			if l.State == foresight.Good {
				l = foresight.Link{State: foresight.Waiting, Text: fmt.Sprintf("%s selects cluster %s, and its Binding does not list it yet", r, p.cluster), Fix: []string{checkBinding}}
			}
			l.Name = LinkCluster
			c.end(l)
			return
		}
		texts = append(texts, fmt.Sprintf("%s does not select cluster %s: %s", r, p.cluster, what))
		if len(change) > 0 && len(fix) == 0 {
			flag := " --label cluster/" + p.cluster + "="
			labels := "kubectl starling plan" + flag + strings.Join(change, flag)
			fix = relabel(fmt.Sprintf("kubectl --context %s label managedcluster %s %s", p.known.ITS, p.cluster, strings.Join(change, " ")), labels, p.known.Labels, change)
		}
	}
	c.broken(LinkCluster, text.Join(texts, "; ", maxNames), fix...)
}

func (p *passage) unreadClusters() string {
	if p.NoITS != "" {
		return p.NoITS
	}
	return p.Clusters.Unread
}

// UnreadMailboxes says which mailboxes could not be read, "" if all could: of what leaves clusters,
// nothing is known there. Without an ITS, NoITS says so.
func (f *Fleet) UnreadMailboxes() string {
	if f.Clusters.Unread != "" {
		return f.Clusters.Unread
	}
	for _, cluster := range slices.Sorted(maps.Keys(f.Mailboxes)) {
		if unread := f.Mailboxes[cluster].Works.Unread; unread != "" {
			return unread
		}
	}
	return ""
}

// Leaving returns the clusters which the object is leaving, sorted: a mailbox still has it, and no
// Binding lists it for that cluster.
func (o *Object) Leaving() []string {
	bindings := slices.Clone(o.Loose)
	for i := range o.Policies.Value {
		bindings = append(bindings, o.Policies.Value[i].Bindings.Value...)
	}
	listed := listing(bindings, o.Ref)
	var clusters []string
	for cluster, box := range o.Mailboxes {
		stays := slices.ContainsFunc(listed, func(b *controlv1alpha1.Binding) bool { return listsCluster(b, cluster) })
		if (o.Cluster == "" || cluster == o.Cluster) && !stays && has(box.of(o.Ref), bindings) {
			clusters = append(clusters, cluster)
		}
	}
	slices.Sort(clusters)
	return clusters
}

// find finds the object in the mailbox.
func (p *passage) find(*chain) {
	p.work, p.item = p.box.workWith(p.binding, p.Ref)
}

// current reports whether the transport-controller has observed the Binding as it is.
func (p *passage) current() bool { return p.binding.Status.ObservedGeneration == p.binding.Generation }

// said returns what the status of the Binding says about the object in this cluster, or in all of
// them, "" if nothing.
func (p *passage) said(everywhere bool) string {
	about := p.Ref.String() + ": "
	if !everywhere {
		about = p.cluster + ": " + about
	}
	for _, list := range [][]string{p.binding.Status.Errors, p.binding.Status.Problems} {
		for _, one := range list {
			if what, ok := strings.CutPrefix(one, about); ok {
				return what
			}
		}
	}
	return ""
}

// isListedBefore reports whether the Binding lists another version of the object than the WDS has
// now. That may also be because its status was returned.
func (p *passage) isListedBefore() bool {
	if p.Live.Value == nil {
		return false
	}
	for entry := range match.Entries(&p.binding.Spec) {
		if entry.Ref == p.Ref {
			return entry.ResourceVersion != p.Live.Value.GetResourceVersion()
		}
	}
	return false
}

// byStatus judges what the status of the Binding says, where no mailbox can be read.
func (p *passage) byStatus(c *chain) {
	status := &p.binding.Status
	switch {
	case !p.current():
		c.waiting(LinkDelivered, "the transport-controller has not observed Binding "+p.binding.Name+" yet", checkTransport)
		return
	case p.said(false) != "":
		c.broken(LinkApplied, p.cluster+" reports: "+p.said(false))
		return
	case p.said(true) != "":
		c.broken(LinkDelivered, p.said(true))
		return
	case p.isListedBefore():
		c.unknown(LinkDelivered, "whether the current content of "+p.Ref.String()+" is in cluster "+p.cluster+" is unknown: "+p.NoITS)
		return
	}
	worst := map[string]string{
		controlv1alpha1.BindingConditionDelivered: LinkDelivered, controlv1alpha1.BindingConditionApplied: LinkApplied,
		controlv1alpha1.BindingConditionHealthy: LinkHealthy,
	}
	well := 0
	for i := range status.Conditions {
		condition := &status.Conditions[i]
		if link, judged := worst[condition.Type]; judged && condition.Status == metav1.ConditionTrue {
			well++
			c.good(link, "of all objects and clusters of Binding %s", p.binding.Name)
		}
	}
	if well == len(worst) {
		return
	}
	c.unknown(LinkDelivered, "how far the object is in cluster "+p.cluster+" is unknown: "+p.NoITS)
}

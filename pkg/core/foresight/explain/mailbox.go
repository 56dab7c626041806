package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/foresight"
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
	if p.binding != nil {
		c.good(LinkCluster, "Binding %s lists cluster %s", p.binding.Name, p.cluster)
		return
	}
	p.notListed(c)
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
	work, item := workWith(p.box.Works.Value, b, p.Ref)
	return work != nil && !item.Observe
}

// workWith returns where works of a Binding have an object: not one that is withdrawn if there is
// another.
func workWith(works []*plan.Work, b *controlv1alpha1.Binding, ref objref.Ref) (found *plan.Work, at *plan.Item) {
	for work, item := range plan.Items(works) {
		if work.BindingUID != b.UID || item.Ref != ref {
			continue
		}
		if found == nil || at.Withdrawn || found.Deleting {
			found, at = work, item
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
			fix = []string{fmt.Sprintf("kubectl --context %s label managedcluster %s %s --overwrite", p.known.ITS, p.cluster, strings.Join(change, " "))}
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

// find finds the object in the mailbox.
func (p *passage) find(*chain) {
	p.work, p.item = workWith(p.box.Works.Value, p.binding, p.Ref)
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

// isFree judges whether the object is held, or delivered by another owner.
func (p *passage) isFree(c *chain) {
	if by, fix := p.heldBy(); by != "" {
		if p.isCurrentContent() {
			c.good(LinkFree, "it is held by %s, with its current content", by)
		} else {
			what := "the cluster keeps the content that it has"
			if p.item == nil {
				what = "it is not delivered"
			}
			c.broken(LinkFree, fmt.Sprintf("%s is held by %s: %s", p.Ref, by, what), fix...)
		}
		return
	}
	if p.item != nil && p.item.Observe && !p.item.Withdrawn {
		what := p.said(false)
		if what == "" {
			what = p.owner() + " delivers this object, with different content; this Binding does not deliver it"
		}
		c.broken(LinkFree, what, "Make the contents equal, or remove the object from one of the two.")
		return
	}
	c.good(LinkFree, "nothing holds it, and no other owner delivers it")
}

// heldBy names what holds the object in the mailbox, and what releases it.
func (p *passage) heldBy() (by string, fix []string) {
	const user, transactions = controlv1alpha1.AnnotationHold, annotationHeldObjects
	if value, ok := p.binding.Annotations[user]; ok {
		hold, err := plan.ParseHold(value)
		switch {
		case err != nil:
			return "annotation " + user + " of Binding " + p.binding.Name + ", which is invalid and so holds everything",
				[]string{"kubectl edit bindings.control.kubestellar.io " + p.binding.Name}
		case hold.Holds(p.Ref):
			fix = []string{"kubectl annotate bindings.control.kubestellar.io " + p.binding.Name + " " + user + "-"}
			if kept := hold.Without(p.Ref); kept != "" {
				fix = []string{fmt.Sprintf("kubectl annotate bindings.control.kubestellar.io %s '%s=%s' --overwrite", p.binding.Name, user, kept)}
			}
			return "annotation " + user + " of Binding " + p.binding.Name, fix
		}
	}
	value, ok := p.binding.Annotations[transactions]
	if !ok {
		return "", nil
	}
	holds, err := plan.ParseHolds(value)
	if err != nil {
		return "annotation " + transactions + " of Binding " + p.binding.Name + ", which is invalid and so holds everything", []string{checkBinding}
	}
	if !holds.At(p.cluster).Holds(p.Ref) {
		return "", nil
	}
	for _, one := range holds.List() {
		if refs, err := one.Refs(); err == nil && slices.Contains(refs, p.Ref) {
			return "transaction " + one.Transaction, []string{"kubectl starling tx explain " + one.Transaction}
		}
	}
	return "annotation " + transactions, nil
}

// owner names the owner that delivers the object to the mailbox.
func (p *passage) owner() string {
	for work, item := range plan.Items(p.box.Works.Value) {
		if item.Ref != p.Ref || item.Observe || work.Deleting || work.BindingUID == p.binding.UID {
			continue
		}
		owner := plan.OwnerOf(work, item)
		return owner.Text()
	}
	return "another owner"
}

// isCurrentContent reports whether the mailbox has the object as it is rendered. Objects in another
// version of the API are not compared.
func (p *passage) isCurrentContent() bool {
	return p.item != nil && p.rendered != nil && !p.item.Observe && !p.item.Withdrawn && p.sameContent()
}

func (p *passage) sameContent() bool {
	return p.item.Version != p.rendered.Kind.Version || p.item.Content() == p.rendered.Content()
}

// isDelivered judges whether the mailbox has the current content.
func (p *passage) isDelivered(c *chain) {
	switch {
	case p.box.Works.Unread != "":
		c.unknown(LinkDelivered, "what is in the mailbox of cluster "+p.cluster+" is unknown: "+p.box.Works.Unread)
		return
	case p.item == nil || p.item.Withdrawn || p.work.Deleting:
		p.notDelivered(c)
		return
	case p.work.Restored != "":
		c.waiting(LinkDelivered, "ManifestWork "+p.work.Name+" came with a backup, and the cluster does nothing with it. The transport-controller delivers it with another one", checkTransport)
		return
	case p.rendered != nil && !p.sameContent():
		p.outdated(c)
		return
	}
	c.good(LinkDelivered, "in ManifestWork %s of namespace %s", p.work.Name, p.cluster)
}

// notDelivered says why no work has the object.
func (p *passage) notDelivered(c *chain) {
	what := p.Ref.String() + " is not in the mailbox of cluster " + p.cluster
	switch {
	case !p.current():
		c.waiting(LinkDelivered, "the transport-controller has not observed Binding "+p.binding.Name+" yet", checkTransport)
		return
	case p.said(false) != "":
		c.broken(LinkDelivered, what+": "+p.said(false))
		return
	}
	for _, need := range plan.Prerequisites(p.Ref) {
		work, item := workWith(p.box.Works.Value, p.binding, need)
		switch {
		case item == nil || work.Deleting:
		case item.State == plan.Failed:
			c.broken(LinkDelivered, fmt.Sprintf("%s: it waits for %s, which cluster %s could not apply: %s", what, need, p.cluster, item.Refusal()), hint(item, p.cluster)...)
			return
		case item.State == plan.Pending:
			if links := p.aliveLinks(); foresight.First(links) != nil {
				break
			}
			c.waiting(LinkDelivered, fmt.Sprintf("%s: it waits until %s is applied there", what, need))
			return
		}
	}
	// If the cluster is silent, an earlier step waits for it.
	if first := foresight.First(p.aliveLinks()); first != nil && first.State == foresight.Broken && len(plan.Prerequisites(p.Ref)) > 0 {
		c.end(*first)
		return
	}
	for _, one := range p.binding.Status.Errors {
		if said, ok := strings.CutPrefix(one, p.cluster+": "); ok && strings.Contains(said, "work ") {
			c.broken(LinkDelivered, what+": "+said)
			return
		}
	}
	c.waiting(LinkDelivered, what+" yet", checkTransport)
}

// outdated says why a work has another content.
func (p *passage) outdated(c *chain) {
	what := fmt.Sprintf("ManifestWork %s has another content of %s than the WDS has now", p.work.Name, p.Ref)
	if said := p.said(false); said != "" && p.item.State != plan.Failed {
		c.broken(LinkDelivered, what+": "+said)
		return
	}
	c.waiting(LinkDelivered, what, checkTransport)
}

func (p *passage) aliveLinks() []foresight.Link {
	if p.known == nil {
		return nil
	}
	links := p.known.Judge(p.Now)
	alive := links[:0:0]
	for _, l := range links {
		if l.Name != foresight.LinkAddOn {
			alive = append(alive, l)
		}
	}
	return alive
}

// isAlive judges whether the cluster is there to apply anything.
func (p *passage) isAlive(c *chain) {
	for _, l := range p.aliveLinks() {
		switch {
		case l.State == foresight.Good, l.State == foresight.Unknown:
			c.add(l)
		default:
			if p.item.State == plan.Applied {
				l.Text += ". Before, it reported that the object is applied"
			}
			c.end(l)
			return
		}
	}
}

// age returns how long ago something was, by the clock of the cluster.
func (f *Fleet) age(since int64) string {
	return duration.HumanDuration(max(f.Now.Sub(time.Unix(since, 0)), 0))
}

// isApplied judges what the cluster reports of the work.
func (p *passage) isApplied(c *chain) {
	switch p.item.State {
	case plan.Pending:
		c.waiting(LinkApplied, fmt.Sprintf("cluster %s has not reported on the current content of ManifestWork %s yet", p.cluster, p.work.Name),
			fmt.Sprintf("kubectl --context %s get manifestwork %s --namespace %s -o yaml", p.its(), p.work.Name, p.cluster))
	case plan.Silent:
		c.unknown(LinkApplied, "cluster "+p.cluster+" never reports what it applies")
	case plan.Failed:
		what := fmt.Sprintf("cluster %s cannot apply %s: %s", p.cluster, p.Ref, p.item.Refusal())
		if p.item.Transient() && p.Now.Sub(time.Unix(p.item.Since, 0)) < silence {
			c.waiting(LinkApplied, what, hint(p.item, p.cluster)...)
			return
		}
		c.broken(LinkApplied, what, hint(p.item, p.cluster)...)
	case plan.Applied:
		how := ""
		if p.item.CreateOnly {
			how = ". It is not updated there, since it is only created"
		}
		c.good(LinkApplied, "applied since %s%s", p.age(p.item.Since), how)
	}
}

// its returns the context of the ITS of the cluster.
func (p *passage) its() string {
	if p.known == nil {
		return "ITS"
	}
	return p.known.ITS
}

package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/starlinghq/starling/pkg/core/foresight"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/status"
)

// isDelivered judges whether the mailbox has the current content.
func (p *passage) isDelivered(c *chain) {
	switch {
	case p.box.Works.Unread != "":
		c.unknown(LinkDelivered, "what is in the mailbox of cluster "+p.cluster+" is unknown: "+p.box.Works.Unread)
		return
	case p.awaited() != nil:
		p.isAwaited(c)
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

// awaited returns the item of the Binding that waits until the cluster has no former object of that
// name, nil if there is none.
func (p *passage) awaited() *plan.Item {
	places := p.box.of(p.Ref)
	i := slices.IndexFunc(places, func(in place) bool { return in.work.BindingUID == p.binding.UID && in.item.Awaited() })
	if i < 0 {
		return nil
	}
	return places[i].item
}

// isAwaited says who deletes the former object: the cluster for a work, or nobody but a user.
func (p *passage) isAwaited(c *chain) {
	there := "In cluster " + p.cluster + ": kubectl "
	object := " " + p.Ref.GroupResource().String() + " " + p.Ref.Name + namespaceFlag(p.awaited())
	what := p.Ref.String() + " was re-created in the WDS"
	see := "see what keeps it. " + there + "get" + object + " -o jsonpath='{.metadata.deletionTimestamp} {.metadata.finalizers}'"
	if p.awaited().KeepsFormer(p.box.Works.Value) {
		c.broken(LinkDelivered, what+", and cluster "+p.cluster+" has the former object of that name, which is in no ManifestWork any more. It is delivered when that is gone",
			"If it may go, with what it owns: "+there+"delete"+object, "If it is being deleted, "+see)
		return
	}
	c.waiting(LinkDelivered, what+". It is delivered when cluster "+p.cluster+" has deleted the former object of that name", "If that takes long, "+see)
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
		work, item := p.box.workWith(p.binding, need)
		switch {
		case item == nil || work.Deleting:
		case item.State == plan.Failed:
			c.broken(LinkDelivered, fmt.Sprintf("%s: it waits for %s, which cluster %s could not apply: %s", what, need, p.cluster, item.Refusal()), hint(item, p.cluster, changePackage(p.binding))...)
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
				p.isApplied(c)
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
			c.waiting(LinkApplied, what, hint(p.item, p.cluster, changePackage(p.binding))...)
			return
		}
		c.broken(LinkApplied, what, hint(p.item, p.cluster, changePackage(p.binding))...)
	case plan.Applied:
		if report := p.report(); report != nil && report.Gone && status.IsOf(report.Source.UID, p.item.Source) {
			c.waiting(LinkApplied, p.Ref.String()+" was deleted in cluster "+p.cluster+", whose agent creates it again within minutes, or with the next edit")
			return
		}
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

package explain

import (
	"fmt"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	"github.com/starlinghq/starling/pkg/core/foresight"
	"github.com/starlinghq/starling/pkg/core/plan"
)

// isFree judges whether the object is held, or delivered by another owner.
func (p *passage) isFree(c *chain) {
	if by, transaction, fix := p.heldBy(); by != "" {
		what := "the cluster keeps the content that it has"
		if p.item == nil {
			what = "it is not delivered"
		}
		what = fmt.Sprintf("%s is held by %s: %s", p.Ref, by, what)
		switch {
		case p.isCurrentContent():
			c.good(LinkFree, "it is held by %s, with its current content", by)
		case p.runs(transaction):
			c.waiting(LinkFree, what+" until the transaction, which is being carried out, has ended", fix...)
		case transaction != plan.Holder{} && p.Running.Unread != "":
			what += "; whether the transaction is being carried out is unknown: " + p.Running.Unread
			c.add(foresight.Link{Name: LinkFree, State: foresight.Unknown, Text: what, Fix: fix})
		default:
			c.broken(LinkFree, what, fix...)
		}
		return
	}
	if p.item != nil && p.item.Claim() {
		what := p.said(false)
		if what == "" {
			what = p.owner() + " delivers this object, with different content; this Binding does not deliver it"
		}
		c.broken(LinkFree, what, "Make the contents equal, or remove the object from one of the two.")
		return
	}
	if p.Holds.Unread != "" {
		c.add(foresight.Link{Name: LinkFree, State: foresight.Unknown, Text: "whether a transaction holds " + p.Ref.String() + " is unknown: " + p.Holds.Unread})
		return
	}
	c.good(LinkFree, "nothing holds it, and no other owner delivers it")
}

// heldBy names what holds the object in the mailbox, the Transaction if it is one, and what
// releases it.
func (p *passage) heldBy() (by string, transaction plan.Holder, fix []string) {
	const user = controlv1alpha1.AnnotationHold
	if value, ok := p.binding.Annotations[user]; ok {
		hold, err := plan.ParseHold(value)
		switch {
		case err != nil:
			return "annotation " + user + " of Binding " + p.binding.Name + ", which is invalid and so holds everything", plan.Holder{},
				[]string{"kubectl edit bindings.control.kubestellar.io " + p.binding.Name}
		case hold.Holds(p.Ref):
			fix = []string{"kubectl annotate bindings.control.kubestellar.io " + p.binding.Name + " " + user + "-"}
			if kept := hold.Without(p.Ref); kept != "" {
				fix = []string{fmt.Sprintf("kubectl annotate bindings.control.kubestellar.io %s '%s=%s' --overwrite", p.binding.Name, user, kept)}
			}
			return "annotation " + user + " of Binding " + p.binding.Name, plan.Holder{}, fix
		}
	}
	holds, err := foresight.HoldsOf(p.Holds.Value)
	switch by := holds.Holder(p.cluster, p.Ref); {
	case err != nil:
		return "annotation " + pkgv1.AnnotationHeldObjects + " of Binding " + pkgv1.HoldsBinding + ", which is invalid and so holds everything", plan.Holder{}, []string{checkBinding}
	case by != plan.Holder{}:
		return "transaction " + by.Transaction, by, []string{"kubectl starling tx explain " + by.Transaction}
	}
	return "", plan.Holder{}, nil
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

// isCurrentContent reports whether the mailbox has the object as it is rendered.
func (p *passage) isCurrentContent() bool {
	return p.item != nil && p.rendered != nil && !p.item.Observe && !p.item.Withdrawn && p.sameContent()
}

// sameContent reports whether the mailbox has the rendered content. Fields that the cluster leaves
// alone are no part of either.
func (p *passage) sameContent() bool {
	rendered, err := plan.Object{Object: *p.rendered, Known: true, Options: p.item.Options}.Ignoring()
	return err == nil && p.item.Content() == rendered.Content()
}

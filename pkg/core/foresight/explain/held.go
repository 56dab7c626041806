package explain

import (
	"fmt"
	"slices"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/plan"
)

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

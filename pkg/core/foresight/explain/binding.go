package explain

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/foresight"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/text"
)

// held judges the holds on Bindings, by their users and by Transactions: one that holds back a
// change is broken, unless it ends by itself.
func held(bindings []*controlv1alpha1.Binding, t *Transactions) func(*chain) {
	return func(c *chain) {
		for _, b := range bindings {
			is := meta.FindStatusCondition(b.Status.Conditions, controlv1alpha1.BindingConditionHeld)
			if is == nil || is.Status != metav1.ConditionTrue {
				continue
			}
			delivered := meta.FindStatusCondition(b.Status.Conditions, controlv1alpha1.BindingConditionDelivered)
			if delivered != nil && delivered.Reason == controlv1alpha1.ReasonHeld {
				what := fmt.Sprintf("Binding %s: %s: %s", b.Name, is.Message, delivered.Message)
				if t.pass(b, is.Message) {
					c.waiting(LinkFree, what, release(b, is.Message, t.Holds.Value)...)
				} else {
					c.broken(LinkFree, what, release(b, is.Message, t.Holds.Value)...)
				}
				return
			}
			c.good(LinkFree, "Binding %s: %s. They have their current content", b.Name, is.Message)
		}
	}
}

// runs reports whether a Transaction that holds something is being carried out.
func (t *Transactions) runs(h plan.Holder) bool {
	running := t.Running.Value
	return running != plan.Holder{} && h.Is(running.Transaction, running.UID)
}

// pass reports whether the holds on a Binding that the message of its condition Held names end by
// themselves, since they are those of the Transaction that is being carried out.
func (t *Transactions) pass(b *controlv1alpha1.Binding, message string) bool {
	if _, byUser := b.Annotations[controlv1alpha1.AnnotationHold]; byUser || t.Running.Value == (plan.Holder{}) {
		return false
	}
	held, err := foresight.HoldsOf(t.Holds.Value)
	return err == nil && !slices.ContainsFunc(held.List(), func(h plan.TransactionHold) bool {
		return !t.runs(h.Holder) && strings.Contains(message, plan.HeldFor(h.Transaction))
	})
}

// release returns what ends the holds on a Binding that the message of its condition Held names.
func release(b *controlv1alpha1.Binding, message string, holds *controlv1alpha1.Binding) []string {
	var fix []string
	if _, byUser := b.Annotations[controlv1alpha1.AnnotationHold]; byUser {
		fix = append(fix, "kubectl annotate bindings.control.kubestellar.io "+b.Name+" "+controlv1alpha1.AnnotationHold+"-")
	}
	held, _ := foresight.HoldsOf(holds) // the status of that Binding says what is wrong
	for _, one := range held.List() {
		if command := "kubectl starling tx explain " + one.Transaction; strings.Contains(message, plan.HeldFor(one.Transaction)) && !slices.Contains(fix, command) {
			fix = append(fix, command)
		}
	}
	return fix
}

// inMailbox judges how the content of Bindings does in one cluster.
func (f *Fleet) inMailbox(cluster string, bindings []*controlv1alpha1.Binding) []foresight.Link {
	c := &chain{}
	known := f.Clusters.Value[cluster]
	if f.NoITS != "" {
		c.then(byConditions(cluster, bindings, f.NoITS))
		return c.links
	}
	c.then(f.mayReceive(cluster))
	if c.ended {
		return c.links
	}
	box := f.Mailboxes[cluster]
	if box == nil {
		box = &Mailbox{}
	}
	c.then(f.delivered(cluster, box, bindings))
	if known != nil && !c.ended {
		for _, l := range known.Judge(f.Now) {
			if l.State == foresight.Good || l.State == foresight.Unknown || l.Name == foresight.LinkAddOn {
				c.add(l)
				continue
			}
			c.end(l)
		}
	}
	c.then(f.applied(cluster, box, bindings), healthyIn(cluster, bindings))
	return c.links
}

// byConditions says what the conditions of Bindings say of all clusters, and their errors of this
// one or of all.
func byConditions(cluster string, bindings []*controlv1alpha1.Binding, unread string) func(*chain) {
	return func(c *chain) {
		for _, b := range bindings {
			if b.Status.ObservedGeneration != b.Generation {
				c.waiting(LinkDelivered, "the transport-controller has not observed Binding "+b.Name+" yet", checkTransport)
				return
			}
			for _, kind := range []string{controlv1alpha1.BindingConditionDelivered, controlv1alpha1.BindingConditionApplied, controlv1alpha1.BindingConditionHealthy} {
				condition := meta.FindStatusCondition(b.Status.Conditions, kind)
				switch {
				case condition == nil:
				case condition.Status == metav1.ConditionTrue:
					c.good(kind, "Binding %s: %s", b.Name, condition.Message)
				case len(errorsFor(cluster, b)) > 0:
					const most = 3
					c.broken(kind, "Binding "+b.Name+": "+text.Join(errorsFor(cluster, b), "; ", most))
					return
				default:
					c.unknown(kind, fmt.Sprintf("Binding %s: %s. Of single clusters nothing is known: %s", b.Name, condition.Message, unread))
					return
				}
			}
		}
	}
}

// errorsFor returns the errors of a Binding without those about other clusters.
func errorsFor(cluster string, b *controlv1alpha1.Binding) []string {
	return slices.DeleteFunc(slices.Clone(b.Status.Errors), func(one string) bool {
		return slices.ContainsFunc(b.Spec.Destinations, func(d controlv1alpha1.Destination) bool {
			return d.ClusterID != cluster && strings.HasPrefix(one, d.ClusterID+": ")
		})
	})
}

// about returns what the status of Bindings says of a cluster.
func about(cluster string, bindings []*controlv1alpha1.Binding, list func(*controlv1alpha1.BindingStatus) []string) []string {
	var all []string
	for _, b := range bindings {
		for _, one := range list(&b.Status) {
			if what, ok := strings.CutPrefix(one, cluster+": "); ok {
				all = append(all, what)
			}
		}
	}
	return all
}

func (f *Fleet) delivered(cluster string, box *Mailbox, bindings []*controlv1alpha1.Binding) func(*chain) {
	return func(c *chain) {
		if box.Works.Unread != "" {
			c.unknown(LinkDelivered, "what is in the mailbox of cluster "+cluster+" is unknown: "+box.Works.Unread)
			return
		}
		for _, b := range bindings {
			if b.Status.ObservedGeneration != b.Generation {
				c.waiting(LinkDelivered, "the transport-controller has not observed Binding "+b.Name+" yet", checkTransport)
				return
			}
		}
		works, objects, refused := 0, 0, false
		for _, b := range bindings {
			for _, work := range box.Works.Value {
				if work.BindingUID != b.UID || work.Deleting {
					continue
				}
				works++
				for i := range work.Items {
					if item := &work.Items[i]; !item.Observe {
						objects++
						refused = refused || item.State == plan.Failed
					}
				}
			}
		}
		if errs := about(cluster, bindings, func(s *controlv1alpha1.BindingStatus) []string { return s.Errors }); len(errs) > 0 && !refused {
			const most = 3
			c.broken(LinkDelivered, text.Join(errs, "; ", most))
			return
		}
		for _, b := range bindings {
			if d := meta.FindStatusCondition(b.Status.Conditions, controlv1alpha1.BindingConditionDelivered); works == 0 && d != nil && d.Status != metav1.ConditionTrue {
				c.waiting(LinkDelivered, "nothing of Binding "+b.Name+" is in the mailbox of cluster "+cluster+" yet: "+d.Message, checkTransport)
				return
			}
		}
		c.good(LinkDelivered, "%s in %s", text.Count(objects, "object"), text.Count(works, "ManifestWork"))
	}
}

// applied judges what a cluster reports of the works of Bindings; of all works, if there are no
// Bindings.
func (f *Fleet) applied(cluster string, box *Mailbox, bindings []*controlv1alpha1.Binding) func(*chain) {
	return func(c *chain) {
		var failed []*plan.Item
		of := map[*plan.Item]*controlv1alpha1.Binding{}
		applied, pending := 0, 0
		for work, item := range plan.Items(box.Works.Value) {
			if work.Deleting || item.Observe || len(bindings) > 0 && !owns(bindings, work) {
				continue
			}
			switch item.State {
			case plan.Failed:
				failed, of[item] = append(failed, item), ownerOf(bindings, work)
			case plan.Pending:
				pending++
			case plan.Applied, plan.Silent:
				applied++
			}
		}
		switch {
		case len(failed) > 0:
			const most = 3
			texts := make([]string, len(failed))
			var fix []string
			for i, item := range failed {
				texts[i] = item.Ref.String() + ": " + item.Refusal()
				if i < most {
					fix = append(fix, hint(item, cluster, changePackage(of[item]))...)
				}
			}
			c.broken(LinkApplied, fmt.Sprintf("cluster %s cannot apply %s: %s", cluster, text.Count(len(failed), "object"), text.Join(texts, "; ", most)), fix...)
		case pending > 0:
			c.waiting(LinkApplied, fmt.Sprintf("cluster %s has not reported on %s yet", cluster, text.Count(pending, "object")))
		default:
			c.good(LinkApplied, "%s applied", text.Count(applied, "object"))
		}
	}
}

func owns(bindings []*controlv1alpha1.Binding, work *plan.Work) bool {
	return ownerOf(bindings, work) != nil
}

// ownerOf returns the Binding of a work, nil if it is none of these.
func ownerOf(bindings []*controlv1alpha1.Binding, work *plan.Work) *controlv1alpha1.Binding {
	for _, b := range bindings {
		if b.UID == work.BindingUID {
			return b
		}
	}
	return nil
}

// healthyIn says what the status of Bindings says of the health of the objects in a cluster.
func healthyIn(cluster string, bindings []*controlv1alpha1.Binding) func(*chain) {
	return func(c *chain) {
		const most = 3
		problems := about(cluster, bindings, func(s *controlv1alpha1.BindingStatus) []string { return s.Problems })
		if len(problems) > 0 {
			ref, _, _ := strings.Cut(problems[0], ": ")
			kind, name, _ := strings.Cut(ref, " ")
			if namespace, own, namespaced := strings.Cut(name, "/"); namespaced {
				name = own + " --namespace " + namespace
			}
			c.broken(LinkHealthy, text.Join(problems, "; ", most), "In cluster "+cluster+": kubectl describe "+kind+" "+name)
			return
		}
		for _, b := range bindings {
			h := meta.FindStatusCondition(b.Status.Conditions, controlv1alpha1.BindingConditionHealthy)
			switch {
			case h == nil || h.Status == metav1.ConditionTrue:
			case h.Status == metav1.ConditionUnknown && Mask(h.Message, cluster) != h.Message:
				c.unknown(LinkHealthy, "Binding "+b.Name+": "+h.Message)
				return
			case h.Reason == controlv1alpha1.ReasonProgressing && strings.Contains(h.Message, cluster+":"):
				c.waiting(LinkHealthy, "Binding "+b.Name+": "+h.Message)
				return
			}
		}
		c.good(LinkHealthy, "no problem is reported")
	}
}

package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/works"
)

// load is what is delivered to a cluster, and the Bindings that list it.
type load struct {
	// Bindings are those with works in the mailbox, or that list the cluster. Sorted.
	Bindings []bound
	// Others is the number of works in the mailbox that Starling does not deliver, without those of
	// the status add-on.
	Others int
	// Unread is why the Bindings of the WDS are not known, "" if they are.
	Unread string
}

// bound is a Binding that concerns a cluster.
type bound struct {
	WDS, Name string
	// Works and Objects are what the mailbox has. Orphans of the objects stay in the cluster when
	// they leave the works.
	Works, Objects, Orphans int
	// Listed: the Binding lists the cluster, as far as Bindings could be read. Owner is the policy
	// or package that it is of, "" if it is of none.
	Listed bool
	Owner  string
	// Why is what keeps the Binding from following its policy, "" if nothing.
	Why string
}

// objects returns the number of objects in the mailbox, and how many of them stay in the cluster.
func (l *load) objects() (all, orphans int) {
	for i := range l.Bindings {
		all += l.Bindings[i].Objects
		orphans += l.Bindings[i].Orphans
	}
	return all, orphans
}

// works returns the number of works that Starling has in the mailbox.
func (l *load) works() (n int) {
	for i := range l.Bindings {
		n += l.Bindings[i].Works
	}
	return n
}

// listing returns the Bindings that list the cluster.
func (l *load) listing() []bound {
	return slices.DeleteFunc(slices.Clone(l.Bindings), func(b bound) bool { return !b.Listed })
}

// loadOf reads what concerns a cluster. wds may be nil.
func (m *member) loadOf(ctx context.Context, wds *client.Client) (*load, error) {
	list, err := m.Works.ManifestWorks(m.cluster.Name).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the works in mailbox %s: %w", m, err)
	}
	bindings, unread := readBindings(ctx, wds, m.cluster.Name)
	l := newLoad(list.Items, bindings)
	l.Unread = unread
	return l, nil
}

// newLoad returns what works and Bindings say of a cluster.
func newLoad(all []workv1.ManifestWork, bindings []bound) *load {
	l := &load{}
	found := map[[2]string]*bound{}
	at := func(wds, name string) *bound {
		key := [2]string{wds, name}
		if found[key] == nil {
			found[key] = &bound{WDS: wds, Name: name}
		}
		return found[key]
	}
	known := works.NewManifests(texts)
	names := map[string]string{} // of WDSes, by Binding
	for i := range all {
		work := &all[i]
		if work.Labels[controlv1alpha1.LabelWDSUID] == "" {
			if !strings.HasPrefix(work.Name, "addon-") {
				l.Others++
			}
			continue
		}
		name := cmp.Or(work.Annotations[controlv1alpha1.AnnotationBinding], work.Labels[controlv1alpha1.LabelBindingName])
		of := at(work.Labels[controlv1alpha1.LabelWDSName], name)
		names[work.Labels[controlv1alpha1.LabelBindingUID]] = of.WDS
		of.Works++
		items := works.Read(work, known).Items
		for j := range items {
			if items[j].Claim() {
				continue
			}
			of.Objects++
			if items[j].Orphan {
				of.Orphans++
			}
		}
	}
	for _, b := range bindings {
		of := at(names[b.WDS], b.Name)
		of.Listed, of.Owner, of.Why = true, b.Owner, b.Why
	}
	for _, b := range found {
		l.Bindings = append(l.Bindings, *b)
	}
	slices.SortFunc(l.Bindings, func(a, b bound) int { return cmp.Or(cmp.Compare(a.WDS, b.WDS), cmp.Compare(a.Name, b.Name)) })
	return l
}

// readBindings returns the Bindings of the WDS that list the cluster, and why they are unknown, ""
// if they are not. WDS is the UID of the Binding.
func readBindings(ctx context.Context, wds *client.Client, cluster string) (found []bound, unread string) {
	if wds == nil {
		return nil, "no WDS is known"
	}
	err := client.EachItem(ctx, wds.Bindings().List, metav1.ListOptions{}, func(b *controlv1alpha1.Binding) error {
		if slices.ContainsFunc(b.Spec.Destinations, func(d controlv1alpha1.Destination) bool { return d.ClusterID == cluster }) {
			found = append(found, boundOf(ctx, wds, b))
		}
		return nil
	})
	switch {
	case apierrors.IsNotFound(err):
		return nil, "the current context is no WDS"
	case err != nil:
		return nil, err.Error()
	}
	return found, ""
}

func boundOf(ctx context.Context, wds *client.Client, b *controlv1alpha1.Binding) bound {
	of := bound{WDS: string(b.UID), Name: b.Name}
	if name := b.Annotations[controlv1alpha1.AnnotationPackage]; name != "" {
		of.Owner = "package " + name
		return of
	}
	owner := metav1.GetControllerOfNoCopy(b)
	if owner == nil {
		of.Why = "it is of no policy: remove the destination from it"
		return of
	}
	of.Owner = "BindingPolicy " + owner.Name
	policy, err := wds.BindingPolicies().Get(ctx, owner.Name, metav1.GetOptions{})
	if err != nil {
		return of
	}
	for _, kind := range []string{controlv1alpha1.BindingPolicyConditionRemovalBlocked, controlv1alpha1.BindingPolicyConditionSynced} {
		c := meta.FindStatusCondition(policy.Status.Conditions, kind)
		if c != nil && (c.Status == metav1.ConditionTrue) == (kind == controlv1alpha1.BindingPolicyConditionRemovalBlocked) {
			of.Why = c.Message
			break
		}
	}
	return of
}

// wds returns the client of the current context, nil if there is none.
func (o *options) wds() *client.Client {
	config, err := o.flags.ToRESTConfig()
	if err != nil {
		return nil
	}
	c, err := client.New(limited(config))
	if err != nil {
		return nil
	}
	return c
}

// from lists the objects in the mailbox by their Bindings: "10 objects of Binding shop, 2 objects
// of Binding web".
func (l *load) from() string { return l.list(func(b *bound) int { return b.Objects }) }

// leavingFrom is from, without the objects that stay in the cluster.
func (l *load) leavingFrom() string {
	return l.list(func(b *bound) int { return b.Objects - b.Orphans })
}

func (l *load) list(count func(*bound) int) string {
	var parts []string
	for i := range l.Bindings {
		if b := &l.Bindings[i]; count(b) > 0 {
			parts = append(parts, fmt.Sprintf("%s of Binding %s", text.Count(count(b), "object"), b.label()))
		}
	}
	return text.List(parts, maxListed)
}

// label returns the name of the Binding, with its WDS if it is known.
func (b *bound) label() string {
	if b.WDS == "" {
		return b.Name
	}
	return b.WDS + "/" + b.Name
}

// maxListed bounds the items in one line.
const maxListed = 6

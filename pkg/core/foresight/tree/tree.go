package tree

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/binding"
	"github.com/starlinghq/starling/pkg/core/foresight"
	"github.com/starlinghq/starling/pkg/core/foresight/explain"
	"github.com/starlinghq/starling/pkg/core/objref"
)

// Kind says what a Node is.
type Kind string

// Kinds, from the root to the leaves.
const (
	Policy  Kind = "BindingPolicy"
	Binding Kind = "Binding"
	Cluster Kind = "Cluster"
	Work    Kind = "ManifestWork"
	Object  Kind = "Object"
)

// Node is a part of what a policy delivers. Equal parts are one Node with several names.
type Node struct {
	Kind Kind `json:"kind"`
	// Names are sorted.
	Names []string `json:"names"`
	// State is the worst of what is below.
	State foresight.State `json:"state"`
	// Link is the first link of an explanation that is not good, and Text says what is the case; of
	// several parts it is that of the first. They are of objects, and of what has nothing below.
	Link string  `json:"link,omitempty"`
	Text string  `json:"text,omitempty"`
	Next []*Node `json:"next,omitempty"`
}

// copyOf is an object in one cluster.
type copyOf struct {
	ref  objref.Ref
	link foresight.Link
}

// Of returns the tree of a policy. Objects are all that its Bindings list.
func Of(p *explain.Policy, objects []*explain.Object) *Node {
	root := &Node{Kind: Policy, Names: []string{p.Name}, State: foresight.Good}
	if first := foresight.First(p.Common()); first != nil {
		root.Link, root.Text, root.State = first.Name, first.Text, first.State
	}
	ways := make(map[objref.Ref]*explain.Ways, len(objects))
	for _, o := range objects {
		ways[o.Ref] = o.Ways()
	}
	for _, b := range p.Selection.Value.Bindings.Value {
		root.add(bindingNode(p, b, ways))
	}
	return root
}

// add adds a part.
func (n *Node) add(part *Node) {
	n.Next = append(n.Next, part)
	if worse(part.State, n.State) {
		n.State = part.State
	}
}

var states = []foresight.State{foresight.Broken, foresight.Unknown, foresight.Waiting, foresight.Good}

func worse(a, b foresight.State) bool { return slices.Index(states, a) < slices.Index(states, b) }

func bindingNode(p *explain.Policy, b *controlv1alpha1.Binding, ways map[objref.Ref]*explain.Ways) *Node {
	n := &Node{Kind: Binding, Names: []string{b.Name}, State: foresight.Good}
	refs := make([]objref.Ref, 0, len(ways))
	for ref := range binding.Refs(&b.Spec) {
		if ways[ref] != nil {
			refs = append(refs, ref)
		}
	}
	slices.SortFunc(refs, objref.Compare)
	same := map[string]*Node{}
	var order []string
	for i := range b.Spec.Destinations {
		cluster := b.Spec.Destinations[i].ClusterID
		node, key := clusterNode(p.Mailboxes[cluster], cluster, b, refs, ways)
		if known := same[key]; known != nil {
			known.join(node)
			continue
		}
		same[key] = node
		order = append(order, key)
	}
	slices.SortFunc(order, func(x, y string) int {
		a, b := same[x], same[y]
		return cmp.Or(cmp.Compare(slices.Index(states, a.State), slices.Index(states, b.State)), cmp.Compare(len(b.Names), len(a.Names)), strings.Compare(a.Names[0], b.Names[0]))
	})
	for _, key := range order {
		slices.Sort(same[key].Names)
		n.add(same[key])
	}
	if len(order) == 0 {
		n.Text = "lists no cluster"
	}
	return n
}

// join adds the names of an equal cluster, and of its works.
func (n *Node) join(other *Node) {
	for _, name := range other.Names {
		if !slices.Contains(n.Names, name) {
			n.Names = append(n.Names, name)
		}
	}
	for i := range n.Next {
		if n.Next[i].Kind == Work {
			n.Next[i].join(other.Next[i])
		}
	}
}

// clusterNode returns a cluster with what a Binding delivers to it, and a text that is the same for
// equal clusters.
func clusterNode(box *explain.Mailbox, cluster string, b *controlv1alpha1.Binding, refs []objref.Ref, ways map[objref.Ref]*explain.Ways) (n *Node, key string) {
	if box == nil {
		box = &explain.Mailbox{}
	}
	in := map[string][]copyOf{}
	for _, ref := range refs {
		work := box.Work(b, ref)
		in[work] = append(in[work], copyOf{ref, outcome(ways[ref], cluster)})
	}
	var parts []string
	n = &Node{Kind: Cluster, Names: []string{cluster}, State: foresight.Good}
	for _, name := range slices.Sorted(maps.Keys(in)) {
		work := &Node{Kind: Work, Names: []string{name}, State: foresight.Good}
		if name == "" { // in none
			work.Names = nil
		}
		parts = append(parts, fmt.Sprintf("work %t", name == ""))
		for _, one := range in[name] {
			work.add(&Node{Kind: Object, Names: []string{one.ref.String()}, State: one.link.State, Link: one.link.Name, Text: one.link.Text})
			parts = append(parts, one.ref.String(), string(one.link.State), one.link.Name)
			if one.link.State != foresight.Good {
				parts = append(parts, explain.Mask(explain.Mask(one.link.Text, cluster), name))
			}
		}
		n.add(work)
	}
	return n, strings.Join(parts, "\n")
}

// outcome returns the first link that is not good, or the farthest one.
func outcome(w *explain.Ways, cluster string) foresight.Link {
	links := slices.Concat(w.Links, w.Clusters[cluster])
	if first := foresight.First(links); first != nil {
		return *first
	}
	return explain.Farthest(links)
}

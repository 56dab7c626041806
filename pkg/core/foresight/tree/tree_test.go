package tree_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/foresight"
	"github.com/starlinghq/starling/pkg/core/foresight/explain"
	"github.com/starlinghq/starling/pkg/core/foresight/tree"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/test/golden"
	"github.com/starlinghq/starling/test/situations"
)

// fleet returns a policy that delivers that many Deployments to clusters.
func fleet(t *testing.T, objects int, clusters ...string) (*explain.Policy, []*explain.Object) {
	t.Helper()
	w := situations.NewWorld(t)
	var refs []objref.Ref
	for i := range objects {
		refs = append(refs, objref.Ref{Group: "apps", Resource: "deployments", Namespace: "shop", Name: fmt.Sprintf("web%d", i)})
	}
	b := situations.BindingOf("web", refs, clusters...)
	shared := explain.Fleet{Now: situations.Now, Mailboxes: map[string]*explain.Mailbox{}, Clusters: foresight.Known(map[string]*foresight.Cluster{})}
	p := &explain.Policy{Fleet: shared, Name: "web"}
	p.Selection = foresight.Known(explain.Selection{Policy: w.Selecting, Bindings: foresight.Known([]*controlv1alpha1.Binding{b})})
	var all []*explain.Object
	for _, ref := range refs {
		live := w.Live.Value.DeepCopy()
		live.SetName(ref.Name)
		o := &explain.Object{Fleet: shared, Ref: ref, Version: "v1", Live: foresight.Known(live), Policy: "web", Namespace: w.Namespace}
		o.Policies = foresight.Known([]explain.Selection{p.Selection.Value})
		all = append(all, o)
	}
	for _, name := range clusters {
		shared.Clusters.Value[name] = situations.ClusterOf(name)
		box := &explain.Mailbox{Reports: foresight.Known(map[objref.Ref]*status.Report{})}
		for _, o := range all {
			work := situations.WorkOf(t, b, name, o.Ref, o.Live.Value)
			box.Works.Value = append(box.Works.Value, work)
			box.Reports.Value[o.Ref] = w.Mailboxes["c1"].Reports.Value[w.Ref]
		}
		first := box.Works.Value[0]
		for _, work := range box.Works.Value[1:] {
			first.Items = append(first.Items, work.Items...)
		}
		box.Works.Value = box.Works.Value[:1]
		shared.Mailboxes[name] = box
	}
	return p, all
}

// TestDraw: equal clusters are one, and so are many objects that are alike.
func TestDraw(t *testing.T) {
	t.Parallel()
	var texts []golden.Text
	for _, tc := range []struct {
		name   string
		change func(*explain.Policy, []*explain.Object)
	}{
		{"all is well", func(*explain.Policy, []*explain.Object) {}},
		{"a cluster refuses an object", func(p *explain.Policy, _ []*explain.Object) {
			item := &p.Mailboxes["c3"].Works.Value[0].Items[1]
			item.State, item.Reason, item.Message = plan.Failed, "AppliedManifestFailed", "the webhook denied it"
		}},
		{"a mailbox is empty", func(p *explain.Policy, _ []*explain.Object) { p.Mailboxes["c2"].Works.Value = nil }},
		{"the agent of a cluster is silent", func(p *explain.Policy, _ []*explain.Object) {
			p.Clusters.Value["c4"].Lease.Value.Renewed = situations.Now.Add(-1e13)
		}},
		{"the policy was not observed", func(p *explain.Policy, _ []*explain.Object) { p.Selection.Value.Policy.Status.ObservedGeneration = 0 }},
		{"no policy", func(p *explain.Policy, _ []*explain.Object) { p.Selection = foresight.Fact[explain.Selection]{} }},
		{"no cluster", func(p *explain.Policy, _ []*explain.Object) {
			p.Selection.Value.Bindings.Value[0].Spec.Destinations = nil
		}},
	} {
		p, objects := fleet(t, 5, "c1", "c2", "c3", "c4")
		tc.change(p, objects)
		root := tree.Of(p, objects)
		for _, all := range []bool{false, true} {
			var out strings.Builder
			root.Draw(&out, all)
			texts = append(texts, golden.Text{Heading: fmt.Sprintf("%s, all %t", tc.name, all), Text: out.String()})
		}
	}
	p, objects := fleet(t, 1, "c1")
	raw, err := json.MarshalIndent(tree.Of(p, objects), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Texts(t, append(texts, golden.Text{Heading: "json", Text: string(raw) + "\n"})...)
}

// TestNothingIsLost: each object is in the tree once for each cluster.
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	p, objects := fleet(t, 7, "c1", "c2", "c3", "c4", "c5")
	for i, name := range []string{"c1", "c2", "c3", "c4", "c5"} {
		box := p.Mailboxes[name]
		box.Works.Value[0].Items = box.Works.Value[0].Items[i:]
		box.Works.Value[0].Items[0].State = plan.Pending
	}
	copies := 0
	var count func(n *tree.Node, clusters int)
	count = func(n *tree.Node, clusters int) {
		if n.Kind == tree.Cluster {
			clusters = len(n.Names)
		}
		if n.Kind == tree.Object {
			copies += clusters * len(n.Names)
		}
		for _, part := range n.Next {
			count(part, clusters)
		}
	}
	count(tree.Of(p, objects), 0)
	if copies != 35 {
		t.Errorf("%d copies, want 35", copies)
	}
}

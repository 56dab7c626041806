package match

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/test/golden"
)

// TestExplainAgreesWithTheIndex explains random objects to random policies: what Explain and
// Modulation say selected is what an Index selects, and the change of labels that it names passes
// the test.
func TestExplainAgreesWithTheIndex(t *testing.T) {
	t.Parallel()
	selected, changed := 0, 0
	for seed := range uint64(400) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		spec := randomSpec(rnd)
		p := mustCompile(t, spec)
		index := NewIndex(Options{})
		index.SetPolicy("p", p)
		known := map[string]map[string]string{}
		for _, name := range []string{"n0", "n1", "kube-system"} {
			known[name] = randomLabels(rnd)
			index.SetNamespace(name, known[name])
		}
		candidates := map[objref.Ref]*Candidate{}
		for range 12 {
			ref := randomRef(rnd)
			if ref.Namespace == "n2" && rnd.IntN(2) == 0 {
				ref.Namespace = "kube-system"
			}
			labels := randomLabels(rnd)
			namespaceLabels, namespaceKnown := known[ref.Namespace]
			candidates[ref] = &Candidate{
				GroupResource: ref.GroupResource(), Namespace: ref.Namespace, Name: ref.Name, Labels: labels,
				NamespaceLabels: namespaceLabels, NamespaceKnown: namespaceKnown,
			}
			index.SetObject(someResources[ref.GroupResource()], &metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name, Labels: labels})
		}
		snapshot, _, _ := index.Snapshot("p", Listed{})
		want := map[objref.Ref]*modulation{}
		for _, m := range snapshot.Matches {
			want[m.Ref] = m.Modulation
		}
		got := map[objref.Ref]*modulation{}
		for ref, c := range candidates {
			for _, r := range p.Explain(c) {
				switch {
				case r.Failed == TestNone:
					got[ref] = p.Modulation(c)
					selected++
				case r.Text == "":
					t.Errorf("seed %d: clause %d does not select %v, and says nothing", seed, r.Clause, ref)
				case len(r.Change) > 0:
					after := *c
					of := &after.Labels
					if r.Failed == TestNamespaceLabels {
						of = &after.NamespaceLabels
					}
					*of = changeLabels(*of, r.Change)
					if again := p.Explain(&after)[r.Clause]; again.Failed <= r.Failed {
						t.Errorf("seed %d: %q, after the change %q: %q", seed, r.Text, r.Change, again.Text)
					}
					changed++
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("seed %d (-index +explained):\n%s", seed, diff)
		}
		labels := randomLabels(rnd)
		if rnd.IntN(4) == 0 {
			labels[controlv1alpha1.LabelDrained] = "true"
		}
		if selects, what, change := p.ExplainCluster(labels); selects != p.SelectsCluster(labels) || selects == (what != "") ||
			len(change) > 0 && !p.MatchesCluster(changeLabels(labels, change)) {
			t.Errorf("seed %d: cluster %v: %v %q %v", seed, labels, selects, what, change)
		}
	}
	if selected < 100 || changed < 100 {
		t.Errorf("%d selections and %d changes were tested, want 100 of both", selected, changed)
	}
}

// changeLabels does what `kubectl label --overwrite` does.
func changeLabels(labels map[string]string, change []string) map[string]string {
	changed := maps.Clone(labels)
	if changed == nil {
		changed = map[string]string{}
	}
	for _, argument := range change {
		if key, value, set := strings.Cut(argument, "="); set {
			changed[key] = value
		} else {
			delete(changed, strings.TrimSuffix(key, "-"))
		}
	}
	return changed
}

// TestExplanations has the texts for each test that an object may fail.
func TestExplanations(t *testing.T) {
	apps := "apps"
	p := mustCompile(t, downsync(
		objectTest{APIGroup: &apps},
		objectTest{Resources: []string{"a", "b", "c", "d", "e", "f", "g", "h"}},
		objectTest{ObjectNames: []string{"web"}},
		objectTest{Namespaces: []string{"shop"}},
		objectTest{ObjectSelectors: []metav1.LabelSelector{selector("app", "web", "tier", "front"), expression("app", metav1.LabelSelectorOpNotIn, "dns")}},
		objectTest{ObjectSelectors: []metav1.LabelSelector{expression("gone", metav1.LabelSelectorOpExists)}},
		objectTest{NamespaceSelectors: []metav1.LabelSelector{selector("team", "a")}},
		objectTest{ObjectNames: []string{"dns"}},
	))
	c := &Candidate{
		GroupResource: schema.GroupResource{Resource: "configmaps"}, Namespace: "kube-system", Name: "dns", Labels: map[string]string{"app": "dns", "tier": ""},
		NamespaceKnown: true,
	}
	var b strings.Builder
	for _, r := range p.Explain(c) {
		fmt.Fprintf(&b, "spec.downsync[%d]: %s %v\n", r.Clause, r.Text, r.Change)
	}
	c.NamespaceKnown = false
	b.WriteString(p.Explain(c)[6].Text + "\n")
	c.Namespace = ""
	b.WriteString(p.Explain(c)[3].Text + "\n")
	for _, selectors := range [][]metav1.LabelSelector{nil, {selector("env", "prod"), selector("env", "test", "eu", "yes")}} {
		_, what, change := mustCompile(t, &policySpec{ClusterSelectors: selectors}).ExplainCluster(map[string]string{"env": "dev"})
		fmt.Fprintf(&b, "cluster: %s %v\n", what, change)
	}
	reasons := sets.New[string]()
	for _, o := range []struct {
		gr   schema.GroupResource
		meta metav1.ObjectMeta
	}{
		{schema.GroupResource{Resource: "events"}, metav1.ObjectMeta{}},
		{schema.GroupResource{Resource: "configmaps"}, metav1.ObjectMeta{Namespace: "starling-system"}},
		{schema.GroupResource{Resource: "namespaces"}, metav1.ObjectMeta{Name: "kube-system"}},
		{schema.GroupResource{Resource: "namespaces"}, metav1.ObjectMeta{Labels: map[string]string{"app.kubernetes.io/part-of": "starling"}}},
	} {
		reasons.Insert(NeverBecause(o.gr, &o.meta))
	}
	b.WriteString("never workload: " + strings.Join(slices.Sorted(maps.Keys(reasons)), "\nnever workload: ") + "\n")
	golden.Compare(t, "explanations", b.String())
}

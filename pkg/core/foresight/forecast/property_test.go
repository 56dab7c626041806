package forecast

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
)

// delivered is what clusters get, by cluster and object. It is computed without any of the
// functions of the forecast: each policy, each object, each cluster, one by one.
type delivered map[string]map[objref.Ref]content

// content is what a cluster gets of an object: its data and all else as texts, and how the cluster
// applies it.
type content struct{ data, rest, how string }

// verb returns what a cluster that has an object does with a content.
func (c content) verb(gets content) (verb Verb, changes bool) {
	switch {
	case c == gets:
		return "", false
	case gets.how == onlyCreated && (c.data != gets.data || c.rest != gets.rest), gets.how == ignoringData && c.how == gets.how && c.rest == gets.rest:
		return Keep, true
	}
	return Update, true
}

const ignoringData = controlv1alpha1.AnnotationIgnoreFields + "=.data.a"

func (w *World) delivered() delivered {
	all := delivered{}
	for _, policy := range w.Policies {
		selector := policy.Spec.Downsync[0].ObjectSelectors[0].MatchLabels
		clusters := policy.Spec.ClusterSelectors[0].MatchLabels
		for name, cluster := range w.Clusters {
			if cluster.Refused != "" || cluster.Labels[controlv1alpha1.LabelDrained] == "true" || !includes(cluster.Labels, clusters) {
				continue
			}
			for ref, o := range w.Objects {
				if !includes(o.Meta.GetLabels(), selector) {
					continue
				}
				if all[name] == nil {
					all[name] = map[objref.Ref]content{}
				}
				data, _, _ := unstructured.NestedStringMap(o.Meta.Object, "data")
				c := content{rest: fmt.Sprint(o.Meta.GetLabels(), templated(o)), how: o.how()}
				c.data = strings.ReplaceAll(strings.ReplaceAll(fmt.Sprint(data), "{{.clusterName}}", name), "{{.country}}", cluster.country())
				all[name][ref] = c
			}
		}
	}
	return all
}

// how returns the option that the annotations of an object request.
func (o *Object) how() string {
	for _, how := range []string{onlyCreated, ignoringData} {
		key, value, _ := strings.Cut(how, "=")
		if o.Meta.GetAnnotations()[key] == value {
			return how
		}
	}
	return ""
}

func (c *Cluster) country() string {
	if c.Sources != nil {
		return c.Sources.Data["country"]
	}
	return c.Labels["country"]
}

func includes(labels, selector map[string]string) bool {
	for key, value := range selector {
		if labels[key] != value {
			return false
		}
	}
	return true
}

// holds reports whether a Transaction holds an object in a cluster.
func (w *World) holds(cluster string, ref objref.Ref) bool {
	b := w.Bindings[pkgv1.HoldsBinding]
	if b == nil {
		return false
	}
	list, _ := plan.DecodeHolds(b.Annotations[pkgv1.AnnotationHeldObjects])
	for _, one := range list {
		if slices.Contains(one.Objects, ref.Resource+"/"+ref.Namespace+"/"+ref.Name) && (len(one.Clusters) == 0 || slices.Contains(one.Clusters, cluster)) {
			return true
		}
	}
	return false
}

// verbs returns what differs between two states, by cluster and object. What is held stays.
func verbs(before, after delivered, holds func(cluster string, ref objref.Ref) bool) map[string]string {
	found := map[string]string{}
	for _, all := range []delivered{before, after} {
		for cluster, objects := range all {
			for ref := range objects {
				had, before := before[cluster][ref]
				gets, after := after[cluster][ref]
				verb, changes := had.verb(gets)
				switch {
				case !before:
					verb = Create
				case !after:
					verb = Delete
				case !changes:
					continue
				}
				if holds(cluster, ref) {
					verb = Keep
				}
				found[cluster+" "+ref.String()] = string(verb)
			}
		}
	}
	return found
}

func (f *Forecast) verbs() map[string]string {
	found := map[string]string{}
	for _, g := range f.Groups {
		for _, cluster := range g.Clusters {
			for i := range g.Items {
				found[cluster+" "+g.Items[i].Ref.String()] = string(g.Items[i].Verb)
			}
		}
	}
	return found
}

// apply sets how clusters apply an object.
func (w *World) apply(name, how string) {
	ref, _ := refTo(name)
	o := w.Objects[ref].Meta
	all := o.GetAnnotations()
	if key, value, is := strings.Cut(how, "="); is {
		if all == nil {
			all = map[string]string{}
		}
		all[key] = value
	}
	o.SetAnnotations(all)
}

// random sets one thing of a World at random.
func (w *World) random(r *rand.Rand) {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	labels := func() string { return pick("app=a", "app=b", "app=a,tier=x", "tier=x", "") }
	site := func() string {
		return pick("site=edge,country=de", "site=core,country=fr", "site=edge,country=fr", "country=de", "site=edge,starling.io/drained=true")
	}
	switch r.IntN(12) {
	case 0, 1:
		w.policy(pick("p1", "p2", "p3", "p4"), pick("app=a", "app=b", "tier=x"), pick("site=edge", "site=core", "country=de", ""))
	case 2:
		delete(w.Policies, pick("p1", "p2", "p3", "p4"))
	case 3, 4:
		name := "ConfigMap/default/" + pick("o1", "o2", "o3", "o4", "o5", "o6")
		w.object(name, labels(), pick("a=1", "a=2", "a={{.country}}", "a={{.clusterName}}"))
		w.apply(name, pick("", "", onlyCreated, ignoringData))
	case 5:
		ref, _ := refTo("ConfigMap/default/" + pick("o1", "o2", "o3", "o4", "o5", "o6"))
		w.Delete(ref)
	case 6, 7:
		w.cluster(pick("c1", "c2", "c3", "c4", "c5"), site())
	case 8:
		name := pick("c1", "c2", "c3", "c4", "c5")
		if c := w.Clusters[name]; c != nil {
			refused := *c
			refused.Refused = pick("", "is not accepted")
			w.Clusters[name] = &refused
		}
	case 9:
		w.hold("ConfigMap/default/"+pick("o1", "o2", "o3"), strings.Fields(pick("", "c1", "c2 c3"))...)
	case 10:
		delete(w.Bindings, pkgv1.HoldsBinding)
	case 11:
		if name := pick("c1", "c2", "c3", "c4", "c5"); w.Clusters[name] != nil {
			w.configure(name, pick("country=de", "country=es"))
		}
	}
}

// TestForecastIsWhatHappens changes random fleets at random. The forecast of each change is what
// differs then, cluster by cluster and object by object.
func TestForecastIsWhatHappens(t *testing.T) {
	t.Parallel()
	histories := 2000
	if testing.Short() {
		histories = 100
	}
	for seed := range histories {
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		w := newWorld()
		for range 25 {
			w.random(r)
		}
		for step := range 8 {
			before := w.bound()
			after := before.Clone()
			for range 1 + r.IntN(3) {
				after.random(r)
			}
			got := Compare(before, after).Forecast().verbs()
			if diff := cmp.Diff(verbs(before.delivered(), after.delivered(), after.holds), got); diff != "" {
				t.Fatalf("seed %d, step %d: what happens (-), the forecast (+):\n%s", seed, step, diff)
			}
			w = after.bound()
		}
	}
}

// TestNeedsIsEnough: with the content of what Needs returns and of nothing else, the forecast is
// the same as with all content.
func TestNeedsIsEnough(t *testing.T) {
	t.Parallel()
	for seed := range 300 {
		r := rand.New(rand.NewPCG(uint64(seed), 2))
		w := newWorld()
		for range 30 {
			w.random(r)
		}
		before := w.bound()
		after := before.Clone()
		for range 1 + r.IntN(3) {
			after.random(r)
		}
		want := Compare(before, after).Forecast().lines()

		// An object that both have stays one that both have.
		bare := map[*Object]*Object{}
		unread := func(w *World) *World {
			c := w.Clone()
			for ref, o := range w.Objects {
				if bare[o] == nil {
					partial := &unstructured.Unstructured{Object: maps.Clone(o.Meta.Object)}
					delete(partial.Object, "data")
					bare[o] = &Object{Resource: o.Resource, Meta: partial}
				}
				c.Objects[ref] = bare[o]
			}
			return c
		}
		someBefore, someAfter := unread(before), unread(after)
		c := Compare(someBefore, someAfter)
		needs, _ := c.Needs()
		for _, n := range needs {
			if n.Before {
				someBefore.Objects[n.Ref] = before.Objects[n.Ref]
			}
			if n.After {
				someAfter.Objects[n.Ref] = after.Objects[n.Ref]
			}
		}
		if diff := cmp.Diff(want, c.Forecast().lines()); diff != "" {
			t.Fatalf("seed %d: with all content (-), with what is needed (+):\n%s", seed, diff)
		}
	}
}

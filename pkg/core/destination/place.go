package destination

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/options"
)

var definitions = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}

// refOf returns the identity of a CRD.
func refOf(name string) objref.Ref { return objref.New(definitions, "", name) }

// nameOf returns the name of the CRD of a custom resource.
func nameOf(ref objref.Ref) string { return ref.Resource + "." + ref.Group }

// selection is what one or more policies carry.
type selection struct {
	before, after map[objref.Ref]bool
}

func newSelection() *selection {
	return &selection{before: map[objref.Ref]bool{}, after: map[objref.Ref]bool{}}
}

func (s *selection) add(other *selection) {
	maps.Copy(s.before, other.before)
	maps.Copy(s.after, other.after)
}

// selections returns what each policy carries of the objects of the Input. What a Binding lists
// counts too: a policy may have changed a moment ago, or be one that cannot be understood.
func (in *Input) selections() []*selection {
	index := match.NewIndex(match.Options{})
	for name, labels := range in.Namespaces {
		index.SetNamespace(name, labels)
	}
	for i := range in.Policies {
		if p := &in.Policies[i]; p.Compiled != nil {
			index.SetPolicy(p.Name, p.Compiled)
		}
	}
	set := func(ref objref.Ref, labels map[string]string) {
		resource := match.Resource{GroupVersionResource: ref.GroupResource().WithVersion("v1")}
		index.SetObject(resource, &metav1.ObjectMeta{Name: ref.Name, Namespace: ref.Namespace, Labels: labels})
	}
	exists := map[objref.Ref]bool{} // afterwards
	for _, o := range in.Resources {
		exists[o.Ref] = true
		set(o.Ref, o.Labels)
	}
	for i := range in.Unchanged {
		ref := refOf(in.Unchanged[i].Name)
		exists[ref] = true
		set(ref, in.Unchanged[i].Labels)
	}
	for i := range in.Changes {
		c := &in.Changes[i]
		exists[refOf(c.crd().Name)] = c.After != nil
		if c.Before != nil {
			set(refOf(c.Before.Name), c.Before.Labels)
		}
	}
	selected := func(p *Policy) map[objref.Ref]bool {
		refs := map[objref.Ref]bool{}
		snapshot, _, _ := index.Snapshot(p.Name, match.Listed{})
		for _, m := range snapshot.Matches {
			refs[m.Ref] = true
		}
		return refs
	}
	found := make([]*selection, len(in.Policies))
	for i := range in.Policies {
		found[i] = &selection{before: selected(&in.Policies[i])}
	}
	for i := range in.Changes {
		if c := &in.Changes[i]; c.After != nil {
			set(refOf(c.After.Name), c.After.Labels)
		} else {
			index.DeleteObject(refOf(c.Before.Name))
		}
	}
	for i := range in.Policies {
		p, s := &in.Policies[i], found[i]
		if p.Package {
			s.before, s.after = in.all()
			continue
		}
		s.after = selected(p)
		for ref := range p.Objects {
			if alive, matters := exists[ref]; matters {
				s.after[ref] = s.after[ref] || alive && !s.before[ref]
				s.before[ref] = true
			}
		}
		maps.DeleteFunc(s.after, func(_ objref.Ref, after bool) bool { return !after })
	}
	return found
}

// all returns everything that a package has, now and afterwards.
func (in *Input) all() (before, after map[objref.Ref]bool) {
	before, after = map[objref.Ref]bool{}, map[objref.Ref]bool{}
	for i := range in.Changes {
		c := &in.Changes[i]
		if c.Before != nil {
			before[refOf(c.Before.Name)] = true
		}
		if c.After != nil {
			after[refOf(c.After.Name)] = true
		}
	}
	for _, o := range in.Resources {
		after[o.Ref] = true
	}
	return before, after
}

// reaches reports whether a policy has the cluster as a destination.
func (p *Policy) reaches(c *Cluster) bool {
	return p.Clusters[c.Name] || p.Compiled != nil && p.Compiled.SelectsCluster(c.Labels)
}

// audience is what is bound to clusters that the same policies reach.
type audience struct {
	key string
	*selection
	// effects are those of the Changes that concern the clusters.
	effects []effect
	// packages are the sources of the packages that the clusters have afterwards, sorted; crds are
	// their CRDs.
	packages []string
	crds     []objref.Ref
}

// effect is what a Change does to clusters.
type effect struct {
	change int
	// before and after: the CRD is delivered.
	before, after bool
	// stays: the clusters keep the CRD when it leaves, as it requests or a policy that delivers it.
	stays bool
	// resources are the custom resources of the space that are bound there.
	resources []*Object
	// alike are those that all clusters get alike, and varying the others.
	alike   *alike
	varying []*Object
}

// alike are objects that all clusters get alike. They are hashed and checked once for all clusters
// of an audience.
type alike struct {
	objects []*Object
	hash    string
}

// audiences returns the audience of each cluster.
func (in *Input) audiences(selections []*selection) []*audience {
	byCRD := map[string][]*Object{}
	for _, o := range in.Resources {
		byCRD[nameOf(o.Ref)] = append(byCRD[nameOf(o.Ref)], o)
	}
	known := map[string]*audience{}
	found := make([]*audience, len(in.Clusters))
	for n := range in.Clusters {
		var key strings.Builder
		for i := range in.Policies {
			if in.Policies[i].reaches(&in.Clusters[n]) {
				key.WriteString(strconv.Itoa(i) + ",")
			}
		}
		a := known[key.String()]
		if a == nil {
			a = &audience{key: key.String(), selection: newSelection()}
			var by []carried
			for i := range in.Policies {
				if p := &in.Policies[i]; p.reaches(&in.Clusters[n]) {
					a.add(selections[i])
					by = append(by, carried{selections[i], p.OnRemoval})
				}
			}
			in.complete(a, byCRD, by)
			known[a.key] = a
		}
		found[n] = a
	}
	return found
}

// Present returns the packages that each cluster has, by its name: the sources, sorted, of those of
// which policies carry a CRD there. They are shared: do not change them.
func (in *Input) Present() map[string][]string {
	present := make(map[string][]string, len(in.Clusters))
	for i, a := range in.audiences(in.selections()) {
		present[in.Clusters[i].Name] = a.packages
	}
	return present
}

// split divides the custom resources.
func (e *effect) split() {
	e.alike = &alike{}
	h := sha256.New()
	for _, o := range e.resources {
		if o.Varies() {
			e.varying = append(e.varying, o)
			continue
		}
		e.alike.objects = append(e.alike.objects, o)
		fmt.Fprintf(h, "%s %s\n", o.Ref, o.hash)
	}
	e.alike.hash = hex.EncodeToString(h.Sum(nil))
}

// carried is what one policy carries, and what it requests for what leaves.
type carried struct {
	*selection
	onRemoval options.Requested
}

func (in *Input) complete(a *audience, byCRD map[string][]*Object, by []carried) {
	packages := map[string]bool{}
	for i := range in.Changes {
		c := &in.Changes[i]
		ref := refOf(c.crd().Name)
		e := effect{change: i, before: a.before[ref], after: a.after[ref]}
		// To keep it wins, as in the mailbox.
		e.stays = slices.ContainsFunc(by, func(p carried) bool { return p.before[ref] && c.stays(p.onRemoval) })
		if e.after {
			packages[c.Package] = true
			a.crds = append(a.crds, ref)
		}
		for _, o := range byCRD[ref.Name] {
			if a.before[o.Ref] || a.after[o.Ref] {
				e.resources = append(e.resources, o)
			}
		}
		e.split()
		if e.before || e.after || len(e.resources) > 0 {
			a.effects = append(a.effects, e)
		}
	}
	for i := range in.Unchanged {
		if ref := refOf(in.Unchanged[i].Name); a.after[ref] {
			packages[in.Unchanged[i].Package] = true
			a.crds = append(a.crds, ref)
		}
	}
	a.packages = slices.Sorted(maps.Keys(packages))
	slices.SortFunc(a.crds, objref.Compare)
}

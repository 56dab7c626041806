package forecast

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
	packagebinding "github.com/starlinghq/starling/pkg/core/packages/binding"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/workload"
)

// Delivery compares what is delivered of a package before and after an approval.
//
// A package is a source of its own: its objects are not those of the WDS. So its Binding is
// compared in two Worlds that have nothing but the objects of the package.
type Delivery struct {
	pkg           *Package
	before, after *World
	// had and gets are the Bindings of the package, nil if there is none.
	had, gets *controlv1alpha1.Binding
	// taken: another Binding has the name of its Binding.
	taken bool
}

// NewDelivery plans the Binding of a package in a World and in the same one after a change.
func NewDelivery(p *Package, before, after *World) *Delivery {
	d := &Delivery{pkg: p, before: before, after: after}
	stored := before.Bindings[packagebinding.Name(p.ID)]
	if d.had, d.taken = p.bind(before, p.Before, stored); !d.taken {
		d.gets, d.taken = p.bind(after, p.After, d.had)
	}
	return d
}

// Changes reports whether another revision is delivered then.
func (d *Delivery) Changes() bool {
	had, gets := clauseOf(d.had), clauseOf(d.gets)
	return gets != nil && (had == nil || had.Name != gets.Name)
}

// Needs returns the names of the PackageRevisions whose content Groups needs; none if it does not
// change what is delivered.
func (d *Delivery) Needs() (revisions []string) {
	if !d.Changes() {
		return nil
	}
	for _, b := range []*controlv1alpha1.Binding{d.had, d.gets} {
		if clause := clauseOf(b); clause != nil {
			revisions = append(revisions, clause.Name)
		}
	}
	return revisions
}

// Namespace returns the namespace of the package.
func (d *Delivery) Namespace() string { return d.pkg.ID.Namespace }

// Cluster returns the cluster that has the name of the Repository.
func (d *Delivery) Cluster() string { return d.pkg.ID.Repository }

// Binding returns the Binding as it is, nil if there is none.
func (d *Delivery) Binding() *controlv1alpha1.Binding { return d.had }

// Approval describes the approval. contents are what Needs returned; without them it has no
// Problems.
func (d *Delivery) Approval(contents map[string]*workload.Workload) Approval {
	a := Approval{Package: d.pkg.ID.String(), Revisions: d.pkg.Approved}
	switch {
	case !a.Changes():
	case !d.Changes():
		a.Why = d.unchanged()
	default:
		a.Binding, a.Cluster = d.gets.Name, d.Cluster()
		if had := clauseOf(d.had); had != nil {
			a.Before = versionOf(d.pkg.Before, had.Name)
		}
		gets := clauseOf(d.gets)
		a.After = versionOf(d.pkg.After, gets.Name)
		if content := contents[gets.Name]; content != nil {
			a.Problems = content.Report()
		}
	}
	return a
}

// Groups returns what changes in the cluster. contents are what is in the revisions that Needs
// returned: without them nothing is known. others are what other sources deliver to the cluster.
func (d *Delivery) Groups(contents map[string]*workload.Workload, others map[objref.Ref]Other) []Group {
	needs := d.Needs()
	if len(needs) == 0 || slices.ContainsFunc(needs, func(name string) bool { return contents[name] == nil }) {
		return nil
	}
	before, after := d.world(d.before, others), d.world(d.after, others)
	if had := clauseOf(d.had); had != nil {
		before.add(contents[had.Name])
	}
	gets := contents[clauseOf(d.gets).Name]
	after.add(gets)
	for ref, o := range before.Objects { // of what is not known, the cluster keeps what it has
		if after.Objects[ref] == nil && (gets.Incomplete || slices.Contains(gets.Unsure, ref)) {
			after.Objects[ref] = o
		}
	}
	before.list(d.had)
	after.list(d.gets)
	groups := Compare(before, after).Forecast().Groups
	for i := range groups {
		groups[i].Package = d.pkg.ID.String()
	}
	return groups
}

// world returns a World that has nothing of another one but what is necessary for a package.
func (d *Delivery) world(w *World, others map[objref.Ref]Other) *World {
	of := &World{
		Bindings: map[string]*controlv1alpha1.Binding{}, Objects: map[objref.Ref]*Object{}, Transforms: w.Transforms,
		Clusters: map[string]*Cluster{}, ClustersUnread: w.ClustersUnread, Settings: w.Settings,
	}
	if holds := w.Bindings[pkgv1.HoldsBinding]; holds != nil {
		of.Bindings[pkgv1.HoldsBinding] = holds
	}
	if c := w.Clusters[d.Cluster()]; c != nil {
		with := *c
		with.Others = others
		of.Clusters[d.Cluster()] = &with
	}
	return of
}

// add adds the objects of a package.
func (w *World) add(content *workload.Workload) {
	for i := range content.Objects {
		o := &content.Objects[i]
		meta := &unstructured.Unstructured{Object: o.Content}
		w.Objects[o.Ref] = &Object{
			Resource: match.Resource{GroupVersionResource: o.Ref.GroupResource().WithVersion(meta.GroupVersionKind().Version), Kind: meta.GetKind()},
			Meta:     meta, Read: true,
		}
	}
}

// list adds a Binding that lists all objects, instead of the package that they are in.
func (w *World) list(b *controlv1alpha1.Binding) {
	if clauseOf(b) == nil {
		return
	}
	b = b.DeepCopy()
	of := &b.Spec.Workload
	*of = controlv1alpha1.DownsyncObjectClauses{}
	for ref, o := range w.Objects {
		if ref.Namespace == "" {
			c := controlv1alpha1.ClusterScopeDownsyncClause{}
			c.Group, c.Version, c.Resource, c.Name = ref.Group, o.Resource.Version, ref.Resource, ref.Name
			of.ClusterScope = append(of.ClusterScope, c)
			continue
		}
		c := controlv1alpha1.NamespaceScopeDownsyncClause{}
		c.Group, c.Version, c.Resource, c.Namespace, c.Name = ref.Group, o.Resource.Version, ref.Resource, ref.Namespace, ref.Name
		of.NamespaceScope = append(of.NamespaceScope, c)
	}
	w.Bindings[b.Name] = b
}

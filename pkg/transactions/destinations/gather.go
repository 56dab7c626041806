package destinations

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/core/crdcheck"
	"github.com/starlinghq/starling/pkg/core/destination"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/options"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transaction"
	corexpkg "github.com/starlinghq/starling/pkg/core/xpkg"
	"github.com/starlinghq/starling/pkg/transactions/install"
	"github.com/starlinghq/starling/pkg/transactions/live"
	"github.com/starlinghq/starling/pkg/transactions/propose"
)

var (
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	namespaces  = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
)

const definitionKind = "CustomResourceDefinition"

func refOf(name string) objref.Ref { return objref.New(definitions.GroupResource(), "", name) }

// gathered is what a decision is made by.
type gathered struct {
	input *destination.Input
	// objects are all objects of the proposal that change.
	objects []objref.Ref
	// its has what was read from each ITS.
	its      map[string]*inITS
	warnings []string
	// onRemoval are the values of the annotation starling.io/on-removal that CRDs get before they
	// are deleted, by their names.
	onRemoval map[string]string

	// deliver returns what the transport delivers of an object.
	deliver deliverFunc
	// varies: templates make objects differ between clusters.
	varies bool
}

// gather reads everything that the verdict on a proposal depends on.
func (d *Destinations) gather(ctx context.Context, tx *pkgv1alpha1.Transaction, proposal *propose.Proposal) (*gathered, error) {
	g := &gathered{onRemoval: map[string]string{}, input: &destination.Input{
		Accepted: crdcheck.Accepted(tx.Annotations[pkgv1.AnnotationAllowBreakingCRDs]), Packages: map[string]destination.Package{},
	}}
	var err error
	if g.deliver, err = d.delivery(ctx); err != nil {
		return nil, err
	}
	bindings, err := d.bindings(ctx)
	if err != nil {
		return nil, err
	}
	holds, err := d.holds(ctx)
	if err != nil {
		return nil, err
	}
	list, _ := decodeHolds(holds) // Settle corrects an invalid one
	held := heldAt(list)
	if err := d.changes(ctx, g, tx, proposal, held); err != nil {
		return nil, err
	}
	return g, d.complete(ctx, g, bindings, held)
}

// complete reads all but the changes.
func (d *Destinations) complete(ctx context.Context, g *gathered, bindings []*controlv1alpha1.Binding, held map[string]map[string]bool) error {
	if len(g.input.Changes)+len(g.objects)+len(g.input.Packages) == 0 {
		return nil
	}
	if err := d.policies(ctx, g, bindings); err != nil {
		return err
	}
	if err := d.resources(ctx, g, bindings, held); err != nil {
		return err
	}
	return d.clusters(ctx, g, held)
}

// bindings returns the Bindings that have objects of the WDS.
func (d *Destinations) bindings(ctx context.Context) ([]*controlv1alpha1.Binding, error) {
	list, err := d.control.Bindings().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list Bindings: %w", err)
	}
	all := make([]*controlv1alpha1.Binding, 0, len(list.Items))
	for i := range list.Items {
		if b := &list.Items[i]; ofObjects(b) {
			all = append(all, b)
		}
	}
	return all, nil
}

// ofObjects reports whether a Binding has objects of the WDS: those of packages have others.
func ofObjects(b *controlv1alpha1.Binding) bool {
	return b.Name != pkgv1.HoldsBinding && len(b.Spec.Workload.Packages) == 0
}

var errFound = errors.New("found")

// anyBinding reports whether bindings would return any. It does not read all of them.
func (d *Destinations) anyBinding(ctx context.Context) (bool, error) {
	const few = 10
	err := client.EachItem(ctx, d.control.Bindings().List, metav1.ListOptions{Limit: few}, func(b *controlv1alpha1.Binding) error {
		if ofObjects(b) {
			return errFound
		}
		return nil
	})
	if errors.Is(err, errFound) {
		return true, nil
	} else if err != nil {
		return false, fmt.Errorf("list Bindings: %w", err)
	}
	return false, nil
}

// heldAt returns the CRDs that clusters keep as they were, by cluster.
func heldAt(list []plan.TransactionHold) map[string]map[string]bool {
	held := map[string]map[string]bool{}
	for i := range list {
		refs, _ := list[i].Refs()
		for _, cluster := range list[i].Clusters {
			for _, ref := range refs {
				if ref.GroupResource() != definitions.GroupResource() {
					continue
				}
				if held[cluster] == nil {
					held[cluster] = map[string]bool{}
				}
				held[cluster][ref.Name] = true
			}
		}
	}
	return held
}

func isHeld(held map[string]map[string]bool, crd string) bool {
	for _, names := range held {
		if names[crd] {
			return true
		}
	}
	return false
}

// changes finds out what the proposal changes.
func (d *Destinations) changes(ctx context.Context, g *gathered, tx *pkgv1alpha1.Transaction, proposal *propose.Proposal, held map[string]map[string]bool) error {
	delivered, changed := map[string]bool{}, map[string]bool{}
	for n := range proposal.Install {
		p := &proposal.Install[n]
		if p.Inactive {
			continue
		}
		g.input.Packages[p.Locked.Source] = destination.Package{Version: p.Locked.Version, Kubernetes: p.Annotations[pkgv1.AnnotationKubernetesVersion]}
		found, err := installed(ctx, g, proposal.Definitions, p, tx)
		if err != nil {
			return err
		}
		for _, change := range found {
			name := change.After.Name
			if delivered[name] {
				continue // the check of owners has reported it
			}
			delivered[name] = true
			if change.Before == nil || !sameDefinition(&change) || isHeld(held, name) {
				g.add(&change)
				changed[name] = true
				g.objects = append(g.objects, refOf(name))
			}
		}
		for _, o := range p.Objects {
			if o.GetKind() != definitionKind {
				resource, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
				g.objects = append(g.objects, objref.New(resource.GroupResource(), "", o.GetName()))
			}
		}
	}
	if err := d.removed(ctx, g, proposal, delivered, changed); err != nil {
		return err
	}
	return d.unchanged(ctx, g, proposal, changed)
}

// installed returns the CRDs of a package, as they are and as they will be.
func installed(
	ctx context.Context, g *gathered, definitions *live.Definitions, p *install.Package, tx *pkgv1alpha1.Transaction,
) ([]destination.Change, error) {
	var changes []destination.Change
	var mutex sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	to := transaction.Target{Package: transaction.Owner{Name: p.Name}, Labels: p.Spec.CommonLabels, Annotations: p.Spec.CommonAnnotations, Transaction: transaction.OwnerOf(tx)}
	for _, o := range p.Objects {
		if o.GetKind() != definitionKind {
			continue
		}
		group.Go(func() error {
			now, before, err := definition(ctx, definitions, o.GetName())
			if err != nil {
				return err
			}
			proposed := transaction.Object(o, now, to)
			after, err := typed(proposed)
			if err != nil {
				return fmt.Errorf("decode CustomResourceDefinition %q of package %s: %w", o.GetName(), p.Name, err)
			}
			after.OwnerReferences = nil // some do not exist yet; they are not delivered
			change := destination.Change{Package: p.Locked.Source, Before: before, After: after, Gets: g.deliver(refOf(after.Name), proposed), OnRemoval: onRemoval(after.Annotations)}
			if now != nil {
				change.Had = g.deliver(refOf(before.Name), now)
			}
			mutex.Lock()
			defer mutex.Unlock()
			changes = append(changes, change)
			return nil
		})
	}
	err := group.Wait()
	slices.SortFunc(changes, func(a, b destination.Change) int { return strings.Compare(a.After.Name, b.After.Name) })
	return changes, err
}

// definition returns a CRD as it is, nil if there is none.
func definition(ctx context.Context, definitions *live.Definitions, name string) (*unstructured.Unstructured, *destination.CRD, error) {
	o, err := definitions.Object(ctx, name)
	if o == nil {
		return nil, nil, err
	}
	crd, err := definitions.Typed(ctx, name)
	return o, crd, err
}

func typed(o *unstructured.Unstructured) (*destination.CRD, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	return crd, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, crd)
}

// sameDefinition reports whether clusters notice no difference.
func sameDefinition(c *destination.Change) bool {
	return destination.Same(c.Had, c.Gets) && maps.Equal(selecting(c.Before), selecting(c.After))
}

// selecting returns the labels by which users select a CRD.
func selecting(crd *destination.CRD) map[string]string {
	labels := maps.Clone(crd.Labels)
	delete(labels, pkgv1.LabelTransaction)
	return labels
}

// removed finds the CRDs that are deleted.
func (d *Destinations) removed(ctx context.Context, g *gathered, proposal *propose.Proposal, delivered, changed map[string]bool) error {
	for _, removal := range proposal.Remove {
		if removal.Replaced {
			continue
		}
		uids := map[types.UID]bool{}
		var revisions []*pkgv1.ProviderRevision
		var names []string
		source := ""
		for _, name := range slices.Sorted(maps.Keys(proposal.Revisions)) {
			r := proposal.Revisions[name]
			if r.Name != removal.Revision && r.Labels[pkgv1.LabelPackage] != removal.Name {
				continue
			}
			uids[r.UID] = true
			revisions = append(revisions, r)
			if image, err := corexpkg.ParseReference(r.Spec.Package); err == nil {
				source = image.Source
			}
			for _, ref := range r.Status.ObjectRefs {
				if ref.Kind == definitionKind {
					names = append(names, ref.Name)
				}
			}
		}
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			if delivered[name] || changed[name] {
				continue
			}
			now, crd, err := definition(ctx, proposal.Definitions, name)
			if err != nil {
				return err
			}
			if crd == nil || !belongs(crd, uids) {
				continue
			}
			changed[name] = true
			wanted := removal.OnRemoval(now, revisions)
			if wanted != crd.Annotations[controlv1alpha1.AnnotationOnRemoval] {
				g.onRemoval[name] = wanted
			}
			requested := onRemoval(map[string]string{controlv1alpha1.AnnotationOnRemoval: wanted})
			g.add(&destination.Change{Package: source, Before: crd, Had: g.deliver(refOf(name), now), Takes: removal.AllowDeletion, OnRemoval: requested})
			g.objects = append(g.objects, refOf(name))
		}
	}
	return nil
}

// onRemoval returns what these annotations request for an object that leaves clusters: nothing if
// there is a mistake in them.
func onRemoval(annotations map[string]string) options.Requested {
	requested, _ := options.Parse(annotations)
	return requested
}

func belongs(crd *destination.CRD, revisions map[types.UID]bool) bool {
	if controller := transaction.ControllerOf(crd); controller != nil {
		return revisions[controller.UID]
	}
	return slices.ContainsFunc(crd.OwnerReferences, func(ref metav1.OwnerReference) bool { return revisions[ref.UID] })
}

// unchanged finds the CRDs of packages that do not change.
func (d *Destinations) unchanged(ctx context.Context, g *gathered, proposal *propose.Proposal, changed map[string]bool) error {
	sources := map[string]string{}
	for i := range proposal.Packages {
		r := proposal.Revisions[proposal.Packages[i].Name]
		if r == nil {
			continue
		}
		for _, ref := range r.Status.ObjectRefs {
			if ref.Kind == definitionKind && !changed[ref.Name] {
				sources[ref.Name] = proposal.Packages[i].Source
			}
		}
	}
	for n := range proposal.Install {
		for _, o := range proposal.Install[n].Objects {
			if o.GetKind() == definitionKind && !changed[o.GetName()] {
				sources[o.GetName()] = proposal.Install[n].Locked.Source
			}
		}
	}
	if len(sources) == 0 {
		return nil
	}
	return client.ReadEach(ctx, d.metadata.Resource(definitions).List, metav1.ListOptions{}, func(o *metav1.PartialObjectMetadata) {
		if source, found := sources[o.Name]; found {
			g.input.Unchanged = append(g.input.Unchanged, destination.Owned{Package: source, Name: o.Name, Labels: o.Labels})
		}
	})
}

// policies reads the policies, with what their Bindings list of what matters.
func (d *Destinations) policies(ctx context.Context, g *gathered, bindings []*controlv1alpha1.Binding) error {
	list, err := d.control.BindingPolicies().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list BindingPolicies: %w", err)
	}
	matters := map[schema.GroupResource]bool{definitions.GroupResource(): true}
	for i := range g.input.Changes {
		matters[resourceOf(&g.input.Changes[i])] = true
	}
	byName := map[string]*destination.Policy{}
	policy := func(name string) *destination.Policy {
		p := byName[name]
		if p == nil {
			p = &destination.Policy{Name: name, Objects: map[objref.Ref]bool{}, Clusters: map[string]bool{}}
			byName[name] = p
		}
		return p
	}
	for i := range list.Items {
		compiled, _ := match.Compile(&list.Items[i].Spec)
		policy(list.Items[i].Name).Compiled = compiled
	}
	for _, b := range bindings {
		p := policy(policyOf(b))
		p.OnRemoval = onRemoval(b.Annotations)
		for m := range match.Entries(&b.Spec) {
			if matters[m.Ref.GroupResource()] {
				p.Objects[m.Ref] = true
			}
		}
		for _, destination := range b.Spec.Destinations {
			p.Clusters[destination.ClusterID] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		g.input.Policies = append(g.input.Policies, *byName[name])
	}
	return nil
}

func resourceOf(c *destination.Change) schema.GroupResource {
	crd := c.After
	if crd == nil {
		crd = c.Before
	}
	return schema.GroupResource{Group: crd.Spec.Group, Resource: crd.Spec.Names.Plural}
}

// policyOf returns the name of the policy of a Binding.
func policyOf(b *controlv1alpha1.Binding) string {
	if owner := metav1.GetControllerOfNoCopy(b); owner != nil {
		return owner.Name
	}
	return b.Name
}

// resources reads the custom resources that a change could break, and no others.
func (d *Destinations) resources(ctx context.Context, g *gathered, bindings []*controlv1alpha1.Binding, held map[string]map[string]bool) error {
	versions := map[schema.GroupResource]string{} // that are delivered
	for _, b := range bindings {
		for m := range match.Entries(&b.Spec) {
			versions[m.Ref.GroupResource()] = m.Version
		}
	}
	found := make([][]*destination.Object, len(g.input.Changes))
	group, groupContext := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i := range g.input.Changes {
		group.Go(func() (err error) {
			if resource := toRead(groupContext, &g.input.Changes[i], versions, held); resource.Version != "" {
				found[i], err = d.read(groupContext, g, resource)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, object := range slices.Concat(found...) {
		g.input.Resources = append(g.input.Resources, object)
		g.varies = g.varies || object.Varies()
	}
	return client.ReadEach(ctx, d.metadata.Resource(namespaces).List, metav1.ListOptions{}, func(o *metav1.PartialObjectMetadata) {
		if g.input.Namespaces == nil {
			g.input.Namespaces = map[string]map[string]string{}
		}
		g.input.Namespaces[o.Name] = o.Labels
	})
}

// toRead returns the resource of the custom resources that a change could break; none if it cannot.
func toRead(
	ctx context.Context, c *destination.Change, versions map[schema.GroupResource]string, held map[string]map[string]bool,
) schema.GroupVersionResource {
	if c.Before == nil || c.After == nil && c.Takes || c.After != nil && maps.Equal(selecting(c.Before), selecting(c.After)) &&
		!isHeld(held, c.Before.Name) && !breaks(ctx, c) {
		return schema.GroupVersionResource{}
	}
	resource := resourceOf(c).WithVersion(versions[resourceOf(c)])
	if !serves(c.Before, resource.Version) {
		resource.Version = preferred(c.Before)
	}
	return resource
}

// breaks reports whether custom resources may violate the CRD that is delivered.
func breaks(ctx context.Context, c *destination.Change) bool {
	if c.Had.CRD == nil || c.Gets.CRD == nil {
		return true // what clusters have and get depends on them
	}
	return crdcheck.NewTransition(ctx, c.Had.CRD, c.Gets.CRD).NeedsApplied()
}

func (d *Destinations) read(ctx context.Context, g *gathered, resource schema.GroupVersionResource) ([]*destination.Object, error) {
	var found []*destination.Object
	err := client.EachItem(ctx, d.objects.Resource(resource).List, metav1.ListOptions{}, func(o *unstructured.Unstructured) error {
		found = append(found, g.deliver(objref.New(resource.GroupResource(), o.GetNamespace(), o.GetName()), o))
		return nil
	})
	if apierrors.IsNotFound(err) {
		return nil, nil // it is not established
	} else if err != nil {
		return nil, fmt.Errorf("list %s: %w", resource.GroupResource(), err)
	}
	return found, nil
}

func serves(crd *destination.CRD, name string) bool {
	return slices.ContainsFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == name && v.Served })
}

// preferred returns the version that clients prefer, "" if none is served.
func preferred(crd *destination.CRD) string {
	best := ""
	for i := range crd.Spec.Versions {
		if v := &crd.Spec.Versions[i]; v.Served && (best == "" || version.CompareKubeAwareVersionStrings(v.Name, best) > 0) {
			best = v.Name
		}
	}
	return best
}

// syncPatience is how long to wait until all ITSes have been read for the first time.
const syncPatience = 10 * time.Second

// clusters reads what is known of the clusters.
func (d *Destinations) clusters(ctx context.Context, g *gathered, held map[string]map[string]bool) error {
	list, err := d.listClusters(ctx)
	if err != nil {
		return err
	}
	if err := d.readITSes(ctx, g); err != nil {
		return err
	}
	for _, c := range list {
		name, _ := d.Clusters.Home(c.Name)
		cluster := destination.Cluster{Name: c.Name, Labels: c.Labels, Kubernetes: c.Kubernetes, Held: held[c.Name]}
		if its := g.its[name]; its != nil {
			its.addTo(&cluster, d.WDSUID)
			if g.varies {
				cluster.Properties = clusters.Properties(c.Name, c.Labels, c.Annotations, its.properties[c.Name])
			}
		}
		g.input.Clusters = append(g.input.Clusters, cluster)
	}
	return nil
}

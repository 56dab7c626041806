package foresight

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/binding"
	"github.com/starlinghq/starling/pkg/core/foresight"
	"github.com/starlinghq/starling/pkg/core/foresight/explain"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/settings"
)

// Policy reads what is known of a policy, in all clusters or in one.
func (r *Reader) Policy(ctx context.Context, name, cluster string) *explain.Policy {
	p := &explain.Policy{Name: name}
	own := r.readPolicy(ctx, p, cluster)
	reads := []func(){func() { r.readMailboxes(ctx, &p.Fleet, reading{cluster: cluster, bindings: own}) }}
	if policy := p.Selection.Value.Policy; policy != nil && r.config.Served != nil {
		reads = append(reads, func() { p.Unserved = match.Unserved(&policy.Spec, r.config.Served) })
	}
	together(reads...)
	return p
}

// readPolicy reads a policy and its Bindings, without the mailboxes. It returns the UIDs of the
// Bindings.
func (r *Reader) readPolicy(ctx context.Context, p *explain.Policy, cluster string) []types.UID {
	var found foresight.Fact[[]*controlv1alpha1.BindingPolicy]
	var names foresight.Fact[[]metav1.PartialObjectMetadata]
	var known settings.Known
	together(
		func() { known = readSettings(ctx, r.objects) },
		func() { p.Fleet = r.fleet(ctx, cluster) },
		func() { found = r.policies(ctx, p.Name) },
		func() { p.Transactions = r.transactions(ctx) },
		func() { names = r.bindingNames(ctx) },
	)
	p.Settings = known
	p.Selection.Unread = found.Unread
	if len(found.Value) == 0 {
		return nil
	}
	policy := found.Value[0]
	own := ownedBy(names.Value, policy.UID)
	p.Selection.Value = explain.Selection{Policy: policy, Bindings: foresight.Fact[[]*controlv1alpha1.Binding]{Unread: names.Unread}}
	if names.Unread == "" {
		p.Selection.Value.Bindings = r.bindings(ctx, own)
	}
	return uidsOf(own)
}

// Selected reads what is known of a policy, which objects it selects, and what is known of those
// that its Bindings list but for those that skip reports. Other policies are not read.
func (r *Reader) Selected(ctx context.Context, name string, skip func(objref.Ref) bool) (*explain.Policy, []*explain.Object) {
	p := &explain.Policy{Name: name}
	what := reading{bindings: r.readPolicy(ctx, p, "")}
	var all []*explain.Object
	var queries []ObjectQuery
	for ref, version := range p.Listed() {
		if skip(ref) {
			continue
		}
		all = append(all, &explain.Object{Ref: ref, Version: version, Policy: name})
		queries = append(queries, ObjectQuery{Resource: ref.GroupResource().WithVersion(version), Namespace: ref.Namespace, Name: ref.Name})
		what.reports = append(what.reports, ref)
	}
	var transforms foresight.Fact[[]controlv1alpha1.CustomTransform]
	together(
		func() { r.readContent(ctx, all, queries) },
		func() { transforms = r.customTransforms(ctx) },
		func() { what.wds = r.identity(ctx) },
		func() { p.Unlisted = r.unlisted(ctx, p) },
	)
	for _, o := range all {
		what.properties = what.properties || hasTemplates(o)
	}
	r.readMailboxes(ctx, &p.Fleet, what)
	listing := map[objref.Ref][]*controlv1alpha1.Binding{} // few of many Bindings list an object
	for _, b := range p.Selection.Value.Bindings.Value {
		for ref := range binding.Refs(&b.Spec) {
			listing[ref] = append(listing[ref], b)
		}
	}
	for _, o := range all {
		o.Fleet, o.Transactions, o.CustomTransforms = p.Fleet, p.Transactions, transformsOf(transforms, o.Ref)
		o.Policies.Value = []explain.Selection{{Policy: p.Selection.Value.Policy, Bindings: foresight.Known(listing[o.Ref])}}
	}
	return p, all
}

// unlisted returns the objects that a policy selects while its Bindings do not list them. Neither
// the policy nor a condition changes when an object comes or gets a label. Of resources that the
// user may not list, it knows none.
func (r *Reader) unlisted(ctx context.Context, p *explain.Policy) foresight.Fact[[]objref.Ref] {
	policy := p.Selection.Value.Policy
	if policy == nil || p.Selection.Value.Bindings.Unread != "" {
		return foresight.Known[[]objref.Ref](nil)
	}
	compiled, invalid := match.Compile(&policy.Spec)
	if len(invalid) > 0 { // then it selects what is listed
		return foresight.Known[[]objref.Ref](nil)
	}
	resources, unread := r.workload(compiled)
	known := &p.Settings.Bindings
	resources = slices.DeleteFunc(resources, func(in match.Resource) bool { return !known.Selectable(in.GroupResource()) })
	found := r.unlistedOf(ctx, &policy.Spec, compiled, resources, p.Listed(), known.IncludeGenerated)
	found.Unread = cmp.Or(unread, found.Unread)
	return found
}

// workload returns the resources whose objects a policy may select, as far as the WDS lists them.
// That an API group cannot be read counts if the policy names it.
func (r *Reader) workload(compiled *match.Policy) (resources []match.Resource, unread string) {
	api, err := discovery.NewDiscoveryClientForConfig(quick(r.config.WDS))
	if err != nil {
		return nil, err.Error()
	}
	lists, err := api.ServerPreferredResources()
	if failed, is := errors.AsType[*discovery.ErrGroupDiscoveryFailed](err); is {
		err = nil
		for gv, why := range failed.Groups {
			if compiled.NamesGroup(gv.Group) && !match.NeverResource(schema.GroupResource{Group: gv.Group}) {
				unread = r.unreadInWDS("read", "API group "+gv.Group, why)
			}
		}
	}
	if err != nil {
		return nil, r.unreadInWDS("read", "the API", err)
	}
	return slices.DeleteFunc(Workload(lists), func(in match.Resource) bool { return !compiled.Reaches(in.GroupResource()) }), unread
}

// unlistedOf is unlisted for these resources. It lists the metadata of objects: for each clause
// those that pass its label selector, since most of many objects do not. generated is whether
// generated objects may be workload.
func (r *Reader) unlistedOf(
	ctx context.Context, spec *controlv1alpha1.BindingPolicySpec, compiled *match.Policy, resources []match.Resource, listed map[objref.Ref]string, generated bool,
) foresight.Fact[[]objref.Ref] {
	inNamespaces, unread := r.allNamespaceLabels(ctx, spec)
	var mu sync.Mutex
	found := map[objref.Ref]bool{}
	var group errgroup.Group
	group.SetLimit(parallel)
	for in, options := range listsOf(spec, resources) {
		group.Go(func() error {
			list, err := r.metadata.Resource(in.GroupVersionResource).List(ctx, options)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err), apierrors.IsForbidden(err): // it is gone meanwhile, or hidden
				return nil
			case err != nil:
				unread = r.unreadInWDS("list", in.GroupResource().String(), err)
				return nil
			}
			for i := range list.Items {
				o := &list.Items[i]
				ref := objref.New(in.GroupResource(), o.Namespace, o.Name)
				of, known := inNamespaces[o.Namespace]
				candidate := &match.Candidate{
					GroupResource: in.GroupResource(), Namespace: o.Namespace, Name: o.Name, Labels: o.Labels, NamespaceLabels: of, NamespaceKnown: known,
				}
				_, lists := listed[ref]
				if !lists && o.DeletionTimestamp == nil && !match.NeverObject(ref.GroupResource(), o) &&
					(generated || !match.Generated(ref.GroupResource(), o)) &&
					compiled.Modulation(candidate) != nil {
					found[ref] = true
				}
			}
			return nil
		})
	}
	_ = group.Wait() // no function returns an error
	return foresight.Fact[[]objref.Ref]{Value: slices.SortedFunc(maps.Keys(found), objref.Compare), Unread: unread}
}

// listsOf returns the lists that have all objects which clauses select, each once.
func listsOf(spec *controlv1alpha1.BindingPolicySpec, resources []match.Resource) iter.Seq2[match.Resource, metav1.ListOptions] {
	return func(yield func(match.Resource, metav1.ListOptions) bool) {
		for _, in := range resources {
			selectors := map[string]bool{}
			for i := range spec.Downsync {
				one := *spec
				one.Downsync = spec.Downsync[i : i+1]
				if clause, _ := match.Compile(&one); clause == nil || !clause.Reaches(in.GroupResource()) {
					continue
				}
				selector := labels.Everything()
				if of := one.Downsync[0].ObjectSelectors; len(of) == 1 {
					selector, _ = metav1.LabelSelectorAsSelector(&of[0]) // the clause is valid
				}
				selectors[selector.String()] = true
			}
			if selectors[""] {
				selectors = map[string]bool{"": true} // it has the others
			}
			for selector := range selectors {
				if !yield(in, metav1.ListOptions{LabelSelector: selector}) {
					return
				}
			}
		}
	}
}

// allNamespaceLabels reads the labels of all Namespaces, if a clause selects by them.
func (r *Reader) allNamespaceLabels(ctx context.Context, spec *controlv1alpha1.BindingPolicySpec) (found map[string]map[string]string, unread string) {
	found = map[string]map[string]string{}
	if !slices.ContainsFunc(spec.Downsync, func(c controlv1alpha1.DownsyncPolicyClause) bool { return len(c.NamespaceSelectors) > 0 }) {
		return found, ""
	}
	list, err := r.metadata.Resource(namespaces).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, r.unreadInWDS("list", "namespaces", err)
	}
	for i := range list.Items {
		found[list.Items[i].Name] = list.Items[i].Labels
	}
	return found, ""
}

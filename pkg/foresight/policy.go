package foresight

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	"github.com/starlinghq/starling/pkg/core/binding"
	"github.com/starlinghq/starling/pkg/core/foresight"
	"github.com/starlinghq/starling/pkg/core/foresight/explain"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
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
	together(
		func() { p.Fleet = r.fleet(ctx, cluster) },
		func() { found = r.policies(ctx, p.Name) },
		func() { p.Holds = r.binding(ctx, pkgv1.HoldsBinding) },
		func() { names = r.bindingNames(ctx) },
	)
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

// Selected reads what is known of a policy, and of the objects that its Bindings list but for those
// that skip reports. Other policies are not read.
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
		o.Fleet, o.Holds, o.CustomTransforms = p.Fleet, p.Holds, transformsOf(transforms, o.Ref)
		o.Policies.Value = []explain.Selection{{Policy: p.Selection.Value.Policy, Bindings: foresight.Known(listing[o.Ref])}}
	}
	return p, all
}

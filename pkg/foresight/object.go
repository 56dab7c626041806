package foresight

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/core/binding"
	"github.com/starlinghq/starling/pkg/core/customtransform"
	"github.com/starlinghq/starling/pkg/core/foresight"
	"github.com/starlinghq/starling/pkg/core/foresight/explain"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/settings"
	"github.com/starlinghq/starling/pkg/core/transaction"
	"github.com/starlinghq/starling/pkg/works"
)

// Names of resources in texts.
const (
	policies = "bindingpolicies"
	bindings = "bindings.control.kubestellar.io"
)

var namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// ObjectQuery says of which object facts are read.
type ObjectQuery struct {
	// Resource is the resource of the object, in the version in which it is read.
	Resource        schema.GroupVersionResource
	Namespace, Name string
	// Policy is the only policy that counts, "" for all. Cluster is the only cluster.
	Policy, Cluster string
}

// Object reads what is known of an object.
func (r *Reader) Object(ctx context.Context, q ObjectQuery) *explain.Object {
	return r.Objects(ctx, []ObjectQuery{q})[0]
}

// Objects reads what is known of several objects, which have the same Policy and Cluster.
func (r *Reader) Objects(ctx context.Context, queries []ObjectQuery) []*explain.Object {
	policy, cluster := queries[0].Policy, queries[0].Cluster
	all := make([]*explain.Object, len(queries))
	what := reading{cluster: cluster}
	for i, q := range queries {
		all[i] = &explain.Object{Ref: objref.New(q.Resource.GroupResource(), q.Namespace, q.Name), Version: q.Resource.Version, Policy: policy}
		what.reports = append(what.reports, all[i].Ref)
	}
	var fleet explain.Fleet
	var known settings.Known
	var found foresight.Fact[[]*controlv1alpha1.BindingPolicy]
	var names foresight.Fact[[]metav1.PartialObjectMetadata]
	var held explain.Transactions
	var transforms foresight.Fact[[]controlv1alpha1.CustomTransform]
	together(
		func() { fleet = r.fleet(ctx, cluster) },
		func() { known = readSettings(ctx, r.objects) },
		func() { r.readContent(ctx, all, queries) },
		func() { found = r.policies(ctx, policy) },
		func() { names = r.bindingNames(ctx) },
		func() { held = r.transactions(ctx) },
		func() { transforms = r.customTransforms(ctx) },
		func() { what.wds = r.identity(ctx) },
	)
	fleet.Settings = known
	selections := make([]explain.Selection, len(found.Value))
	var reads []func()
	for i, one := range found.Value {
		selections[i] = explain.Selection{Policy: one, Bindings: foresight.Fact[[]*controlv1alpha1.Binding]{Unread: names.Unread}}
		if !slices.ContainsFunc(all, func(o *explain.Object) bool { return mayCarry(o, one) }) {
			continue
		}
		own := ownedBy(names.Value, one.UID)
		what.bindings = append(what.bindings, uidsOf(own)...)
		if names.Unread == "" {
			reads = append(reads, func() { selections[i].Bindings = r.bindings(ctx, own) })
		}
	}
	var loose []*controlv1alpha1.Binding
	if policy == "" {
		of := looseOf(names.Value)
		what.bindings = append(what.bindings, uidsOf(of)...)
		reads = append(reads, func() { loose = r.bindings(ctx, of).Value })
	}
	var packages []metav1.PartialObjectMetadata
	has := map[objref.Ref][]types.UID{}
	unread := ""
	if absent := absentOf(all); policy == "" && len(absent) > 0 {
		packages = ofPackages(names.Value)
		has, unread = r.inPackages(ctx, cluster, absent, uidsOf(packages))
		unread = cmp.Or(names.Unread, unread)
		packages = slices.DeleteFunc(packages, func(m metav1.PartialObjectMetadata) bool {
			return !slices.ContainsFunc(slices.Collect(maps.Values(has)), func(uids []types.UID) bool { return slices.Contains(uids, m.UID) })
		})
		what.bindings = append(what.bindings, uidsOf(packages)...)
	}
	var deliver foresight.Fact[[]*controlv1alpha1.Binding]
	reads = append(reads, func() { deliver = r.bindings(ctx, packages) })
	what.properties = slices.ContainsFunc(all, hasTemplates)
	together(append(reads, func() { r.readMailboxes(ctx, &fleet, what) })...)
	for i, o := range all {
		if version := listedVersion(o.Ref, selections, loose); version != "" && version != o.Version && o.Live.Value != nil {
			queries[i].Resource.Version = version // content is compared as it is delivered
			o.Version, o.Live = version, r.live(ctx, queries[i])
		}
		o.Fleet, o.Transactions, o.CustomTransforms = fleet, held, transformsOf(transforms, o.Ref)
		o.Policies = foresight.Fact[[]explain.Selection]{Value: selections, Unread: found.Unread}
		for _, b := range loose {
			if _, lists := binding.Refs(&b.Spec)[o.Ref]; lists {
				o.Loose = append(o.Loose, b)
			}
		}
		o.Packages.Unread = cmp.Or(unread, deliver.Unread)
		for _, b := range deliver.Value {
			if slices.Contains(has[o.Ref], b.UID) {
				o.Packages.Value = append(o.Packages.Value, b)
			}
		}
	}
	return all
}

// absentOf returns the objects that do not exist in the WDS.
func absentOf(all []*explain.Object) map[objref.Ref]bool {
	absent := map[objref.Ref]bool{}
	for _, o := range all {
		if o.Live.Unread == "" && o.Live.Value == nil {
			absent[o.Ref] = true
		}
	}
	return absent
}

// inPackages returns which of these Bindings of packages have works with which objects. The content
// of packages is not in the WDS in a form that can be searched, so all works are read.
func (r *Reader) inPackages(ctx context.Context, cluster string, absent map[objref.Ref]bool, packages []types.UID) (has map[objref.Ref][]types.UID, unread string) {
	has = map[objref.Ref][]types.UID{}
	if len(packages) == 0 {
		return has, ""
	}
	if len(r.itses) == 0 {
		return has, "works are read in no ITS: see --its-context"
	}
	of := map[types.UID]bool{}
	for _, uid := range packages {
		of[uid] = true
	}
	for _, its := range r.itses {
		problem := its.eachWork(ctx, cluster, metav1.ListOptions{}, func(w *workv1.ManifestWork) {
			if !of[types.UID(w.Labels[controlv1alpha1.LabelBindingUID])] || w.DeletionTimestamp != nil {
				return // most are: only works of packages are parsed
			}
			read := works.Read(w, r.texts)
			for i := range read.Items {
				if item := &read.Items[i]; absent[item.Ref] && !item.Observe && !item.Withdrawn && !slices.Contains(has[item.Ref], read.BindingUID) {
					has[item.Ref] = append(has[item.Ref], read.BindingUID)
				}
			}
		})
		unread = cmp.Or(unread, problem)
	}
	return has, unread
}

// ofPackages returns the Bindings of packages.
func ofPackages(all []metav1.PartialObjectMetadata) []metav1.PartialObjectMetadata {
	return slices.DeleteFunc(slices.Clone(all), func(m metav1.PartialObjectMetadata) bool {
		return m.Labels[controlv1alpha1.LabelPackageRepository] == ""
	})
}

// listedVersion returns the version of the API in which Bindings list an object, "" if none does.
func listedVersion(ref objref.Ref, selections []explain.Selection, loose []*controlv1alpha1.Binding) string {
	bindings := slices.Clone(loose)
	for i := range selections {
		bindings = append(bindings, selections[i].Bindings.Value...)
	}
	for _, b := range bindings {
		for entry := range match.Entries(&b.Spec) {
			if entry.Ref == ref {
				return entry.Version
			}
		}
	}
	return ""
}

func hasTemplates(o *explain.Object) bool {
	return o.Live.Value != nil && o.Live.Value.GetAnnotations()[controlv1alpha1.AnnotationExpandTemplates] == "true"
}

// readContent reads objects and the labels of their Namespaces.
func (r *Reader) readContent(ctx context.Context, all []*explain.Object, queries []ObjectQuery) {
	labels := map[string]foresight.Fact[map[string]string]{}
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(parallel)
	for _, q := range queries {
		if _, begun := labels[q.Namespace]; begun {
			continue
		}
		labels[q.Namespace] = foresight.Fact[map[string]string]{}
	}
	for _, namespace := range slices.Collect(maps.Keys(labels)) {
		group.Go(func() error {
			found := r.namespaceLabels(ctx, namespace)
			mu.Lock()
			defer mu.Unlock()
			labels[namespace] = found
			return nil
		})
	}
	for i, q := range queries {
		group.Go(func() error {
			all[i].Live = r.live(ctx, q)
			return nil
		})
	}
	_ = group.Wait() // no function returns an error
	for i, q := range queries {
		all[i].Namespace = labels[q.Namespace]
	}
}

// mayCarry reports whether the Bindings of a policy could list the object: it selects it, or its
// Bindings do not follow it.
func mayCarry(o *explain.Object, policy *controlv1alpha1.BindingPolicy) bool {
	synced := meta.IsStatusConditionTrue(policy.Status.Conditions, controlv1alpha1.BindingPolicyConditionSynced)
	compiled, _ := match.Compile(&policy.Spec)
	return compiled == nil || o.Live.Value == nil || !synced || policy.Status.ObservedGeneration != policy.Generation ||
		compiled.Modulation(o.Candidate()) != nil
}

func (r *Reader) live(ctx context.Context, q ObjectQuery) foresight.Fact[*unstructured.Unstructured] {
	live, err := r.objects.Resource(q.Resource).Namespace(q.Namespace).Get(ctx, q.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return foresight.Known[*unstructured.Unstructured](nil)
	case err != nil:
		return foresight.Unread[*unstructured.Unstructured](r.unreadInWDS("get", q.Resource.GroupResource().String(), err))
	}
	return foresight.Known(live)
}

func (r *Reader) namespaceLabels(ctx context.Context, name string) foresight.Fact[map[string]string] {
	if name == "" {
		return foresight.Known[map[string]string](nil)
	}
	namespace, err := r.metadata.Resource(namespaces).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return foresight.Known[map[string]string](nil)
	case err != nil:
		return foresight.Unread[map[string]string](r.unreadInWDS("get", "namespaces", err))
	case namespace.Labels == nil:
		return foresight.Known(map[string]string{})
	}
	return foresight.Known(namespace.Labels)
}

// identity returns the UID of the WDS, "" if it cannot be read.
func (r *Reader) identity(ctx context.Context) types.UID {
	system, err := r.metadata.Resource(namespaces).Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	return system.UID
}

// policies reads all policies, or the one that is named.
func (r *Reader) policies(ctx context.Context, name string) foresight.Fact[[]*controlv1alpha1.BindingPolicy] {
	if name != "" {
		policy, err := r.wds.BindingPolicies().Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return foresight.Known[[]*controlv1alpha1.BindingPolicy](nil)
		case err != nil:
			return foresight.Unread[[]*controlv1alpha1.BindingPolicy](r.unreadInWDS("get", policies, err))
		}
		return foresight.Known([]*controlv1alpha1.BindingPolicy{policy})
	}
	var found []*controlv1alpha1.BindingPolicy
	err := client.EachItem(ctx, r.wds.BindingPolicies().List, metav1.ListOptions{}, func(policy *controlv1alpha1.BindingPolicy) error {
		found = append(found, policy)
		return nil
	})
	if err != nil {
		return foresight.Unread[[]*controlv1alpha1.BindingPolicy](r.unreadInWDS("list", policies, err))
	}
	return foresight.Known(found)
}

// bindingNames reads the metadata of all Bindings that may deliver anything: they may be large, and
// few of them matter.
func (r *Reader) bindingNames(ctx context.Context) foresight.Fact[[]metav1.PartialObjectMetadata] {
	var found []metav1.PartialObjectMetadata
	err := client.ReadEach(ctx, r.metadata.Resource(controlv1alpha1.Bindings).List, metav1.ListOptions{}, func(m *metav1.PartialObjectMetadata) {
		if m.Name != pkgv1.HoldsBinding {
			found = append(found, *m)
		}
	})
	if err != nil {
		return foresight.Unread[[]metav1.PartialObjectMetadata](r.unreadInWDS("list", bindings, err))
	}
	return foresight.Known(found)
}

// ownedBy returns the Bindings that a policy owns, that of its name first.
func ownedBy(all []metav1.PartialObjectMetadata, policy types.UID) []metav1.PartialObjectMetadata {
	var own []metav1.PartialObjectMetadata
	for i := range all {
		if owner := metav1.GetControllerOfNoCopy(&all[i]); owner != nil && owner.UID == policy {
			own = append(own, all[i])
		}
	}
	slices.SortFunc(own, func(a, b metav1.PartialObjectMetadata) int {
		if d := len(a.Name) - len(b.Name); d != 0 {
			return d
		}
		return strings.Compare(a.Name, b.Name)
	})
	return own
}

// looseOf returns the Bindings that neither a policy nor a package owns: users may write them.
func looseOf(all []metav1.PartialObjectMetadata) []metav1.PartialObjectMetadata {
	var loose []metav1.PartialObjectMetadata
	for i := range all {
		if metav1.GetControllerOfNoCopy(&all[i]) == nil && all[i].Labels[controlv1alpha1.LabelPackageRepository] == "" {
			loose = append(loose, all[i])
		}
	}
	return loose
}

func uidsOf(all []metav1.PartialObjectMetadata) []types.UID {
	uids := make([]types.UID, len(all))
	for i := range all {
		uids[i] = all[i].UID
	}
	return uids
}

// binding reads a Binding, nil if it does not exist.
func (r *Reader) binding(ctx context.Context, name string) foresight.Fact[*controlv1alpha1.Binding] {
	b, err := r.wds.Bindings().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return foresight.Known[*controlv1alpha1.Binding](nil)
	case err != nil:
		return foresight.Unread[*controlv1alpha1.Binding](r.unreadInWDS("get", bindings, err))
	}
	return foresight.Known(b)
}

// transactions reads what Transactions hold, and if there is something, which of them runs.
func (r *Reader) transactions(ctx context.Context) (t explain.Transactions) {
	t.Holds = r.binding(ctx, pkgv1.HoldsBinding)
	if t.Holds.Value == nil || t.Holds.Value.Annotations[pkgv1.AnnotationHeldObjects] == "" {
		return t
	}
	t.Running.Value, t.Running.Unread = r.running(ctx)
	return t
}

// running returns the Transaction that is being carried out, the zero Holder if there is none: the
// Lock names one that does not exist any more, if its holder was deleted by force.
func (r *Reader) running(ctx context.Context) (by plan.Holder, unread string) {
	lock, tx := &pkgv1beta1.Lock{}, &pkgv1alpha1.Transaction{}
	if found, unread := r.get(ctx, pkgv1beta1.Locks, pkgv1beta1.LockName, lock); !found {
		return by, unread
	}
	if transaction.Holder(lock) == "" {
		return by, ""
	}
	if found, unread := r.get(ctx, pkgv1alpha1.Transactions, transaction.Holder(lock), tx); !found {
		return by, unread
	}
	if transaction.Abandoned(lock, tx) || transaction.Paused(tx) {
		return by, ""
	}
	return plan.Holder{Transaction: tx.Name, UID: tx.UID}, ""
}

// get reads a cluster-scoped object of the WDS.
func (r *Reader) get(ctx context.Context, resource schema.GroupVersionResource, name string, into any) (found bool, unread string) {
	o, err := r.objects.Resource(resource).Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, into)
	}
	if apierrors.IsNotFound(err) {
		return false, ""
	} else if err != nil {
		return false, r.unreadInWDS("get", resource.GroupResource().String(), err)
	}
	return true, ""
}

// bindings reads these Bindings. One that is gone meanwhile is missing.
func (r *Reader) bindings(ctx context.Context, names []metav1.PartialObjectMetadata) foresight.Fact[[]*controlv1alpha1.Binding] {
	found := make([]*controlv1alpha1.Binding, len(names))
	errs := make([]error, len(names))
	reads := make([]func(), len(names))
	for i := range names {
		reads[i] = func() { found[i], errs[i] = r.wds.Bindings().Get(ctx, names[i].Name, metav1.GetOptions{}) }
	}
	together(reads...)
	var all []*controlv1alpha1.Binding
	for i, err := range errs {
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return foresight.Unread[[]*controlv1alpha1.Binding](r.unreadInWDS("get", bindings, err))
		default:
			all = append(all, found[i])
		}
	}
	return foresight.Known(all)
}

// customTransforms reads all of them.
func (r *Reader) customTransforms(ctx context.Context) foresight.Fact[[]controlv1alpha1.CustomTransform] {
	list, err := r.wds.CustomTransforms().List(ctx, metav1.ListOptions{})
	if err != nil {
		return foresight.Unread[[]controlv1alpha1.CustomTransform](r.unreadInWDS("list", controlv1alpha1.CustomTransforms.Resource, err))
	}
	return foresight.Known(list.Items)
}

// transformsOf returns those of the resource of an object.
func transformsOf(all foresight.Fact[[]controlv1alpha1.CustomTransform], ref objref.Ref) foresight.Fact[[]*controlv1alpha1.CustomTransform] {
	of := foresight.Fact[[]*controlv1alpha1.CustomTransform]{Unread: all.Unread}
	for i := range all.Value {
		if customtransform.GroupResource(&all.Value[i].Spec) == ref.GroupResource() {
			of.Value = append(of.Value, &all.Value[i])
		}
	}
	return of
}

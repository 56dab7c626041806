package destinations

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/pkg/core/destination"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/transactions"
	"github.com/starlinghq/starling/pkg/transactions/propose"
)

// Settle removes the holds of Transactions that do not need them any more, and of clusters where
// nothing would break any more. Again is when to call it again, zero if there is nothing left. It
// may be called at any time.
//
// runs reports whether a Transaction runs, and succeeded whether it has ended with success. half
// returns the objects that are between two states: it is called once at most, if a Transaction that
// did not succeed has left a hold.
func (d *Destinations) Settle(
	ctx context.Context, runs, succeeded func(plan.Holder) bool, half func(context.Context) (map[objref.Ref]bool, error),
) (again time.Duration, err error) {
	holds, err := d.holds(ctx)
	if err != nil || holds == nil {
		return 0, err
	}
	list, _ := decodeHolds(holds)
	whole, err := d.whole(ctx, list, runs, succeeded, half)
	if err != nil {
		return 0, err
	}
	var r *revised
	var unknown error // what other clusters wait for does not wait for an ITS that does not answer
	if held := heldAt(list); len(held) > 0 {
		if r, unknown = d.revise(ctx, held); unknown != nil {
			r = nil
		}
	}
	released := map[string]string{} // the Transaction, by cluster
	err = d.hold(ctx, func(list []plan.TransactionHold) []plan.TransactionHold {
		var after []plan.TransactionHold
		clear(released)
		again = 0
		for _, h := range list {
			switch {
			case runs(h.Holder):
			case !h.Lasts() && whole[h.Holder]:
				continue
			case !h.Lasts():
				again = d.Recheck
			case r != nil:
				h.Clusters = slices.DeleteFunc(slices.Clone(h.Clusters), func(cluster string) bool {
					if !r.failing[cluster] {
						released[cluster] = h.Transaction
					}
					return !r.failing[cluster]
				})
				if len(h.Clusters) == 0 {
					continue
				}
				again = d.Recheck
			}
			after = append(after, h)
		}
		return after
	})
	if err != nil {
		return 0, err
	}
	for cluster, transaction := range released {
		if err := d.writeReleased(ctx, r, cluster, transaction); err != nil {
			return 0, err
		}
	}
	return again, unknown
}

// whole returns the Transactions that do not run and have left nothing half.
func (d *Destinations) whole(
	ctx context.Context, list []plan.TransactionHold, runs, succeeded func(plan.Holder) bool, half func(context.Context) (map[objref.Ref]bool, error),
) (map[plan.Holder]bool, error) {
	whole := map[plan.Holder]bool{}
	left := sync.OnceValues(func() (map[objref.Ref]bool, error) { return half(ctx) })
	for i := range list {
		h := &list[i]
		if h.Lasts() || runs(h.Holder) {
			continue
		}
		if succeeded(h.Holder) {
			whole[h.Holder] = true
			continue
		}
		of, err := left()
		if err != nil {
			return nil, err
		}
		refs, _ := h.Refs() // without one that can be read there is nothing to hold
		whole[h.Holder] = !slices.ContainsFunc(refs, func(ref objref.Ref) bool { return of[ref] })
	}
	return whole, nil
}

// revised is what is known now of clusters that keep what they have.
type revised struct {
	*gathered
	result *destination.Result
	// packages are those that are installed.
	packages []pkgv1beta1.LockPackage
	// failing are the clusters that would break if they got what they do not have yet.
	failing map[string]bool
}

// revise validates clusters that keep what they have again.
func (d *Destinations) revise(ctx context.Context, held map[string]map[string]bool) (*revised, error) {
	bindings, err := d.bindings(ctx)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, crds := range held {
		maps.Copy(names, crds)
	}
	r := &revised{gathered: &gathered{input: &destination.Input{}}, failing: map[string]bool{}}
	if r.deliver, err = d.delivery(ctx); err != nil {
		return nil, err
	}
	installed, err := d.installedNow(ctx)
	if err != nil {
		return nil, err
	}
	r.packages = installed.Packages
	owners := map[string]*pkgv1beta1.LockPackage{}
	for i := range installed.Packages {
		for _, ref := range objectsOf(installed, installed.Packages[i].Name) {
			owners[ref] = &installed.Packages[i]
		}
	}
	r.input.Packages = map[string]destination.Package{}
	known := d.live.Definitions()
	for _, name := range slices.Sorted(maps.Keys(names)) {
		now, crd, err := definition(ctx, known, name)
		if err != nil {
			return nil, err
		}
		if crd == nil { // the mailboxes keep it as long as something there needs it
			delete(names, name)
			continue
		}
		delivered := r.deliver(refOf(name), now)
		change := destination.Change{Before: crd, After: crd, Had: delivered, Gets: delivered}
		if owner := owners[name]; owner != nil {
			change.Package = owner.Source
			r.input.Packages[owner.Source] = destination.Package{
				Version: owner.Version, Kubernetes: installed.Revisions[owner.Name].Annotations[pkgv1.AnnotationKubernetesVersion],
			}
		}
		r.add(&change)
		r.objects = append(r.objects, refOf(name))
	}
	if err := d.unchanged(ctx, r.gathered, installed, names); err != nil {
		return nil, err
	}
	if err := d.complete(ctx, r.gathered, bindings, held); err != nil {
		return nil, err
	}
	if r.result, err = destination.Evaluate(ctx, r.input); err != nil {
		return nil, err
	}
	for _, cluster := range r.result.Failing() {
		r.failing[cluster] = true
	}
	return r, nil
}

func objectsOf(installed *propose.Proposal, revision string) []string {
	var names []string
	if r := installed.Revisions[revision]; r != nil {
		for _, ref := range r.Status.ObjectRefs {
			if ref.Kind == definitionKind {
				names = append(names, ref.Name)
			}
		}
	}
	return names
}

// installedNow returns what is installed in the space, as a proposal that changes nothing.
func (d *Destinations) installedNow(ctx context.Context) (*propose.Proposal, error) {
	installed := &propose.Proposal{Revisions: map[string]*pkgv1.ProviderRevision{}}
	lock, err := d.packages.Locks().Get(ctx, pkgv1beta1.LockName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return installed, nil
	case err != nil:
		return nil, fmt.Errorf("get Lock %q: %w", pkgv1beta1.LockName, err)
	}
	installed.Packages = lock.Packages
	for _, kind := range transactions.Kinds {
		list, err := d.packages.Revisions(kind).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", kind.Revisions.Resource, err)
		}
		for i := range list.Items {
			installed.Revisions[list.Items[i].Name] = &list.Items[i]
		}
	}
	return installed, nil
}

// writeReleased records in the Lock of a cluster that it has what it did not have before. If the
// Lock changed meanwhile, Record corrects it.
func (d *Destinations) writeReleased(ctx context.Context, r *revised, cluster, transaction string) error {
	name, _ := d.Clusters.Home(cluster)
	its := r.its[name]
	i := slices.IndexFunc(r.result.Destinations, func(c destination.Destination) bool { return c.Cluster == cluster })
	if its == nil || its.withoutLocks || i < 0 {
		return nil
	}
	err := d.writeLock(ctx, its, its.locks[cluster], &r.result.Destinations[i], d.WDSName+"/"+transaction, r.packages)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

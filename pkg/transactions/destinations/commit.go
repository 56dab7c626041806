package destinations

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/pkg/core/destination"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/writer"
)

// rounds is how often a cluster is validated again because another space changed its Lock.
const rounds = 3

// Commit records in the Lock of each cluster which packages of this space it has: one write for
// each cluster where that changes. A cluster whose Lock changed since the validation is validated
// again. If it fails then, the cluster keeps what it has, and the error says why.
func (d *Destinations) Commit(ctx context.Context, tx *pkgv1alpha1.Transaction) error {
	v, err := d.of(tx)
	if err != nil {
		return err
	}
	defer d.remember(nil) // what was validated needs memory, and each try validates
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i := range v.result.Destinations {
		group.Go(func() error { return d.commit(ctx, tx, v, &v.result.Destinations[i]) })
	}
	return group.Wait()
}

func (d *Destinations) commit(ctx context.Context, tx *pkgv1alpha1.Transaction, v *validated, c *destination.Destination) error {
	name, _ := d.Clusters.Home(c.Cluster)
	its := v.its[name]
	if its == nil || its.withoutLocks || c.Fails() {
		return nil
	}
	lock := its.locks[c.Cluster]
	for round := 0; ; round++ {
		err := d.writeLock(ctx, its, lock, c, d.WDSName+"/"+tx.Name, v.packages)
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
			return its.failed(ctx, err)
		}
		if round == rounds {
			return fmt.Errorf("the Lock of cluster %q changed %d times while it was validated", c.Cluster, rounds)
		}
		if lock, err = d.again(ctx, tx, v, c, its); err != nil {
			return err
		}
		if c.Fails() {
			return nil
		}
	}
}

// again validates one cluster again, and returns its Lock.
func (d *Destinations) again(ctx context.Context, tx *pkgv1alpha1.Transaction, v *validated, c *destination.Destination, its *inITS) (*pkgv1beta1.Lock, error) {
	now := newInITS(its.name, its.ITS)
	if err := now.read(ctx, d.WDSUID, v.input, c.Cluster); err != nil {
		return nil, now.failed(ctx, err)
	}
	alone := *v.input
	i := slices.IndexFunc(v.input.Clusters, func(cluster destination.Cluster) bool { return cluster.Name == c.Cluster })
	cluster := v.input.Clusters[i]
	now.addTo(&cluster, d.WDSUID)
	alone.Clusters = []destination.Cluster{cluster}
	result, err := destination.Evaluate(ctx, &alone)
	if err != nil {
		return nil, err
	}
	validations.WithLabelValues("validations").Add(float64(result.Situations))
	if len(result.Destinations) == 0 {
		return now.locks[c.Cluster], nil
	}
	c.Findings = result.Destinations[0].Findings
	failure := result.Failure()
	if failure == nil {
		return now.locks[c.Cluster], nil
	}
	if err := d.keep(ctx, plan.Holder{Transaction: tx.Name, UID: tx.UID}, c); err != nil || v.continues {
		return nil, err
	}
	return nil, failure
}

// keep lets a cluster keep what it has.
func (d *Destinations) keep(ctx context.Context, by plan.Holder, c *destination.Destination) error {
	h := plan.NewTransactionHold(by, c.Changed, []string{c.Cluster})
	return d.hold(ctx, func(list []plan.TransactionHold) []plan.TransactionHold { return append(list, h) })
}

// writeLock writes the Lock of a cluster, if it changes. The transaction has the name of the WDS;
// "" if none changed the cluster.
func (d *Destinations) writeLock(ctx context.Context, its *inITS, lock *pkgv1beta1.Lock, c *destination.Destination, tx string, packages []pkgv1beta1.LockPackage) error {
	var there []pkgv1beta1.LockPackage
	for _, p := range packages {
		if slices.Contains(c.Packages, p.Source) {
			there = append(there, p)
		}
	}
	after := destination.Commit(lock, c.Cluster, d.WDSUID, tx, there)
	if after == nil {
		return nil
	}
	target := writer.Target{Resource: pkgv1beta1.Locks, Name: c.Cluster}
	var err error
	if lock == nil {
		after.ObjectMeta = metav1.ObjectMeta{Name: after.Name, Annotations: after.Annotations}
		_, err = its.writer.Create(ctx, target, after, "commit")
	} else {
		_, err = its.writer.Update(ctx, target, after, "commit")
	}
	return err
}

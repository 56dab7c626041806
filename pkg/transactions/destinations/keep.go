package destinations

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	workv1 "open-cluster-management.io/api/work/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/core/destination"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/core/transaction"
	readworks "github.com/starlinghq/starling/pkg/works"
	"github.com/starlinghq/starling/pkg/writer"
)

// Keep ensures that clusters keep the CRDs that stay there when their package is removed. It blocks
// until the mailboxes say so, before anything is held or deleted. From then on the transport
// removes a CRD from a mailbox when the cluster has reported that it keeps it. That also holds
// after a restart, when the transport cannot read any more what a deleted object has asked for. The
// transport that has written that for one cluster writes it for all, also for those that get the
// CRD now, and for what is held. If it does not in time, the error is a *transaction.FailedError.
func (d *Destinations) Keep(ctx context.Context, tx *pkgv1alpha1.Transaction) error {
	v, err := d.of(tx)
	if err != nil {
		return err
	}
	for i := range v.input.Changes {
		before := v.input.Changes[i].Before
		if before == nil {
			continue
		}
		if onRemoval, changes := v.onRemoval[before.Name]; changes {
			if err := d.annotate(ctx, before, onRemoval); err != nil {
				return err
			}
		}
	}
	keep := v.kept()
	if len(keep) == 0 {
		return nil
	}
	var lacking []string
	// Requests have the context of the caller: one that is sent when the time is over would fail.
	err = wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, d.Patience, true, func(context.Context) (done bool, err error) {
		lacking, err = d.lacking(ctx, v, keep)
		return len(lacking) == 0, err
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		first, _, _ := strings.Cut(lacking[0], " ")
		return &transaction.FailedError{
			Reason: pkgv1alpha1.ReasonResourcesInUse,
			Message: fmt.Sprintf("clusters would delete CRDs with all objects of their kinds: the mailbox does not say yet that the cluster keeps %s. "+
				"The transport-controller writes that, if it runs and nothing is wrong with the object: kubectl starling explain crd/%s", text.List(lacking, 10), first),
		}
	}
	return err
}

// annotate writes what becomes of a CRD in the clusters; "" removes that.
func (d *Destinations) annotate(ctx context.Context, crd *destination.CRD, onRemoval string) error {
	patch, err := annotationPatch(crd, controlv1alpha1.AnnotationOnRemoval, onRemoval)
	if err != nil {
		return err
	}
	_, err = d.removals.Patch(ctx, writer.Target{Resource: definitions, Name: crd.Name}, types.MergePatchType, patch, "removed")
	return err
}

// kept returns the CRDs that leave clusters and stay there, by cluster.
func (v *validated) kept() map[string][]string {
	stays, kept := map[string]bool{}, map[string][]string{}
	for i := range v.input.Changes {
		if c := &v.input.Changes[i]; c.After == nil && c.Stays() {
			stays[c.Before.Name] = true
		}
	}
	for i := range v.result.Destinations {
		c := &v.result.Destinations[i]
		for _, ref := range c.Changed {
			if stays[ref.Name] {
				kept[c.Cluster] = append(kept[c.Cluster], ref.Name)
			}
		}
	}
	return kept
}

// lacking returns the CRDs that clusters would delete, with the clusters, as the mailboxes say, and
// leaves only those in keep: what has been seen to stay is not read again.
func (d *Destinations) lacking(ctx context.Context, v *validated, keep map[string][]string) (lacking []string, err error) {
	known := readworks.NewManifests(workPage)
	options := metav1.ListOptions{Limit: workPage, LabelSelector: controlv1alpha1.LabelWDSUID + "=" + string(d.WDSUID)}
	var mutex sync.Mutex
	left := map[string][]string{}
	group, groupContext := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for cluster, names := range keep {
		home, _ := d.Clusters.Home(cluster)
		its := v.its[home]
		if its == nil {
			continue // it has left meanwhile
		}
		group.Go(func() error {
			var goes []string
			err := client.EachItem(groupContext, its.objects.Resource(works).Namespace(cluster).List, options, func(o *unstructured.Unstructured) error {
				work := &workv1.ManifestWork{}
				if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, work); err != nil {
					return fmt.Errorf("decode ManifestWork %s/%s: %w", o.GetNamespace(), o.GetName(), err)
				}
				goes = append(goes, deletes(readworks.Read(work, known), names)...)
				return nil
			})
			if err != nil {
				return its.failed(ctx, fmt.Errorf("list ManifestWorks: %w", err))
			}
			mutex.Lock()
			defer mutex.Unlock()
			if len(goes) > 0 {
				left[cluster] = goes
			}
			for _, name := range goes {
				lacking = append(lacking, name+" of "+cluster)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	clear(keep)
	maps.Copy(keep, left)
	slices.Sort(lacking)
	return lacking, nil
}

// deletes returns which of these CRDs a cluster deletes when they leave a work. Of one that the
// cluster has never reported, the transport does not change the options, and it removes it only
// after a report: to wait for a cluster that never comes would keep the package for good.
func deletes(work *plan.Work, names []string) []string {
	var found []string
	for i := range work.Items {
		item := &work.Items[i]
		if item.Ref.GroupResource() == definitions.GroupResource() && slices.Contains(names, item.Ref.Name) && item.Seen && !item.Orphan && !item.Observe {
			found = append(found, item.Ref.Name)
		}
	}
	return found
}

package destinations

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/pkg/core/destination"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/dynamicinformer"
)

const (
	// recordPeriod is how often Locks are compared without an event: labels of
	// CustomResourceDefinitions, and Bindings of no policy, are not watched for it.
	recordPeriod = 5 * time.Minute
	// whileInstalling is how long Record waits for a Transaction that installs.
	whileInstalling = 2 * time.Second
)

// Record has the Lock of each cluster list the packages of this WDS that policies carry there now:
// policies and clusters change without a Transaction. It writes only Locks that change, and none
// while a Transaction installs, which writes them itself. What clusters keep because an update
// would break something there stays in their Locks. Again is when to call it again.
func (d *Destinations) Record(ctx context.Context) (again time.Duration, err error) {
	// The Locks come first: if a Transaction changes one after that, the write is a conflict.
	read, unread := d.readAllLocks(ctx)
	holds, err := d.holds(ctx)
	if err != nil {
		return 0, err
	}
	list, _ := decodeHolds(holds)
	if slices.ContainsFunc(list, func(h plan.TransactionHold) bool { return !h.Lasts() }) {
		return whileInstalling, nil
	}
	installed, err := d.installedNow(ctx)
	if err != nil {
		return 0, err
	}
	if len(installed.Packages) == 0 && !d.recorded(read) {
		return recordPeriod, unread
	}
	bindings, err := d.bindings(ctx)
	if err != nil {
		return 0, err
	}
	g := &gathered{input: &destination.Input{}}
	if err := errors.Join(d.unchanged(ctx, g, installed, map[string]bool{}), d.policies(ctx, g, bindings)); err != nil {
		return 0, err
	}
	clusters, complete := d.Clusters.List()
	if !complete {
		return whileInstalling, unread // of an ITS that has not synced, it is not known which clusters exist
	}
	for _, c := range clusters {
		g.input.Clusters = append(g.input.Clusters, destination.Cluster{Name: c.Name, Labels: c.Labels})
	}
	return recordPeriod, errors.Join(unread, d.writeRecords(ctx, read, g.input.Present(), heldAt(list), installed.Packages))
}

// readAllLocks reads the Locks of all ITSes. Those that do not answer are left out, and named by
// the error.
func (d *Destinations) readAllLocks(ctx context.Context) (map[string]*inITS, error) {
	read := map[string]*inITS{}
	var unread []error
	var mutex sync.Mutex
	var running sync.WaitGroup
	for name, its := range d.ITSes {
		running.Go(func() {
			in := newInITS(name, its)
			err := in.readLocks(ctx, "")
			mutex.Lock()
			defer mutex.Unlock()
			if err != nil {
				unread = append(unread, in.failed(ctx, err))
			} else {
				read[name] = in
			}
		})
	}
	running.Wait()
	return read, errors.Join(unread...)
}

// recorded reports whether some Lock lists packages of this WDS.
func (d *Destinations) recorded(read map[string]*inITS) bool {
	for _, its := range read {
		for _, lock := range its.locks {
			if destination.Records(lock, d.WDSUID) {
				return true
			}
		}
	}
	return false
}

// writeRecords writes the Locks that change, also those of clusters that are gone.
func (d *Destinations) writeRecords(ctx context.Context, read map[string]*inITS, present map[string][]string, held map[string]map[string]bool, installed []pkgv1beta1.LockPackage) error {
	names := map[string]bool{}
	for name := range present {
		names[name] = true
	}
	for _, its := range read {
		for name, lock := range its.locks {
			names[name] = names[name] || destination.Records(lock, d.WDSUID)
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !names[name] || held[name] != nil {
			continue
		}
		home, _ := d.Clusters.Home(name)
		for space, its := range read {
			if its.withoutLocks || space != home && !destination.Records(its.locks[name], d.WDSUID) {
				continue
			}
			c := &destination.Destination{Cluster: name}
			if space == home {
				c.Packages = present[name]
			}
			group.Go(func() error {
				err := d.writeLock(ctx, its, its.locks[name], c, "", installed)
				if apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
					return apierrors.NewConflict(pkgv1beta1.Locks.GroupResource(), name, err) // it is read again
				}
				return err
			})
		}
	}
	return group.Wait()
}

// Watch calls changed when a policy or a cluster changes, so that Record may find something, until
// the context ends. It must be called once.
func (d *Destinations) Watch(ctx context.Context, changed func()) error {
	d.Clusters.OnChange(func(string) { changed() })
	policies := dynamicinformer.MetadataInformer(d.metadata)(dynamicinformer.Resource{GroupVersionResource: controlv1alpha1.BindingPolicies})
	_, err := policies.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { changed() },
		DeleteFunc: func(any) { changed() },
		UpdateFunc: func(before, after any) {
			old, isOld := before.(*metav1.PartialObjectMetadata)
			now, isNow := after.(*metav1.PartialObjectMetadata)
			if isOld && isNow && (old.Generation != now.Generation || !maps.Equal(old.Annotations, now.Annotations)) {
				changed()
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watch BindingPolicies: %w", err)
	}
	policies.RunWithContext(ctx)
	return nil
}

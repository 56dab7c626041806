package agent

import (
	"context"
	"encoding/json"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/starlinghq/starling/pkg/statusagent"
	"github.com/starlinghq/starling/pkg/writer"
)

const (
	// leasePeriod is what OCM's registration agent expects: without a renewal for five periods, the
	// add-on is not available.
	leasePeriod = time.Minute
	// leaseRetry is the pause after a failure, and while the agent is not ready.
	leaseRetry = time.Second
)

// heartbeat renews the Lease that shows OCM that the add-on is available, while everything has
// synced and the hub is reachable.
func (a *Agent) heartbeat(ctx context.Context) {
	logger := klog.FromContext(ctx)
	failing := false
	for {
		pause := leaseRetry
		if a.hubUnreachable.Load() {
			// There may be nothing left to write, so the hub is probed.
			_, err := a.hub.WorkStatuses(a.config.Cluster).List(ctx, metav1.ListOptions{Limit: 1})
			_ = a.recordHub(ctx, err)
		}
		if a.synced() && !a.hubUnreachable.Load() {
			err := a.renewLease(ctx)
			if err == nil {
				pause, failing = leasePeriod, false
			} else if !failing && ctx.Err() == nil {
				failing = true
				logger.Error(err, "Cannot renew Lease of the add-on; will retry")
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-a.config.Clock.After(pause):
		}
	}
}

func (a *Agent) renewLease(ctx context.Context) error {
	seconds := int32(leasePeriod.Seconds())
	lease := coordinationv1.Lease{
		TypeMeta:   metav1.TypeMeta{APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: "Lease"},
		ObjectMeta: metav1.ObjectMeta{Name: statusagent.AddonName, Namespace: statusagent.InstallNamespace},
		Spec: coordinationv1.LeaseSpec{
			LeaseDurationSeconds: &seconds,
			RenewTime:            &metav1.MicroTime{Time: a.config.Clock.Now()},
		},
	}
	target := writer.Target{
		Resource:  coordinationv1.SchemeGroupVersion.WithResource("leases"),
		Namespace: lease.Namespace, Name: lease.Name,
	}
	patch, err := json.Marshal(map[string]any{"spec": lease.Spec})
	if err != nil {
		return err
	}
	_, err = a.wecWriter.Patch(ctx, target, types.MergePatchType, patch, "heartbeat")
	if apierrors.IsNotFound(err) {
		_, err = a.wecWriter.Create(ctx, target, &lease, "heartbeat")
	}
	return err
}

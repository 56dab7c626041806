package install

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	"github.com/starlinghq/starling/pkg/core/transaction"
	"github.com/starlinghq/starling/pkg/transactions"
	"github.com/starlinghq/starling/pkg/writer"
)

// activate makes the revision active. One that must be inactive controls no objects afterwards, but
// they stay.
func (i *Installer) activate(ctx context.Context, p *Package, revision *pkgv1.ProviderRevision) error {
	if !p.Inactive {
		return i.setState(ctx, p.Kind, revision, pkgv1.RevisionActive)
	}
	return i.eachObject(ctx, revision.Status.ObjectRefs, func(ctx context.Context, resource schema.GroupVersionResource, live *unstructured.Unstructured) error {
		if controller := transaction.ControllerOf(live); controller == nil || controller.UID != revision.UID {
			return nil
		}
		return i.own(ctx, resource, live, transaction.Dropped(live.GetOwnerReferences(), revisionOwner(p.Kind, revision)))
	})
}

// deactivate makes all other revisions inactive, unless the revision of the package must be.
func (i *Installer) deactivate(ctx context.Context, p *Package, others []*pkgv1.ProviderRevision) error {
	if p.Inactive {
		return nil
	}
	for _, other := range others {
		if err := i.setState(ctx, p.Kind, other, pkgv1.RevisionInactive); err != nil {
			return err
		}
		if transaction.Awaits(other) {
			continue
		}
		if err := i.updateStatus(ctx, p, other.Name, awaiting); err != nil {
			return err
		}
	}
	return nil
}

func awaiting(status *pkgv1.PackageRevisionStatus) {
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: pkgv1.RevisionConditionHealthy, Status: metav1.ConditionFalse, Reason: pkgv1.ReasonAwaitingActivation,
	})
}

func (i *Installer) setState(ctx context.Context, kind transactions.Kind, r *pkgv1.ProviderRevision, state pkgv1.PackageRevisionDesiredState) error {
	if r.Spec.DesiredState == state {
		return nil
	}
	return i.patch(ctx, writer.Target{Resource: kind.Revisions, Name: r.Name}, "", map[string]any{"spec": map[string]any{"desiredState": state}})
}

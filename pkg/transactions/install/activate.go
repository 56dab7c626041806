package install

import (
	"context"
	"encoding/json"
	"errors"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	"github.com/starlinghq/starling/pkg/core/transaction"
	"github.com/starlinghq/starling/pkg/transactions"
	"github.com/starlinghq/starling/pkg/writer"
)

// activate makes the revision active, and records with what generations its objects were installed.
// One that must be inactive controls no objects afterwards, but they stay.
func (i *Installer) activate(ctx context.Context, p *Package, revision *pkgv1.ProviderRevision, generations transaction.Generations) error {
	if !p.Inactive {
		desired := revision.DeepCopy()
		desired.Spec.DesiredState = pkgv1.RevisionActive
		desired.Spec.CommonLabels, desired.Spec.CommonAnnotations = p.Spec.CommonLabels, p.Spec.CommonAnnotations
		metav1.SetMetaDataAnnotation(&desired.ObjectMeta, transaction.AnnotationGenerations, generations.Encode())
		return i.update(ctx, p.Kind, revision, desired)
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
	desired := r.DeepCopy()
	desired.Spec.DesiredState = state
	return i.update(ctx, kind, r, desired)
}

// update patches what differs between two states of a revision. A resourceVersion is not needed:
// while a Transaction holds the Lock, nothing else decides about these fields.
func (i *Installer) update(ctx context.Context, kind transactions.Kind, before, after *pkgv1.ProviderRevision) error {
	from, fromErr := json.Marshal(before)
	to, toErr := json.Marshal(after)
	if err := errors.Join(fromErr, toErr); err != nil {
		return err
	}
	patch, err := jsonpatch.CreateMergePatch(from, to)
	if err != nil || string(patch) == "{}" {
		return err
	}
	_, err = i.Writer.Patch(ctx, writer.Target{Resource: kind.Revisions, Name: before.Name}, types.MergePatchType, patch, "install")
	return err
}

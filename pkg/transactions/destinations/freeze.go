package destinations

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/writer"
)

// Freeze holds the objects of a proposal in all mailboxes until the Transaction has ended, and on
// the clusters where it would break something beyond that. It blocks until the transport has
// observed that, or for a short time if no transport runs.
func (d *Destinations) Freeze(ctx context.Context, tx *pkgv1alpha1.Transaction) error {
	v, err := d.of(tx)
	if err != nil {
		return err
	}
	if len(v.objects) == 0 {
		return nil
	}
	err = d.hold(ctx, func(list []plan.TransactionHold) []plan.TransactionHold {
		refs := slices.Clone(v.objects)
		for i := range list { // what an earlier try has written does not change any more, and is a part of the change
			if of, err := list[i].Refs(); err == nil && list[i].Is(tx.Name, tx.UID) && !list[i].Lasts() {
				refs = append(refs, of...)
			}
		}
		list = slices.DeleteFunc(list, func(h plan.TransactionHold) bool { return h.Is(tx.Name, tx.UID) })
		by := plan.Holder{Transaction: tx.Name, UID: tx.UID}
		return append(append(list, plan.NewTransactionHold(by, refs, nil)), v.lasting(by)...)
	})
	if err != nil {
		return err
	}
	// Who watches Bindings sees the hold before one that is created now.
	if some, err := d.anyBinding(ctx); err != nil || !some {
		return err
	}
	return d.observed(ctx, tx.Name)
}

// lasting returns what clusters keep where the proposal would break something, grouped by objects.
func (v *validated) lasting(by plan.Holder) []plan.TransactionHold {
	groups := map[string]*plan.TransactionHold{}
	for i := range v.result.Destinations {
		c := &v.result.Destinations[i]
		if !c.Fails() || len(c.Changed) == 0 { // nothing to keep
			continue
		}
		h := plan.NewTransactionHold(by, c.Changed, []string{c.Cluster})
		key := strings.Join(h.Objects, ",")
		if groups[key] == nil {
			groups[key] = &h
			continue
		}
		groups[key].Clusters = append(groups[key].Clusters, c.Cluster) // sorted, as destinations are
	}
	var holds []plan.TransactionHold
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		holds = append(holds, *groups[key])
	}
	return holds
}

// hold changes what Transactions hold. One Binding has all of it, so that a Binding that is created
// or changed later is held too.
func (d *Destinations) hold(ctx context.Context, change func([]plan.TransactionHold) []plan.TransactionHold) error {
	for {
		b, err := d.holds(ctx)
		if err != nil {
			return err
		}
		before, _ := decodeHolds(b) // an invalid one is replaced
		value := plan.EncodeHolds(change(before))
		switch {
		case b == nil && value == "" || b != nil && value == b.Annotations[pkgv1.AnnotationHeldObjects]:
			return nil
		case b == nil:
			err = d.createHolds(ctx, value)
		case b.DeletionTimestamp != nil && value != "":
			return fmt.Errorf("binding %q is being deleted; it is created again when it is gone", b.Name)
		default:
			err = d.patchHolds(ctx, b, value)
		}
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// holds returns the Binding that has what Transactions hold, nil if there is none.
func (d *Destinations) holds(ctx context.Context) (*controlv1alpha1.Binding, error) {
	b, err := d.control.Bindings().Get(ctx, pkgv1.HoldsBinding, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // nothing was held yet
	} else if err != nil {
		return nil, fmt.Errorf("get Binding %q: %w", pkgv1.HoldsBinding, err)
	}
	return b, nil
}

// decodeHolds returns what Transactions hold. The Binding may be nil.
func decodeHolds(b *controlv1alpha1.Binding) ([]plan.TransactionHold, error) {
	if b == nil || b.Annotations[pkgv1.AnnotationHeldObjects] == "" {
		return nil, nil
	}
	return plan.DecodeHolds(b.Annotations[pkgv1.AnnotationHeldObjects])
}

var holdsTarget = writer.Target{Resource: controlv1alpha1.Bindings, Name: pkgv1.HoldsBinding}

func (d *Destinations) createHolds(ctx context.Context, value string) error {
	b := &controlv1alpha1.Binding{
		TypeMeta:   metav1.TypeMeta{APIVersion: controlv1alpha1.GroupVersion.String(), Kind: "Binding"},
		ObjectMeta: metav1.ObjectMeta{Name: pkgv1.HoldsBinding, Annotations: map[string]string{pkgv1.AnnotationHeldObjects: value}},
	}
	_, err := d.Writer.Create(ctx, holdsTarget, b, "hold")
	return err
}

func (d *Destinations) patchHolds(ctx context.Context, b *controlv1alpha1.Binding, value string) error {
	patch, err := annotationPatch(b, pkgv1.AnnotationHeldObjects, value)
	if err != nil {
		return err
	}
	_, err = d.Writer.Patch(ctx, holdsTarget, types.MergePatchType, patch, "hold")
	return err
}

// annotationPatch returns the merge patch that sets an annotation of an object that is still as it
// was read, or removes it if the value is "".
func annotationPatch(of metav1.Object, key, value string) ([]byte, error) {
	annotations := map[string]any{key: value}
	if value == "" {
		annotations[key] = nil
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": of.GetResourceVersion(), "annotations": annotations}})
}

// observed blocks until the condition of the Binding shows that the transport obeys the hold.
// Without a transport nothing is delivered, so there is nothing to wait for.
func (d *Destinations) observed(ctx context.Context, name string) error {
	// Requests have the context of the caller: one that is sent when the time is over would fail.
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, d.Patience, true, func(context.Context) (bool, error) {
		b, err := d.holds(ctx)
		return b != nil && obeys(b, name), err
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return nil
	}
	return err
}

func obeys(b *controlv1alpha1.Binding, name string) bool {
	held := meta.FindStatusCondition(b.Status.Conditions, controlv1alpha1.BindingConditionHeld)
	return held != nil && strings.Contains(held.Message, plan.HeldFor(name))
}

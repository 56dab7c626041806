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
	frozen := plan.NewTransactionHold(tx.Name, v.objects, nil)
	var waitFor []string
	for _, b := range v.bindings {
		holds := append([]plan.TransactionHold{frozen}, v.lasting(tx.Name)...)
		written, err := d.hold(ctx, b.Name, func(list []plan.TransactionHold) []plan.TransactionHold {
			list = slices.DeleteFunc(list, func(h plan.TransactionHold) bool { return h.Transaction == tx.Name })
			return append(list, holds...)
		})
		if err != nil {
			return err
		}
		if written {
			waitFor = append(waitFor, b.Name)
		}
	}
	return d.observed(ctx, tx.Name, waitFor)
}

// lasting returns what clusters keep where the proposal would break something, grouped by objects.
func (v *validated) lasting(name string) []plan.TransactionHold {
	groups := map[string]*plan.TransactionHold{}
	for i := range v.result.Destinations {
		c := &v.result.Destinations[i]
		if !c.Fails() {
			continue
		}
		h := plan.NewTransactionHold(name, c.Changed, []string{c.Cluster})
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

// hold changes what Transactions hold in the mailboxes of a Binding. It reports whether it wrote.
func (d *Destinations) hold(ctx context.Context, binding string, change func([]plan.TransactionHold) []plan.TransactionHold) (written bool, err error) {
	for {
		b, err := d.control.Bindings().Get(ctx, binding, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		} else if err != nil {
			return false, fmt.Errorf("get Binding %q: %w", binding, err)
		}
		before, _ := plan.DecodeHolds(b.Annotations[pkgv1.AnnotationHeldObjects]) // an invalid one is replaced
		value := plan.EncodeHolds(change(before))
		if value == b.Annotations[pkgv1.AnnotationHeldObjects] {
			return false, nil
		}
		annotations := map[string]any{pkgv1.AnnotationHeldObjects: value}
		if value == "" {
			annotations[pkgv1.AnnotationHeldObjects] = nil
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": b.ResourceVersion, "annotations": annotations}})
		if err != nil {
			return false, err
		}
		_, err = d.Writer.Patch(ctx, writer.Target{Resource: controlv1alpha1.Bindings, Name: binding}, types.MergePatchType, patch, "hold")
		switch {
		case err == nil:
			return true, nil
		case apierrors.IsNotFound(err):
			return false, nil
		case !apierrors.IsConflict(err):
			return false, err
		}
		if err := ctx.Err(); err != nil {
			return false, err
		}
	}
}

// observed blocks until the conditions of Bindings show that the transport obeys the hold. Without
// a transport nothing is delivered, so there is nothing to wait for.
func (d *Destinations) observed(ctx context.Context, name string, bindings []string) error {
	// Requests have the context of the caller: one that is sent when the time is over would fail.
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, d.Patience, true, func(context.Context) (bool, error) {
		for len(bindings) > 0 {
			b, err := d.control.Bindings().Get(ctx, bindings[0], metav1.GetOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				return false, fmt.Errorf("get Binding %q: %w", bindings[0], err)
			}
			if err == nil && !obeys(b, name) {
				return false, nil
			}
			bindings = bindings[1:]
		}
		return true, nil
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

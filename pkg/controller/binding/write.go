package binding

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	corebinding "github.com/starlinghq/starling/pkg/core/binding"
	"github.com/starlinghq/starling/pkg/logging"
	"github.com/starlinghq/starling/pkg/writer"
)

// Writer writes to the WDS. *writer.Writer is one.
type Writer interface {
	Create(ctx context.Context, t writer.Target, obj any, reason string) (*metav1.PartialObjectMetadata, error)
	Update(ctx context.Context, t writer.Target, obj any, reason string) (*metav1.PartialObjectMetadata, error)
	Patch(ctx context.Context, t writer.Target, kind types.PatchType, patch []byte, reason string) (*metav1.PartialObjectMetadata, error)
	Delete(ctx context.Context, t writer.Target, uid types.UID, reason string) error
}

// Recorder records events, without blocking. An events.EventRecorder is one.
type Recorder interface {
	Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any)
}

// Reasons of writes to policies, as the metric counts them; those of Bindings are in package
// core/binding.
const (
	reasonFinalizer = "finalizer"
	reasonStatus    = "status"
	reasonReleased  = "released"
)

// written is what the writes of a decision came to.
type written struct {
	corebinding.Result
	// policyVersion is the resourceVersion of the policy now.
	policyVersion string
	// finalized: the policy is gone, so it has no status.
	finalized bool
}

// unwritten returns what there is before any write.
func unwritten(s *corebinding.State) written {
	w := written{policyVersion: s.Policy.ResourceVersion, Result: corebinding.Result{Bindings: s.Bindings(), Settling: s.WaitVersions}}
	if len(w.Bindings) == 0 && s.First != nil {
		w.Bindings = []*controlv1alpha1.Binding{s.First}
	}
	return w
}

// act carries a decision out. Its error is also that of the Result if it kept a Binding from being
// written.
func (c *Controller) act(ctx context.Context, s *corebinding.State, d *corebinding.Decision) (written, error) {
	w := unwritten(s)
	if d.RemoveFinalizer {
		return c.finalize(ctx, s, w)
	}
	if d.AddFinalizer {
		meta, err := c.patchPolicy(ctx, s.Policy.Name, s.Policy.ResourceVersion,
			map[string]any{"finalizers": append(slices.Clone(s.Policy.Finalizers), controlv1alpha1.BindingPolicyFinalizer)}, reasonFinalizer)
		if err != nil {
			w.Err = err
			return w, err
		}
		w.policyVersion = meta.ResourceVersion
	}
	if len(d.Writes) > 0 {
		c.memory.allow(s.Policy.Name, d.Allowed)
		w.Bindings, w.Err = c.writeBindings(ctx, s, d.Writes)
		if w.Err != nil {
			return w, w.Err
		}
		w.Settling = betweenVersions
	}
	if d.RemoveAllowance {
		meta, err := c.patchPolicy(ctx, s.Policy.Name, w.policyVersion,
			map[string]any{"annotations": map[string]any{controlv1alpha1.AnnotationAllowRemoval: nil}}, reasonReleased)
		if err != nil {
			return w, err
		}
		w.policyVersion = meta.ResourceVersion
		c.memory.allow(s.Policy.Name, nil)
		klog.FromContext(ctx).Info("Removed the annotation that allowed a removal; no removal is blocked")
	}
	return w, nil
}

// finalize removes the finalizer of a policy whose Bindings are gone. A cache may be behind, and
// the policy must not go before its Bindings: those that the API server still has are deleted
// first.
func (c *Controller) finalize(ctx context.Context, s *corebinding.State, w written) (written, error) {
	live, err := c.config.Live.Bindings(ctx, s.Policy)
	if err != nil {
		return w, fmt.Errorf("read Bindings: %w", err)
	}
	if len(live) > 0 {
		var errs []error
		for _, b := range live {
			errs = append(errs, c.deleteBinding(ctx, b, corebinding.ReasonDeleted))
		}
		w.Bindings, w.Err = live, errors.Join(errs...)
		return w, w.Err
	}
	finalizers := slices.DeleteFunc(slices.Clone(s.Policy.Finalizers), func(f string) bool { return f == controlv1alpha1.BindingPolicyFinalizer })
	w.finalized = true
	if _, err = c.patchPolicy(ctx, s.Policy.Name, s.Policy.ResourceVersion, map[string]any{"finalizers": finalizers}, reasonFinalizer); err == nil {
		klog.FromContext(ctx).V(2).Info("Removed the finalizer of the BindingPolicy")
	}
	return w, ignoreNotFound(err)
}

// writeBindings makes the writes, and returns the policy's Bindings as they are afterwards. The
// first write that fails ends it: the next sync begins with what is stored then. Only deletions for
// a policy that is being deleted do not wait for each other.
func (c *Controller) writeBindings(ctx context.Context, s *corebinding.State, writes []corebinding.Write) ([]*controlv1alpha1.Binding, error) {
	bindings := slices.Clone(s.Bindings())
	var errs []error
	for _, w := range writes {
		if w.After == nil {
			if err := c.deleteBinding(ctx, w.Before, w.Reason); err != nil {
				errs = append(errs, err)
				if s.Policy.DeletionTimestamp == nil {
					break
				}
			}
			continue
		}
		after, err := c.writeBinding(ctx, s.Policy.Name, w)
		if s.Policy.DeletionTimestamp != nil {
			err = ignoreNotFound(err)
		}
		if err != nil {
			errs = append(errs, err)
			break
		}
		switch i := slices.Index(bindings, w.Before); {
		case after == nil:
		case i >= 0:
			bindings[i] = after
		case after.Name == s.Policy.Name:
			bindings = slices.Insert(bindings, 0, after)
		default:
			bindings = append(bindings, after)
		}
	}
	return bindings, errors.Join(errs...)
}

// writeBinding creates or updates a Binding, and returns it as it is stored.
func (c *Controller) writeBinding(ctx context.Context, policy string, w corebinding.Write) (*controlv1alpha1.Binding, error) {
	target := writer.Target{Resource: controlv1alpha1.Bindings, Name: w.After.Name}
	do := c.config.Writer.Update
	if w.Before == nil {
		do = c.config.Writer.Create
	}
	meta, err := do(ctx, target, w.After, w.Reason)
	if err != nil {
		guard := ""
		if w.Before != nil {
			guard = w.Before.ResourceVersion
		}
		c.writes.failed(bindingWrite(target.Name), guard, err)
		return nil, err
	}
	c.memory.setWrote(policy)
	c.writes.wrote(bindingWrite(target.Name), meta.ResourceVersion)
	klog.FromContext(ctx).V(2).Info("Wrote Binding", logging.Binding, target.Name, logging.Reason, w.Reason,
		"objects", corebinding.CountObjects(&w.After.Spec), "clusters", len(w.After.Spec.Destinations))
	return &controlv1alpha1.Binding{TypeMeta: w.After.TypeMeta, ObjectMeta: meta.ObjectMeta, Spec: w.After.Spec, Status: w.After.Status}, nil
}

// deleteBinding deletes a Binding, once.
func (c *Controller) deleteBinding(ctx context.Context, binding *controlv1alpha1.Binding, reason string) error {
	if binding.DeletionTimestamp != nil || c.memory.wasDeleted(binding) {
		return nil
	}
	target := writer.Target{Resource: controlv1alpha1.Bindings, Name: binding.Name}
	if err := ignoreNotFound(c.config.Writer.Delete(ctx, target, binding.UID, reason)); err != nil {
		return err
	}
	c.memory.setDeleted(binding.Name, binding.UID)
	klog.FromContext(ctx).V(2).Info("Deleted Binding", logging.Binding, target.Name, logging.Reason, reason)
	return nil
}

// patchPolicy changes metadata of a policy of that version.
func (c *Controller) patchPolicy(ctx context.Context, name, version string, metadata map[string]any, reason string) (*metav1.PartialObjectMetadata, error) {
	metadata["resourceVersion"] = version
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return nil, err
	}
	target := writer.Target{Resource: controlv1alpha1.BindingPolicies, Name: name}
	meta, err := c.config.Writer.Patch(ctx, target, types.MergePatchType, patch, reason)
	if err == nil {
		c.writes.wrote(policyWrite(name), meta.ResourceVersion)
	}
	return meta, err
}

// writeStatus writes the status of a policy of that version if it means something else than the
// stored one, and its events.
func (c *Controller) writeStatus(ctx context.Context, policy *controlv1alpha1.BindingPolicy, version string, want *controlv1alpha1.BindingPolicyStatus) error {
	if want == nil || apiequality.Semantic.DeepEqual(&policy.Status, want) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": version},
		"status": map[string]any{ // null, if empty, removes what is stored
			"conditions":         want.Conditions,
			"observedGeneration": want.ObservedGeneration,
			"errors":             want.Errors,
			"problems":           want.Problems,
			"problemsCount":      orNull(want.ProblemsCount),
			"rollup":             want.Rollup,
		},
	})
	if err != nil {
		return err
	}
	target := writer.Target{Resource: controlv1alpha1.BindingPolicies, Name: policy.Name, Subresource: "status"}
	meta, err := c.config.Writer.Patch(ctx, target, types.MergePatchType, patch, reasonStatus)
	if err != nil {
		return err
	}
	c.writes.wrote(policyWrite(policy.Name), meta.ResourceVersion)
	for _, e := range corebinding.Events(policy.Status.Conditions, want.Conditions) {
		c.config.Events.Eventf(policy, nil, e.Type, e.Reason, "Sync", "%s", e.Note)
	}
	return nil
}

func orNull(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

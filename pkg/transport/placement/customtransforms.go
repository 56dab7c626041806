package placement

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/controller/worker"
	"github.com/starlinghq/starling/pkg/core/customtransform"
	"github.com/starlinghq/starling/pkg/writer"
)

// bySubject is the index of CustomTransforms by the GroupResource that they are about.
const bySubject = "subject"

// customTransforms follows the CustomTransforms of the WDS, and writes their statuses.
type customTransforms struct {
	collection *customtransform.Collection
	informer   cache.SharedIndexInformer
	queue      *worker.Queue[string]
	writer     *writer.Writer
	bindings   enqueuer
	// published is what was last written to statuses, by name, until the informer has seen it. Only
	// the one worker uses it.
	published map[string]publishedTransform
}

// publishedTransform is what was last written to the status of a CustomTransform, and its
// resourceVersion after that.
type publishedTransform struct {
	uid     types.UID
	status  controlv1alpha1.CustomTransformStatus
	version string
}

// enqueuer enqueues Bindings: one, or several of which the objects have to be read again. It knows
// whether this process may write.
type enqueuer interface {
	mayWrite() bool
	enqueue(name, version string)
	enqueueTogether(names []string)
}

func newCustomTransforms(informer cache.SharedIndexInformer, w *writer.Writer, c clock.WithTicker, bindings enqueuer) (*customTransforms, error) {
	t := &customTransforms{informer: informer, writer: w, bindings: bindings, published: map[string]publishedTransform{}}
	t.queue = worker.New(worker.Config{Name: "transport-transforms", Clock: c, MinBackOff: MinBackOff, Quiet: apierrors.IsNotFound}, t.sync)
	t.collection = customtransform.NewCollection(t.about)
	err := t.informer.AddIndexers(cache.Indexers{bySubject: func(obj any) ([]string, error) {
		ct, ok := obj.(*controlv1alpha1.CustomTransform)
		if !ok {
			return nil, fmt.Errorf("the informer holds a %T", obj)
		}
		return []string{customtransform.GroupResource(&ct.Spec).String()}, nil
	}})
	if err != nil {
		return nil, fmt.Errorf("index CustomTransforms: %w", err)
	}
	_, err = t.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { t.onChange(nil, obj) },
		UpdateFunc: t.onChange,
		DeleteFunc: func(obj any) { t.onChange(obj, nil) },
	})
	if err != nil {
		return nil, fmt.Errorf("watch CustomTransforms: %w", err)
	}
	return t, nil
}

// about returns the CustomTransforms that are about a GroupResource.
func (t *customTransforms) about(gr schema.GroupResource) []*controlv1alpha1.CustomTransform {
	objs, err := t.informer.GetIndexer().ByIndex(bySubject, gr.String())
	if err != nil {
		return nil // no such index: newCustomTransforms added it
	}
	found := make([]*controlv1alpha1.CustomTransform, 0, len(objs))
	for _, obj := range objs {
		if ct, ok := obj.(*controlv1alpha1.CustomTransform); ok {
			found = append(found, ct)
		}
	}
	return found
}

// onChange enqueues a CustomTransform. One that is created or deleted, or is about another
// GroupResource now, changes the statuses of the others about that GroupResource as well. A status
// that somebody else wrote is corrected.
func (t *customTransforms) onChange(before, after any) {
	if tombstone, ok := before.(cache.DeletedFinalStateUnknown); ok {
		before = tombstone.Obj
	}
	subjects := map[schema.GroupResource]int{}
	for change, obj := range map[int]any{-1: before, 1: after} {
		if ct, ok := obj.(*controlv1alpha1.CustomTransform); ok {
			t.queue.Add(ct.Name)
			customTransformsCount.Add(float64(change))
			subjects[customtransform.GroupResource(&ct.Spec)] += change
		}
	}
	for gr, change := range subjects {
		if change == 0 {
			continue
		}
		for _, other := range t.about(gr) {
			t.queue.Add(other.Name)
		}
	}
}

// sync records one CustomTransform as it is, enqueues the Bindings that it concerns, and writes its
// status if its meaning changed.
func (t *customTransforms) sync(ctx context.Context, name string) (worker.Result, error) {
	obj, exists, err := t.informer.GetStore().GetByKey(name)
	if err != nil {
		return worker.Result{}, err
	}
	var ct *controlv1alpha1.CustomTransform
	if exists {
		var ok bool
		if ct, ok = obj.(*controlv1alpha1.CustomTransform); !ok {
			return worker.Result{}, fmt.Errorf("the informer holds a %T", obj)
		}
	}
	t.bindings.enqueueTogether(t.collection.Note(name, ct))
	if ct == nil {
		delete(t.published, name)
		return worker.Result{}, nil
	}
	if !t.bindings.mayWrite() {
		return worker.Result{}, nil // it is enqueued again then
	}
	return worker.Result{}, t.publish(ctx, ct)
}

func (t *customTransforms) publish(ctx context.Context, ct *controlv1alpha1.CustomTransform) error {
	var others []string
	for _, other := range t.about(customtransform.GroupResource(&ct.Spec)) {
		others = append(others, other.Name)
	}
	status := customtransform.Status(ct, others, t.collection.InForce(ct))
	old := ct.Status
	if last, ok := t.published[ct.Name]; ok && last.uid == ct.UID && Newer(last.version, ct.ResourceVersion) {
		old = last.status // the informer has not seen our last write yet
	} else {
		delete(t.published, ct.Name)
	}
	if apiequality.Semantic.DeepEqual(old, status) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": ct.UID},
		"status": map[string]any{
			"observedGeneration": status.ObservedGeneration, "errors": status.Errors, "warnings": status.Warnings, "inForce": status.InForce,
		},
	})
	if err != nil {
		return err
	}
	target := writer.Target{Resource: controlv1alpha1.CustomTransforms, Name: ct.Name, Subresource: "status"}
	answer, err := t.writer.Patch(ctx, target, types.MergePatchType, patch, "status")
	if err != nil {
		return err
	}
	t.published[ct.Name] = publishedTransform{uid: ct.UID, status: status, version: answer.ResourceVersion}
	return nil
}

// instructionsFunc returns what CustomTransforms remove from the objects of a resource.
type instructionsFunc func(schema.GroupResource) *customtransform.Instructions

// instructionsFor returns what CustomTransforms remove, as far as a Binding is concerned: the
// Binding is enqueued when that changes.
func (t *customTransforms) instructionsFor(binding string) instructionsFunc {
	return func(gr schema.GroupResource) *customtransform.Instructions {
		instructions, affected := t.collection.Changes(binding, gr)
		for _, name := range affected {
			t.bindings.enqueue(name, "")
		}
		return instructions
	}
}

// unknownInstructions is what is wrong with the objects of a resource if it is not known what
// CustomTransforms remove from them. Such objects are not delivered: what is removed from them may
// be what nobody may see.
func unknownInstructions(gr schema.GroupResource, instructions *customtransform.Instructions) string {
	return Clip(fmt.Sprintf("%s: not delivered, and what was delivered stays, until these CustomTransforms have no errors: %s",
		gr, strings.Join(instructions.Unknown, ", ")))
}

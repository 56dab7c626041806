package transport

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/customtransform"
	"github.com/starlinghq/starling/pkg/write"
)

// bySubject is the index of CustomTransforms by the GroupResource that they are about.
const bySubject = "subject"

// customTransforms follows the CustomTransforms of the WDS: what they ask for, and what is said to those who wrote them.
type customTransforms struct {
	*customtransform.Collection
	informer cache.SharedIndexInformer
	queue    workqueue.TypedRateLimitingInterface[string]
	writer   *write.Writer
	enqueue  func(binding string)
	// published is what was last written to statuses, by name, until the informer has seen it. One worker uses it.
	published map[string]publishedTransform
}

// publishedTransform is what was last written to the status of a CustomTransform, and its resourceVersion after that.
type publishedTransform struct {
	uid     types.UID
	status  controlv1alpha1.CustomTransformStatus
	version string
}

func newCustomTransforms(c *Controller) (*customTransforms, error) {
	t := &customTransforms{
		informer:  c.config.CustomTransforms,
		queue:     newQueue[string](c.clock, "transport-transforms"),
		writer:    c.config.WDS,
		enqueue:   c.enqueueBinding,
		published: map[string]publishedTransform{},
	}
	t.Collection = customtransform.NewCollection(t.about)
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

// onChange notes a change of a CustomTransform. One that comes, goes, or turns to another GroupResource concerns what is said to
// the others about it too. A status that somebody else wrote is put right.
func (t *customTransforms) onChange(before, after any) {
	if tombstone, ok := before.(cache.DeletedFinalStateUnknown); ok {
		before = tombstone.Obj
	}
	subjects := map[schema.GroupResource]int{}
	for change, obj := range map[int]any{-1: before, 1: after} {
		if ct, ok := obj.(*controlv1alpha1.CustomTransform); ok {
			t.queue.Add(ct.Name)
			transforms.Add(float64(change))
			subjects[customtransform.GroupResource(&ct.Spec)] += change
		}
	}
	for gr, change := range subjects {
		if change == 0 {
			continue
		}
		for _, rival := range t.about(gr) {
			t.queue.Add(rival.Name)
		}
	}
}

// sync takes notice of one CustomTransform as it is, and writes its status if the meaning of that changed.
func (t *customTransforms) sync(ctx context.Context, name string) (result, error) {
	obj, exists, err := t.informer.GetStore().GetByKey(name)
	if err != nil {
		return result{}, err
	}
	var ct *controlv1alpha1.CustomTransform
	if exists {
		var ok bool
		if ct, ok = obj.(*controlv1alpha1.CustomTransform); !ok {
			return result{}, fmt.Errorf("the informer holds a %T", obj)
		}
	}
	for _, binding := range t.Note(name, ct) {
		t.enqueue(binding)
	}
	if ct == nil {
		delete(t.published, name)
		return result{}, nil
	}
	return result{}, t.publish(ctx, ct)
}

func (t *customTransforms) publish(ctx context.Context, ct *controlv1alpha1.CustomTransform) error {
	var rivals []string
	for _, rival := range t.about(customtransform.GroupResource(&ct.Spec)) {
		rivals = append(rivals, rival.Name)
	}
	status := customtransform.Status(ct, rivals, t.InForce(ct))
	old := ct.Status
	if last, ok := t.published[ct.Name]; ok && last.uid == ct.UID && newer(last.version, ct.ResourceVersion) {
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
	where := write.Target{Resource: controlv1alpha1.CustomTransforms, Name: ct.Name, Subresource: "status"}
	answer, err := t.writer.Patch(ctx, where, types.MergePatchType, patch, "status")
	if err != nil {
		return conflictIsStale(err)
	}
	t.published[ct.Name] = publishedTransform{uid: ct.UID, status: status, version: answer.ResourceVersion}
	return nil
}

// instructions returns what to do with objects of the resources that a Binding lists, and what is wrong with it. Objects of a
// resource for which it is not known must not be delivered: what is removed from them may be what nobody is to see.
func (c *Controller) instructions(p *placement) (by map[schema.GroupResource]*customtransform.Instructions, problems []string) {
	by = make(map[schema.GroupResource]*customtransform.Instructions, len(p.resources))
	for gr := range p.resources {
		instructions, again := c.transforms.Changes(p.name, gr)
		by[gr] = instructions
		for _, binding := range again {
			c.enqueueBinding(binding)
		}
		if len(instructions.Unknown) > 0 {
			problems = append(problems, unknownTransforms(gr, instructions))
		}
	}
	return by, problems
}

func unknownTransforms(gr schema.GroupResource, instructions *customtransform.Instructions) string {
	return clip(fmt.Sprintf("%s: nothing is delivered, and what was delivered stays, until these CustomTransforms have no errors: %s",
		gr, strings.Join(instructions.Unknown, ", ")))
}

// instructionsFor returns what gives the instructions for a resource to a Binding.
func (c *Controller) instructionsFor(binding string) instructing {
	return func(gr schema.GroupResource) *customtransform.Instructions {
		instructions, again := c.transforms.Changes(binding, gr)
		for _, name := range again {
			c.enqueueBinding(name)
		}
		return instructions
	}
}

// noteUse tells the cache which resources a placement needs; none if it is gone or going.
func (c *Controller) noteUse(binding string, p *placement) {
	c.transforms.SetBindingGroupResources(binding, slices.Collect(maps.Keys(p.kinds)))
}

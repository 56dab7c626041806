package transport

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/logging"
)

// orphans find the works whose Binding is not there. They are never deleted by themselves: a WDS that was restored from an
// older backup, or emptied, must not take everything along. A Binding that leaves as it should takes its works along first.
type orphans struct {
	queue workqueue.TypedRateLimitingInterface[orphan]

	mu sync.Mutex
	// alive are the UIDs of the Bindings that are there.
	alive map[types.UID]struct{}
	// found are the orphans that were told of, by space.
	found map[*space]map[types.UID]struct{}
}

// orphan asks whether the works of one Binding in one space are orphaned.
type orphan struct {
	space   *space
	binding types.UID
}

// String names the question in logs.
func (o orphan) String() string { return o.space.name + "/" + string(o.binding) }

// notice notes that a Binding came or went.
func (c *Controller) notice(before, after *controlv1alpha1.Binding) {
	c.orphans.mu.Lock()
	defer c.orphans.mu.Unlock()
	for _, b := range []*controlv1alpha1.Binding{before, after} {
		switch {
		case b == nil || before != nil && after != nil && before.UID == after.UID:
			continue
		case b == after:
			c.orphans.alive[b.UID] = struct{}{}
		default:
			delete(c.orphans.alive, b.UID)
		}
		for _, s := range c.spaces {
			c.orphans.queue.Add(orphan{s, b.UID})
		}
	}
}

// runOrphans keeps the count of orphans up to date. Nothing is one before all Bindings and all works are known.
func (c *Controller) runOrphans(ctx context.Context, told cache.InformerSynced) {
	if cache.WaitForCacheSync(ctx.Done(), told) {
		work(ctx, c.orphans.queue, c.syncOrphan)
	}
}

func (c *Controller) syncOrphan(ctx context.Context, o orphan) (result, error) {
	if !o.space.store.hasSynced() {
		return result{}, nil // asked again then
	}
	example := o.space.store.example(o.binding)
	c.orphans.mu.Lock()
	defer c.orphans.mu.Unlock()
	found := c.orphans.found[o.space]
	if found == nil {
		found = map[types.UID]struct{}{}
		c.orphans.found[o.space] = found
	}
	_, alive := c.orphans.alive[o.binding]
	_, known := found[o.binding]
	switch {
	case alive || example == nil:
		delete(found, o.binding)
	case !known:
		found[o.binding] = struct{}{}
		klog.FromContext(ctx).Info("Works have no Binding; they are left as they are. See docs/orphans.md",
			logging.Space, o.space.name, logging.Binding, example.Binding, "bindingUID", o.binding,
			"selector", controlv1alpha1.LabelBindingUID+"="+string(o.binding), "example", klog.KRef(example.Mailbox, example.Name))
	}
	orphanedBindings.WithLabelValues(o.space.name).Set(float64(len(found)))
	return result{}, nil
}

package delivery

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/controller/worker"
	"github.com/starlinghq/starling/pkg/logging"
	"github.com/starlinghq/starling/pkg/transport/placement"
)

// orphan asks whether the works of one Binding in one ITS are orphaned, because the Binding does
// not exist. Such works are never deleted automatically: a WDS that was restored from an older
// backup, or emptied, must not delete what runs in clusters. A Binding that is deleted properly has
// its works deleted first.
type orphan struct {
	its     *its
	binding types.UID
}

// String identifies the question in logs.
func (o orphan) String() string { return o.its.name + "/" + string(o.binding) }

// syncOrphan brings the count of orphaned Bindings of one ITS up to date. It is not called before
// all Bindings are known, nor concurrently.
func (c *Controller) syncOrphan(ctx context.Context, key orphan) (worker.Result, error) {
	if !key.its.store.synced.Load() {
		return worker.Result{}, nil // it is enqueued again then
	}
	example := key.its.store.example(key.binding)
	exists := false
	c.config.Index.View(func(view placement.View) { _, exists = view.Source(key.binding) })
	switch {
	case exists || example == nil:
		delete(key.its.orphaned, key.binding)
	case !key.its.orphaned[key.binding]:
		key.its.orphaned[key.binding] = true
		klog.FromContext(ctx).Info("Works have no Binding; they are left as they are. See docs/orphans.md",
			logging.Space, key.its.name, logging.Binding, example.Binding, "bindingUID", key.binding,
			"selector", controlv1alpha1.LabelBindingUID+"="+string(key.binding), "example", klog.KRef(example.Mailbox, example.Name))
	}
	orphanedBindings.WithLabelValues(key.its.name).Set(float64(len(key.its.orphaned)))
	return worker.Result{}, nil
}

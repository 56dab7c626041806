package transport

import (
	"context"
	"slices"

	"k8s.io/klog/v2"

	"github.com/starlinghq/starling/pkg/logging"
)

// unreleased returns what of left a Binding that is being deleted has to wait for nevertheless: what the annotation
// starling.io/release does not name, and mailboxes from which it was not tried yet to take out what can be taken out.
// Force is about not waiting for clusters; it is no reason to leave works behind that could have been deleted.
func (c *Controller) unreleased(p *placement, left []remnant) []remnant {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(left), func(r remnant) bool {
		if r.space {
			return p.release.all
		}
		return p.release.of(r.name) && c.outcomes[p.name][r.name].removed == p
	})
}

// tellReleased logs which works stay behind.
func tellReleased(ctx context.Context, p *placement, left []remnant) {
	for _, r := range left {
		klog.FromContext(ctx).Info("Released by force; works of the Binding stay where they are",
			logging.Binding, p.name, "bindingUID", p.uid, logging.Cluster, r.name)
	}
}

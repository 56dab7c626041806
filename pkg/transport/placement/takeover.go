package placement

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
)

// Lead says that this process may write, from the start on. Call it before the first Sync.
func (g *Gatherer) Lead() {
	g.leading.Lock()
	defer g.leading.Unlock()
	g.leads = true
}

// TakeOver says that this process may write now, after it has stood by: it has gathered Placements
// that nobody carried out. Nothing that was decided until now counts. TakeOver first waits until
// the watches show all Bindings and CustomTransforms as they are now, and then has every Binding
// gathered again, from content that is cached. It returns an error only if the context ends.
func (g *Gatherer) TakeOver(ctx context.Context) error {
	for gvr, store := range map[schema.GroupVersionResource]cache.Store{
		controlv1alpha1.Bindings: g.config.Bindings.GetStore(), controlv1alpha1.CustomTransforms: g.config.CustomTransforms.GetStore(),
	} {
		if err := client.CatchUpStore(ctx, g.config.Versions.Resource(gvr).List, store); err != nil {
			return err
		}
	}
	// The handlers may be behind the stores.
	g.ListAll()
	g.transforms.collection.Reset()
	g.leading.Lock()
	g.leads = true
	bindingsCount.Add(-float64(g.index.Unplace()))
	bindings := g.index.Bindings()
	g.mu.Lock()
	g.unconfirmed = make(map[string]struct{}, len(bindings))
	for _, b := range bindings {
		g.unconfirmed[b.Name] = struct{}{}
	}
	g.mu.Unlock()
	g.leading.Unlock()
	for _, b := range bindings {
		g.enqueue(b.Name, "")
	}
	for _, name := range g.config.CustomTransforms.GetStore().ListKeys() {
		g.transforms.queue.Add(name)
	}
	return nil
}

// mayWrite reports whether this process may write.
func (g *Gatherer) mayWrite() bool {
	g.leading.RLock()
	defer g.leading.RUnlock()
	return g.leads
}

// gatherConfirmed is gather, for the first time after this process became the leader with the
// content that is confirmed: the last leader may have read an object in a version that the watch
// has not shown yet. What differs from what is delivered is read again, so that nothing goes back.
func (g *Gatherer) gatherConfirmed(ctx context.Context, binding *controlv1alpha1.Binding, before *Placement) (p *Placement, more again) {
	p, more = g.gather(ctx, binding, before)
	g.mu.Lock()
	_, unconfirmed := g.unconfirmed[binding.Name]
	delete(g.unconfirmed, binding.Name)
	g.mu.Unlock()
	if !unconfirmed {
		return p, more
	}
	if lacking := g.config.Mailboxes.Lacking(p); len(lacking) > 0 {
		g.objects.forget(lacking)
		return g.gather(ctx, binding, before)
	}
	return p, more
}

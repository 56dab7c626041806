package delivery

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/pkg/client"
)

// catchUp blocks until the store has had all works as they are now, or newer: a plan on an older
// view could undo what the last leader wrote. It returns an error only if the context ends.
func (d *deliverer) catchUp(ctx context.Context) error {
	return client.CatchUp(ctx, d.plugin.Works, d.its.store.generations, func(a, b int64) bool { return a > b })
}

// generations returns the generations of all works of this WDS, by UID.
func (s *store) generations() map[types.UID]int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	found := map[types.UID]int64{}
	for _, mailboxes := range s.works {
		for _, works := range mailboxes {
			for _, work := range works {
				found[work.UID] = work.Generation
			}
		}
	}
	return found
}

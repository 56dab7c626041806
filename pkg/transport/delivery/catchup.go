package delivery

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
)

const (
	// seenPoll is how often it is checked whether the watch shows what was read.
	seenPoll = 10 * time.Millisecond
	// readAgain is how long after an error, or without effect, it is read again.
	readAgain = time.Second
)

// catchUp blocks until the store has had all works as they are now, or newer: a plan on an older
// view could undo what the last leader wrote. It returns an error only if the context ends.
func (d *deliverer) catchUp(ctx context.Context) error {
	return wait.PollUntilContextCancel(ctx, readAgain, true, func(ctx context.Context) (bool, error) {
		before := d.its.store.generations()
		works, err := d.plugin.Works(ctx)
		if err != nil {
			klog.FromContext(ctx).V(2).Info("Cannot read works; will retry before anything is written", "err", err)
			return false, nil
		}
		err = wait.PollUntilContextTimeout(ctx, seenPoll, readAgain, true, func(context.Context) (bool, error) {
			return !behind(before, works, d.its.store.generations()), nil
		})
		return err == nil, nil
	})
}

// behind reports whether a store does not show the works yet that were read, after it showed those
// before. All are generations by UID. A work that was deleted by somebody else meanwhile may look
// like one that is not shown yet, until all are read again.
func behind(before, read, shown map[types.UID]int64) bool {
	for uid, generation := range read {
		_, had := before[uid]
		if now, shows := shown[uid]; shows && now < generation || !shows && !had {
			return true
		}
	}
	for uid := range before {
		_, exists := read[uid]
		if _, shows := shown[uid]; shows && !exists {
			return true
		}
	}
	return false
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

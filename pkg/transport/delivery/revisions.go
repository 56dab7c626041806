package delivery

import (
	"hash/maphash"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/transport/placement"
	"github.com/starlinghq/starling/pkg/transport/plugin"
)

// Version identifies what is known of a Binding at one destination: while it is the same, so are
// the Destination and what Observe adds to it. It is comparable.
type Version struct {
	desired *plan.Desired
	its     *its
	// revision counts the changes of what the other fields do not show.
	revision                           uint64
	notAccepted, attempted, unobserved bool
	reports                            plugin.Reports
}

// revisions count the changes of works, Outcomes, reports and retries of a Binding at a
// destination. Some of them share a counter: then a change of one is taken for a change of the
// other, too, which costs an evaluation. In return, nothing has to be removed. They are safe for
// concurrent use.
//
// A change is counted after it was made, and a reader reads the revision first. So what was read is
// never older than its revision.
type revisions struct {
	seed     maphash.Seed
	counters [1 << 16]atomic.Uint64
}

func newRevisions() *revisions { return &revisions{seed: maphash.MakeSeed()} }

func (r *revisions) counter(binding types.UID, mailbox string) *atomic.Uint64 {
	hash := maphash.Comparable(r.seed, [2]string{string(binding), mailbox})
	return &r.counters[hash%uint64(len(r.counters))]
}

// changed counts a change.
func (r *revisions) changed(binding types.UID, mailbox string) { r.counter(binding, mailbox).Add(1) }

// of returns the number of changes.
func (r *revisions) of(binding types.UID, mailbox string) uint64 {
	return r.counter(binding, mailbox).Load()
}

// statusChanged enqueues the status of a Binding because of a change at one destination.
func (c *Controller) statusChanged(p *placement.Placement, mailbox string) {
	c.revisions.changed(p.UID, mailbox)
	c.config.Statuses.Add(p.Name)
}

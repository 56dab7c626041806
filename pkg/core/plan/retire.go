package plan

import (
	"slices"

	"github.com/starlinghq/starling/pkg/core/objref"
)

// A work that was restored from a backup (Work.Restored) shows what the cluster had then. The
// cluster may have more of it since, or less, and keeps all of it as long as the work exists. So
// nothing is decided on such a work: it is none of Current.Works, and all that the Binding wants is
// delivered with other works, under names that no work had before the backup. Both own the objects
// then. When the restored work is deleted, only what no other work has leaves the cluster.

// Retire returns deletions of the works of a Binding in one mailbox that were restored from a
// backup: when the other works have everything that the Binding wants there, and the cluster has
// reported that; and not while the Binding holds anything. Built is the plan of those other works.
func Retire(restored []*Work, d *Desired, now *Current, built *Plan) []Action {
	if len(restored) == 0 || now.Hold.Any() || !now.Unattended && !settled(d, now, built) || restoredRequired(restored, d, now) {
		return nil
	}
	var actions []Action
	for _, work := range sorted(restored) {
		if !work.Deleting {
			actions = append(actions, Action{
				Verb: Delete, Reason: ReasonRetire, Mailbox: work.Mailbox, Name: work.Name, Wave: work.Wave,
				UID: work.UID, Generation: work.Generation, Recorded: work.Recorded,
			})
		}
	}
	return actions
}

// restores reports whether a restored work has the object. The cluster may own it for that work
// only, whatever the option says that it cannot apply there: then the object goes with the work. So
// the object is orphaned after that.
func (b *builder) restores(ref objref.Ref) bool {
	for _, item := range Items(b.now.Restored) {
		if item.Ref == ref {
			return true
		}
	}
	return false
}

// settled reports whether the cluster has reported everything that is wanted, and nothing is to be
// done.
func settled(d *Desired, now *Current, built *Plan) bool {
	if len(built.Actions)+len(built.Waiting)+len(built.Leaving)+len(built.Required)+len(built.TooLarge)+built.HeldBack > 0 || built.Postponed {
		return false
	}
	delivered := make(map[int]bool, d.Len())
	for work, item := range Items(now.Works) {
		if work.Deleting || !item.inCluster() {
			return false
		}
		if i, ok := d.index[item.Ref]; ok {
			delivered[i] = true
		}
	}
	return len(delivered) == d.Len() && !slices.ContainsFunc(d.objects, func(o Object) bool { return !o.Known })
}

package ocm

import (
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/plan"
)

// everyWDS selects the works of all WDSes: ours, and those that ours may be in conflict with.
const everyWDS = controlv1alpha1.LabelWDSUID

// foreign returns the WDS that a work belongs to, the zero WDS if that is ours.
func (p *Plugin) foreign(work *workv1.ManifestWork) plan.WDS {
	uid := work.Labels[controlv1alpha1.LabelWDSUID]
	if uid == string(p.config.WDSUID) {
		return plan.WDS{}
	}
	if uid == "" { // a label without a value belongs to nobody that we know
		uid = "unknown"
	}
	return plan.WDS{UID: types.UID(one(uid)), Name: one(work.Labels[controlv1alpha1.LabelWDSName])}
}

// keep returns what the informer keeps of a work. Of those of others it is what a stake is made of: their reports, say, are not
// told.
func (p *Plugin) keep(work *workv1.ManifestWork) *kept {
	k := keep(work, p.manifests)
	k.work.Foreign = p.foreign(work)
	if k.work.Foreign == (plan.WDS{}) {
		return k
	}
	k.work.Nudges = 0
	for i := range k.work.Items {
		item := &k.work.Items[i]
		k.work.Items[i] = plan.Item{Ref: item.Ref, Hash: item.Hash, Bare: item.Bare, Options: item.Options, Withdrawn: item.Withdrawn}
	}
	return k
}

package ocm

import (
	"reflect"
	"unique"

	workv1 "open-cluster-management.io/api/work/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/works"
)

// same reports whether two works differ at most in their resourceVersion, which guards the deletion
// of a work that is not begun.
func same(a, b *plan.Work) bool {
	x, y := *a, *b
	if x.Begun {
		x.ResourceVersion, y.ResourceVersion = "", ""
	}
	return reflect.DeepEqual(x, y)
}

// one returns a string equal to s that is shared by all equal strings: the same names are in every
// mailbox.
func one(s string) string { return unique.Make(s).Value() }

// everyWDS selects the works of all WDSes: ours, and others that may conflict with ours.
const everyWDS = controlv1alpha1.LabelWDSUID

// read returns what is stored of a work. Of works of other WDSes it is what a plan.Owner is made
// of: not their reports, for example.
func (p *Plugin) read(work *workv1.ManifestWork) *plan.Work {
	w := works.Read(work, p.manifests)
	w.Foreign = works.Foreign(work, p.config.WDSUID)
	if w.Foreign == (plan.WDS{}) {
		return w
	}
	w.Nudges = 0
	for i := range w.Items {
		item := &w.Items[i]
		w.Items[i] = plan.Item{Ref: item.Ref, Hash: item.Hash, Bare: item.Bare, Options: item.Options, Withdrawn: item.Withdrawn}
	}
	return w
}

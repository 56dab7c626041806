package ocm

import (
	"strconv"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/health"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/metrics"
	"github.com/starlinghq/starling/pkg/statusreports"
	"github.com/starlinghq/starling/pkg/statusreports/mailboxes"
	"github.com/starlinghq/starling/pkg/transport/plugin"
)

// reportsRefused has the mailboxes that hold more than is read of one cluster.
var reportsRefused = metrics.NewClusterGauge("starling_transport_reports_refused",
	"WorkStatuses in the mailbox of a cluster whose health is ignored, because it has more, or larger ones, than are read of one cluster.")

// report is what is kept of a WorkStatus.
type report struct {
	mailbox string
	ref     objref.Ref
	plugin.Report
}

// reduceReport evaluates a WorkStatus, and drops everything but what it says of the object.
func reduceReport(ws *controlv1alpha1.WorkStatus) mailboxes.Kept[report] {
	ref := mailboxes.RefOf(ws)
	r := &report{
		mailbox: one(ws.Namespace),
		ref:     objref.Ref{Group: one(ref.Group), Resource: one(ref.Resource), Namespace: one(ref.Namespace), Name: one(ref.Name)},
	}
	var status map[string]any
	if ws.Status != nil && len(ws.Status.Raw) > 0 {
		if err := json.Unmarshal(ws.Status.Raw, &status); err != nil {
			status = nil // an API server stores no other than JSON objects there
		}
	}
	generation, err := strconv.ParseInt(ws.Annotations[controlv1alpha1.AnnotationGeneration], 10, 64)
	if err != nil {
		generation = 0 // the agent does not know it, or the kind has none
	}
	r.Verdict = health.Evaluate(schema.GroupKind{Group: ref.Group, Kind: ws.Spec.SourceRef.Kind}, status, generation)
	r.Message = one(r.Message)
	r.Gone = statusreports.IsGone(ws)
	r.Source = types.UID(one(string(statusreports.SourceOf(ws).UID)))
	// The schema of WorkStatuses does not bound these strings.
	size := len(ref.Group) + len(ref.Resource) + len(ref.Namespace) + len(ref.Name) + len(r.Message)
	return mailboxes.Kept[report]{Value: r, Bytes: size}
}

// newReports returns a Store of the reports for a WDS, of which the Handler receives the changes.
func newReports(wds types.UID, limits mailboxes.Limits, handler plugin.Handler) *mailboxes.Store[report] {
	return mailboxes.New(mailboxes.Config[report]{
		WDS: wds, Limits: limits, Reduce: reduceReport,
		Changed: func(before, after *report) {
			if after == nil {
				handler.OnReport(before.mailbox, before.ref, nil)
				return
			}
			// The name of a WorkStatus follows from its object, so before is about the same one.
			handler.OnReport(after.mailbox, after.ref, &after.Report)
		},
		Partial:   handler.OnPartial,
		Listed:    func() { handler.OnReports(plugin.ReportsRead) },
		NotServed: func() { handler.OnReports(plugin.ReportsNone) }, // the add-on is not installed
	})
}

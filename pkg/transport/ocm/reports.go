package ocm

import (
	"context"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/tools/cache"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/health"
	"github.com/starlinghq/starling/pkg/core/objref"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/transport/plugin"
)

// report is what the informer stores of a WorkStatus.
type report struct {
	mailbox string
	ref     objref.Ref
	verdict health.Verdict
	own     bool // it has the name that the agent gives it
}

// reduceReport evaluates a WorkStatus, and drops everything but the verdict.
func reduceReport(ws *controlv1alpha1.WorkStatus) any {
	source := &ws.Spec.SourceRef
	r := report{
		mailbox: one(ws.Namespace),
		ref:     objref.Ref{Group: one(source.Group), Resource: one(source.Resource), Namespace: one(source.Namespace), Name: one(source.Name)},
	}
	// A WorkStatus of another name was written by hand, and the agent is about to remove it.
	r.own = ws.Name == corestatus.ReportName(r.ref)
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
	r.verdict = health.Evaluate(schema.GroupKind{Group: source.Group, Kind: source.Kind}, status, generation)
	r.verdict.Message = one(r.verdict.Message)
	return newReduced(ws, r)
}

// reportInformer returns an informer on the WorkStatuses of our WDS, which stores a report of each.
func (p *Plugin) reportInformer(handler plugin.Handler) (cache.SharedIndexInformer, cache.ResourceEventHandlerRegistration, error) {
	selector := labels.SelectorFromSet(labels.Set{controlv1alpha1.LabelWDSUID: string(p.config.WDSUID)}).String()
	client := p.control.WorkStatuses(metav1.NamespaceAll)
	informer, err := newInformer(selector, client.List, client.Watch, &controlv1alpha1.WorkStatus{}, reduceReport)
	if err != nil {
		return nil, nil, fmt.Errorf("watch WorkStatuses: %w", err)
	}
	err = informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		if apierrors.IsNotFound(err) {
			handler.OnReports(plugin.ReportsNone) // the ITS has no WorkStatuses: the add-on is not installed
			return
		}
		cache.DefaultWatchErrorHandler(ctx, r, err)
	})
	if err != nil {
		return nil, nil, fmt.Errorf("watch WorkStatuses: %w", err)
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { reportHealth(handler, obj, true) },
		UpdateFunc: func(before, after any) { reportChange(handler, before, after) },
		DeleteFunc: func(obj any) { reportHealth(handler, obj, false) },
	})
	if err != nil {
		return nil, nil, fmt.Errorf("watch WorkStatuses: %w", err)
	}
	return informer, registration, nil
}

func reportChange(handler plugin.Handler, before, after any) {
	old, okOld := valueOf[report](before)
	current, ok := valueOf[report](after)
	if okOld && ok && old.ref != current.ref {
		reportHealth(handler, before, false) // it is about another object now
	}
	reportHealth(handler, after, true)
}

func reportHealth(handler plugin.Handler, obj any, exists bool) {
	r, ok := valueOf[report](obj)
	switch {
	case !ok || !r.own:
	case exists:
		handler.OnReport(r.mailbox, r.ref, &r.verdict)
	default:
		handler.OnReport(r.mailbox, r.ref, nil)
	}
}

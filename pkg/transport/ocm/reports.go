package ocm

import (
	"context"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/health"
	"github.com/starlinghq/starling/pkg/core/objref"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/transport"
)

// report is what the informer keeps of a WorkStatus.
type report struct {
	metav1.ObjectMeta
	ref     objref.Ref
	verdict health.Verdict
	own     bool // it has the name that the agent gives it
}

func (r *report) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject returns r itself: it is immutable.
func (r *report) DeepCopyObject() runtime.Object { return r }

// keepReport judges a WorkStatus, and keeps the verdict.
func keepReport(ws *controlv1alpha1.WorkStatus) *report {
	source := &ws.Spec.SourceRef
	r := &report{
		ObjectMeta: metav1.ObjectMeta{Namespace: ws.Namespace, Name: ws.Name, UID: ws.UID, ResourceVersion: ws.ResourceVersion},
		ref:        objref.Ref{Group: one(source.Group), Resource: one(source.Resource), Namespace: one(source.Namespace), Name: one(source.Name)},
	}
	// What is not named so was written by hand, and the agent is about to remove it.
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
	r.verdict = health.Judge(schema.GroupKind{Group: source.Group, Kind: source.Kind}, status, generation)
	r.verdict.Message = one(r.verdict.Message)
	return r
}

// reportInformer returns an informer on the WorkStatuses of our WDS, which holds *report.
func (p *Plugin) reportInformer(handler transport.Handler) (cache.SharedIndexInformer, cache.ResourceEventHandlerRegistration, error) {
	selector := labels.SelectorFromSet(labels.Set{controlv1alpha1.LabelWDSUID: string(p.config.WDSUID)}).String()
	client := p.control.WorkStatuses(metav1.NamespaceAll)
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = selector
			return client.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = selector
			return client.Watch(ctx, o)
		},
	}, &controlv1alpha1.WorkStatus{}, 0, cache.Indexers{})
	err := informer.SetTransform(func(obj any) (any, error) {
		if ws, ok := obj.(*controlv1alpha1.WorkStatus); ok {
			return keepReport(ws), nil
		}
		return obj, nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("watch WorkStatuses: %w", err)
	}
	err = informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		if apierrors.IsNotFound(err) {
			handler.OnReports(transport.ReportsNone) // the space has no WorkStatuses; the add-on is not installed
			return
		}
		cache.DefaultWatchErrorHandler(ctx, r, err)
	})
	if err != nil {
		return nil, nil, fmt.Errorf("watch WorkStatuses: %w", err)
	}
	told, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { tellReport(handler, obj, true) },
		UpdateFunc: func(before, after any) { tellReports(handler, before, after) },
		DeleteFunc: func(obj any) { tellReport(handler, obj, false) },
	})
	if err != nil {
		return nil, nil, fmt.Errorf("watch WorkStatuses: %w", err)
	}
	return informer, told, nil
}

func tellReports(handler transport.Handler, before, after any) {
	if old, current := reportOf(before), reportOf(after); old != nil && current != nil && old.ref != current.ref {
		tellReport(handler, before, false) // it is about another object now
	}
	tellReport(handler, after, true)
}

func tellReport(handler transport.Handler, obj any, there bool) {
	r := reportOf(obj)
	switch {
	case r == nil || !r.own:
	case there:
		handler.OnReport(r.Namespace, r.ref, &r.verdict)
	default:
		handler.OnReport(r.Namespace, r.ref, nil)
	}
}

func reportOf(obj any) *report {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	r, _ := obj.(*report)
	return r
}

package transport

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/starlinghq/starling/pkg/transport/ocm"
)

// agent answers for the clusters of one test as OCM's agents would: it reports every manifest
// applied, unless told otherwise, and takes its finalizer away from works that are deleted.
type agent struct {
	e      *environment
	prefix string // of its clusters

	mu sync.Mutex
	// fails gives the error of a manifest, described as in environment.contents; "" is none.
	fails func(manifest string) string
	// offline lists clusters that do not answer.
	offline map[string]bool
	// said is what was reported last of each work.
	said  map[types.UID]string
	again chan struct{}
}

func newAgent(e *environment) *agent {
	a := &agent{e: e, prefix: e.name + "-", fails: func(string) string { return "" }, offline: map[string]bool{}, said: map[types.UID]string{}, again: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(e.t.Context())
	informer := dynamicinformer.NewFilteredDynamicInformer(e.its, ocm.ManifestWorks, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
	// One answer at a time: of two at once, what was said last might not be what was written last.
	var answering sync.Mutex
	handle := func(obj any) {
		answering.Lock()
		defer answering.Unlock()
		if work, ok := obj.(*unstructured.Unstructured); ok {
			a.answer(ctx, work)
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: handle, UpdateFunc: func(_, obj any) { handle(obj) },
	}); err != nil {
		e.t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { informer.RunWithContext(ctx) })
	running.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-a.again:
				for _, obj := range informer.GetStore().List() {
					handle(obj)
				}
			}
		}
	})
	e.t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return a
}

// set changes how the agent answers, and makes it answer again.
func (a *agent) set(change func(a *agent)) {
	a.mu.Lock()
	change(a)
	a.mu.Unlock()
	a.again <- struct{}{}
}

func (a *agent) answer(ctx context.Context, obj *unstructured.Unstructured) {
	mailbox := obj.GetNamespace()
	a.mu.Lock()
	fails, offline := a.fails, a.offline[mailbox]
	a.mu.Unlock()
	if offline || !strings.HasPrefix(mailbox, a.prefix) {
		return
	}
	patch := func(raw []byte, subresources ...string) {
		_, err := a.e.its.Resource(ocm.ManifestWorks).Namespace(mailbox).Patch(ctx, obj.GetName(), types.MergePatchType, raw, metav1.PatchOptions{}, subresources...)
		if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
			a.failed(obj.GetUID())
		}
	}
	if obj.GetDeletionTimestamp() != nil {
		if slices.Contains(obj.GetFinalizers(), workv1.ManifestWorkFinalizer) {
			patch([]byte(`{"metadata":{"finalizers":null}}`))
		}
		return
	}
	if !slices.Contains(obj.GetFinalizers(), workv1.ManifestWorkFinalizer) {
		patch([]byte(`{"metadata":{"finalizers":["` + workv1.ManifestWorkFinalizer + `"]}}`))
	}
	var work workv1.ManifestWork
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &work); err != nil {
		return
	}
	status := report(a.e, &work, fails)
	// What was said last may not be in this event yet: to say it again would be another write to
	// the work.
	payload := payloadOf(status)
	if payload == payloadOf(work.Status) || !a.say(work.UID, payload) {
		return
	}
	raw, err := json.Marshal(map[string]any{"status": status})
	if err == nil {
		patch(raw, "status")
	}
}

// failed has what could not be written, since many wrote at once, said again.
func (a *agent) failed(uid types.UID) {
	a.mu.Lock()
	delete(a.said, uid)
	a.mu.Unlock()
	select {
	case a.again <- struct{}{}:
	default: // it is going to be anyway
	}
}

// say records a report on a work, and reports whether it differs from the last one.
func (a *agent) say(uid types.UID, payload string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	before, known := a.said[uid]
	a.said[uid] = payload
	return !known || before != payload
}

// payloadOf returns what a report says, not when.
func payloadOf(s workv1.ManifestWorkStatus) string {
	s = *s.DeepCopy()
	for i := range s.ResourceStatus.Manifests {
		for j := range s.ResourceStatus.Manifests[i].Conditions {
			s.ResourceStatus.Manifests[i].Conditions[j].LastTransitionTime = metav1.Time{}
		}
	}
	s.Conditions = nil
	raw, _ := json.Marshal(s)
	return string(raw)
}

// identityOf returns what is reported of an object for which the work asks which one it is.
func identityOf(work *workv1.ManifestWork, name string) (values []workv1.FeedbackValue) {
	for _, c := range work.Spec.ManifestConfigs {
		for _, rule := range c.FeedbackRules {
			if uid := "uid-of-" + name; c.ResourceIdentifier.Name == name {
				values = append(values, workv1.FeedbackValue{Name: rule.JsonPaths[0].Name, Value: workv1.FieldValue{Type: workv1.String, String: &uid}})
			}
		}
	}
	return values
}

func report(e *environment, work *workv1.ManifestWork, fails func(string) string) workv1.ManifestWorkStatus {
	var status workv1.ManifestWorkStatus
	lines := describe(e.t, work)
	for i := range work.Spec.Workload.Manifests {
		var o metav1.PartialObjectMetadata
		if err := json.Unmarshal(work.Spec.Workload.Manifests[i].Raw, &o); err != nil {
			continue
		}
		gvk := o.GroupVersionKind()
		resource, _ := meta.UnsafeGuessKindToResource(gvk)
		condition := metav1.Condition{
			Type: workv1.ManifestApplied, Status: metav1.ConditionTrue, Reason: "AppliedManifestComplete",
			ObservedGeneration: work.Generation, LastTransitionTime: metav1.Now(),
		}
		if text := fails(lines[i]); text != "" {
			condition.Status, condition.Reason = metav1.ConditionFalse, "AppliedManifestFailed"
			condition.Message = "Failed to apply manifest: " + text
		}
		status.ResourceStatus.Manifests = append(status.ResourceStatus.Manifests, workv1.ManifestCondition{
			ResourceMeta: workv1.ManifestResourceMeta{
				Ordinal: int32(i), Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Resource: resource.Resource,
				Namespace: o.Namespace, Name: o.Name,
			},
			Conditions:      []metav1.Condition{condition},
			StatusFeedbacks: workv1.StatusFeedbackResult{Values: identityOf(work, o.Name)},
		})
	}
	return status
}

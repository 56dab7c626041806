package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/controller/worker"
	"github.com/starlinghq/starling/pkg/core/pace"
	"github.com/starlinghq/starling/pkg/logging"
	"github.com/starlinghq/starling/pkg/writer"
)

const (
	// believed is how long a WorkStatus that we wrote is assumed to exist although the watch does
	// not show it. The watch shows it within milliseconds, unless it was interrupted and the
	// WorkStatus was deleted in that time.
	believed = 10 * time.Second
	// notice is how long a controller in the WEC has to observe a change before the report says
	// that it did not.
	notice = 2 * time.Second
	// leastStatus is the least size in bytes to which a status is truncated, however often the hub
	// refuses it.
	leastStatus = 1 << 10
)

// eachReport is what each object may always report, however busy others are, and betweenReports the
// time between two further reports, while the agent has not used its limit. So the steps of a
// rollout arrive at once, as do those of an object that changes ten times a second; of many such
// objects, each is reported once a second.
var eachReport = pace.Limit{Interval: time.Second, Burst: 5}

const betweenReports = 50 * time.Millisecond

// record is what was written last to one WorkStatus.
type record struct {
	at time.Time
	// report is the WorkStatus after the write; nil after a deletion.
	report *report
}

// sync makes the WorkStatus of that name what it should be.
func (a *Agent) sync(ctx context.Context, name string) (worker.Result, error) {
	if !a.synced() {
		return worker.Result{}, nil // everything is requeued after that
	}
	in, err := a.gather(ctx, name)
	if err != nil {
		return worker.Result{}, err
	}
	v := decide(in)
	if v.nothing() {
		again := a.forgetDone(name, in)
		if in.fresh > 0 {
			again = in.fresh // and then the rest
		}
		return worker.Result{After: again}, nil
	}
	if wait := a.takeTurn(name); wait > 0 {
		// Its newest state is reported then. An attempt that fails has used its turn, too, so that
		// attempts are no more than reports are.
		return worker.Result{After: wait, KeepBackOff: true}, nil
	}
	if err := a.act(ctx, name, in.report, v); err != nil {
		if v.status != nil && refusedForSize(err) && a.allowLess(name, len(in.object.status)) {
			klog.FromContext(ctx).Info("The hub refuses the status because of its size; will truncate it", "bytes", len(in.object.status))
			return worker.Result{After: time.Millisecond}, nil
		}
		return worker.Result{}, err
	}
	klog.FromContext(ctx).V(2).Info("Reported", logging.Reason, v.reason, "created", v.create != nil, "deleted", v.remove)
	a.reported(name)
	if in.fresh > 0 {
		return worker.Result{After: in.fresh}, nil
	}
	return worker.Result{After: believed}, nil
}

func (a *Agent) gather(ctx context.Context, name string) (evidence, error) {
	in := evidence{name: name, report: a.current(name)}
	h, held := a.index.lookup(name)
	if !held {
		return in, nil
	}
	in.holding = &h
	gr := h.ref.GroupResource()
	if in.kindGone = a.kinds.isGone(gr); in.kindGone {
		return in, nil
	}
	// Read before the object: what was read by now is found below.
	in.read = a.objects.Synced(gr)
	obj, ok := a.objects.Get(h.ref)
	if !ok {
		a.mu.Lock()
		if since, changed := a.since[name]; changed {
			in.fresh = max(0, notice-a.config.Clock.Since(since))
		}
		a.mu.Unlock()
		return in, nil
	}
	in.object, ok = obj.(*reported)
	if !ok {
		return evidence{}, fmt.Errorf("%s is cached as %T", h.ref, obj)
	}
	if !in.object.applied {
		// A work holds it and does not own it, because it will be orphaned. So only its name is
		// cached. There are few of those.
		resource, ok := a.objects.Resource(gr)
		if !ok {
			in.read = false
			return in, nil
		}
		whole, err := a.wec.Resource(resource.GroupVersionResource).Namespace(h.ref.Namespace).Get(ctx, h.ref.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			in.object = nil
			return in, nil
		}
		if err != nil {
			return evidence{}, fmt.Errorf("read %s: %w", h.ref, err)
		}
		if in.object, err = keep(whole); err != nil {
			return evidence{}, err
		}
	}
	in.excluded = a.config.Excluded.Kind(in.object.gvk.GroupKind())
	a.mu.Lock()
	limit, limited := a.limits[name]
	if pending, ok := a.changed[h.ref]; ok {
		in.fresh = max(0, notice-a.config.Clock.Since(pending.at))
	}
	a.mu.Unlock()
	if limited {
		var err error
		if in.object, err = in.object.within(limit); err != nil {
			return evidence{}, err
		}
	}
	return in, nil
}

// act carries the verdict out.
func (a *Agent) act(ctx context.Context, name string, before *report, v verdict) error {
	target := writer.Target{Resource: controlv1alpha1.WorkStatuses, Namespace: a.config.Cluster, Name: name}
	if v.remove {
		err := a.recordHub(ctx, a.hubWriter.Delete(ctx, target, before.UID, v.reason))
		if err == nil || apierrors.IsNotFound(err) {
			a.remember(name, nil)
			return nil
		}
		return err
	}
	// What was written before a failure is remembered, or the next attempt would write it again.
	now := v.after
	var answer *metav1.PartialObjectMetadata
	var err error
	if before != nil {
		now.UID = before.UID
	}
	if v.create != nil {
		v.create.Namespace = a.config.Cluster
		if answer, err = a.hubWriter.Create(ctx, target, v.create, v.reason); a.recordHub(ctx, err) != nil {
			return err
		}
		bare := *now
		bare.hash = ""
		a.remember(name, stamp(&bare, answer))
	}
	status := target
	status.Subresource = "status"
	if v.clear {
		if answer, err = a.hubWriter.Patch(ctx, status, types.JSONPatchType, []byte(noStatus), v.reason); a.recordHub(ctx, err) != nil {
			return err
		}
		cleared := *before
		cleared.hash = ""
		before = stamp(&cleared, answer)
		a.remember(name, before)
	}
	if v.statusFirst {
		if answer, err = a.hubWriter.Patch(ctx, status, types.JSONPatchType, v.status, v.reason); a.recordHub(ctx, err) != nil {
			return err
		}
		reported := *before
		reported.hash = now.hash
		before = stamp(&reported, answer)
		a.remember(name, before)
		v.status = nil
	}
	if v.amend != nil {
		if answer, err = a.hubWriter.Patch(ctx, target, types.MergePatchType, v.amend, v.reason); a.recordHub(ctx, err) != nil {
			return err
		}
		amended := *now
		amended.hash = before.hash
		a.remember(name, stamp(&amended, answer))
	}
	if v.status != nil {
		if answer, err = a.hubWriter.Patch(ctx, status, types.JSONPatchType, v.status, v.reason); a.recordHub(ctx, err) != nil {
			return err
		}
		a.remember(name, stamp(now, answer))
	}
	return nil
}

// refusedForSize reports whether an API server, or etcd behind it, refused a write because of its
// size. etcd's errors have only texts.
func refusedForSize(err error) bool {
	return apierrors.IsRequestEntityTooLargeError(err) ||
		strings.Contains(err.Error(), "request is too large") || strings.Contains(err.Error(), "message larger than max")
}

// allowLess halves the limit of a status that was refused. It returns false if the status is so
// short that its size cannot be the reason.
func (a *Agent) allowLess(name string, refused int) bool {
	if refused <= leastStatus {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.limits[name] = max(leastStatus, refused/2)
	return true
}

// recordHub logs once that the hub is unreachable or responds with 401, and once that it is
// reachable again. It returns the error.
func (a *Agent) recordHub(ctx context.Context, err error) error {
	var answer apierrors.APIStatus
	unreachable := err != nil && (!errors.As(err, &answer) || apierrors.IsUnauthorized(err))
	switch {
	case ctx.Err() != nil:
	case unreachable && a.hubUnreachable.CompareAndSwap(false, true):
		klog.FromContext(ctx).Error(err, "Cannot reach the hub; will report changes when it is reachable")
	case !unreachable && a.hubUnreachable.CompareAndSwap(true, false):
		klog.FromContext(ctx).Info("The hub is reachable again")
	}
	return err
}

// hubWatchFailed detects an unreachable hub while there is nothing to write to it.
func (a *Agent) hubWatchFailed(ctx context.Context, r *cache.Reflector, err error) {
	cache.DefaultWatchErrorHandler(ctx, r, err)
	a.recordWatch(ctx, err)
}

func (a *Agent) recordWatch(ctx context.Context, err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return // API servers end watches from time to time
	}
	_ = a.recordHub(ctx, err)
}

// current returns the current WorkStatus: as the watch shows it, or as we wrote it if the watch is
// behind.
func (a *Agent) current(name string) *report {
	item, exists, err := a.mailbox.informer.GetStore().GetByKey(a.config.Cluster + "/" + name)
	var seen *report
	if err == nil && exists {
		seen, _ = item.(*report)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	last, ok := a.written[name]
	switch {
	case !ok || last.report == nil:
		return seen
	case seen == nil && a.config.Clock.Since(last.at) >= believed:
		return nil
	case seen == nil, newer(last.report.ResourceVersion, seen.ResourceVersion):
		return last.report
	default:
		return seen
	}
}

// reportDeleted requeues a deleted WorkStatus, and no longer assumes that it is as it was written.
func (a *Agent) reportDeleted(obj any) {
	name := nameOf(obj)
	deleted, ok := obj.(*report) // else a tombstone: it is not known which version was deleted
	a.mu.Lock()
	if last, remembered := a.written[name]; remembered && last.report != nil {
		if !ok || !newer(last.report.ResourceVersion, deleted.ResourceVersion) {
			last.report = nil
			a.written[name] = last
		}
	}
	a.mu.Unlock()
	a.queue.Add(name)
}

func (a *Agent) remember(name string, r *report) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.written[name] = record{at: a.config.Clock.Now(), report: r}
}

// takeTurn returns 0 if the WorkStatus may be written now, which it counts, and otherwise how long
// to wait.
func (a *Agent) takeTurn(name string) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pace.Take(name, a.config.Clock.Now())
}

// forgetDone forgets what is reported: the change of the object, and after a while what was
// written and how often. It returns the rest of that while, 0 if nothing is left.
func (a *Agent) forgetDone(name string, in evidence) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if missing := in.object == nil && in.fresh > 0; in.holding == nil || in.read && !missing || in.kindGone {
		delete(a.since, name)
	}
	if in.holding == nil {
		delete(a.limits, name)
	}
	left := a.pace.Rest(name, a.config.Clock.Now())
	last, ok := a.written[name]
	if !ok {
		return left
	}
	rest := believed - a.config.Clock.Since(last.at)
	if rest <= 0 {
		delete(a.written, name)
	}
	return max(left, rest)
}

// reported records that the object's change is in the mailbox.
func (a *Agent) reported(name string) {
	a.mu.Lock()
	since, ok := a.since[name]
	delete(a.since, name)
	a.mu.Unlock()
	if ok {
		reporting.WithLabelValues(a.config.Cluster).Observe(a.config.Clock.Since(since).Seconds())
	}
}

// stamp returns the report with the identity that the API server assigned.
func stamp(r *report, answer *metav1.PartialObjectMetadata) *report {
	stamped := *r
	stamped.UID, stamped.ResourceVersion = answer.UID, answer.ResourceVersion
	return &stamped
}

// newer reports whether a is a later version than b. Versions that cannot be compared are not.
func newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0
}

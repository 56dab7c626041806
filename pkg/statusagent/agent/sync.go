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
	"github.com/starlinghq/starling/pkg/logging"
	"github.com/starlinghq/starling/pkg/write"
)

const (
	// quiet is the time between two writes of one WorkStatus, so that an object under churn costs one write per second.
	quiet = time.Second
	// believed is how long a WorkStatus that we wrote and do not see is believed to be there. The watch shows it within
	// milliseconds, unless it was interrupted just then and somebody deleted the WorkStatus meanwhile.
	believed = 10 * time.Second
	// notice is how long a controller in the WEC has to take notice of a change before it is told that it did not.
	notice = 2 * time.Second
	// leastStatus is how many bytes of a status are reported at least, however often the hub refuses it.
	leastStatus = 1 << 10
)

// record is what was written last to one WorkStatus.
type record struct {
	at time.Time
	// report is the WorkStatus as it was then; nil after a deletion.
	report *report
}

func (a *Agent) next(ctx context.Context) bool {
	k, shutdown := a.queue.Get()
	if shutdown {
		return false
	}
	defer a.queue.Done(k)
	again, err := a.sync(ctx, k.name)
	switch {
	case ctx.Err() != nil:
		return false
	case err == nil:
		a.queue.Forget(k)
		if again > 0 {
			a.queue.AddAfter(k, again)
		}
	case a.hubTrouble.Load(), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err), apierrors.IsConflict(err):
		// It was said that the hub is in trouble; or the watch is behind what is there.
		klog.FromContext(ctx).V(4).Info("Trying again", logging.Key, k.name, logging.Reason, err.Error())
		a.queue.AddRateLimited(k)
	default:
		klog.FromContext(ctx).Error(err, "Cannot report", logging.Key, k.name)
		a.queue.AddRateLimited(k)
	}
	return true
}

// sync makes the WorkStatus of that name what it should be. It returns when to look again, 0 for not before a change.
func (a *Agent) sync(ctx context.Context, name string) (time.Duration, error) {
	if !a.synced() {
		return 0, nil // everything is looked at when that is done
	}
	in, err := a.gather(ctx, name)
	if err != nil {
		return 0, err
	}
	v := decide(in)
	if v.nothing() {
		again := a.settled(name, in)
		if in.fresh > 0 {
			again = in.fresh // and then the rest
		}
		return again, nil
	}
	if wait := a.untilQuiet(name); wait > 0 {
		return wait, nil
	}
	if err := a.act(ctx, name, in.report, v); err != nil {
		if v.status != nil && refusedForSize(err) && a.allowLess(name, len(in.object.status)) {
			klog.FromContext(ctx).Info("The hub refuses so large a status; reporting less of it", logging.Key, name, "bytes", len(in.object.status))
			return time.Millisecond, nil
		}
		return 0, err
	}
	klog.FromContext(ctx).V(2).Info("Reported", logging.Key, name, logging.Reason, v.reason, "created", v.create != nil, "deleted", v.remove)
	a.reported(name)
	if in.fresh > 0 {
		return in.fresh, nil
	}
	return believed, nil
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
	// Asked before the object is: what was read by now is found below.
	in.read = a.objects.Synced(gr)
	obj, ok := a.objects.Get(h.ref)
	if !ok {
		return in, nil
	}
	in.object, ok = obj.(*reported)
	if !ok {
		return evidence{}, fmt.Errorf("%s is known as %T", h.ref, obj)
	}
	if !in.object.applied {
		// A work holds it and does not own it (it is to be orphaned), so only its name was kept. There are few of those.
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
		short, err := in.object.within(limit)
		if err != nil {
			return evidence{}, err
		}
		in.object = short
	}
	return in, nil
}

// act carries the verdict out.
func (a *Agent) act(ctx context.Context, name string, before *report, v verdict) error {
	target := write.Target{Resource: controlv1alpha1.WorkStatuses, Namespace: a.config.Cluster, Name: name}
	if v.remove {
		err := a.noteHub(ctx, a.hubWriter.Delete(ctx, target, before.UID, v.reason))
		if err == nil || apierrors.IsNotFound(err) {
			a.remember(name, nil)
			return nil
		}
		return err
	}
	// What was written before a failure is remembered, or the next attempt would do it again.
	now := v.after
	var answer *metav1.PartialObjectMetadata
	var err error
	if before != nil {
		now.UID = before.UID
	}
	if v.create != nil {
		v.create.Namespace = a.config.Cluster
		if answer, err = a.hubWriter.Create(ctx, target, v.create, v.reason); a.noteHub(ctx, err) != nil {
			return err
		}
		bare := *now
		bare.hash = ""
		a.remember(name, stamp(&bare, answer))
	}
	if v.amend != nil {
		if answer, err = a.hubWriter.Patch(ctx, target, types.MergePatchType, v.amend, v.reason); a.noteHub(ctx, err) != nil {
			return err
		}
		amended := *now
		amended.hash = before.hash
		a.remember(name, stamp(&amended, answer))
	}
	if v.status != nil {
		target.Subresource = "status"
		if answer, err = a.hubWriter.Patch(ctx, target, types.JSONPatchType, v.status, v.reason); a.noteHub(ctx, err) != nil {
			return err
		}
		a.remember(name, stamp(now, answer))
	}
	return nil
}

// refusedForSize tells whether an API server, or the storage behind it, refused to write because there is too much.
func refusedForSize(err error) bool {
	return apierrors.IsRequestEntityTooLargeError(err) ||
		strings.Contains(err.Error(), "request is too large") || strings.Contains(err.Error(), "message larger than max")
}

// allowLess halves what may be reported of a status that was refused; false if it is so short that its size cannot be why.
func (a *Agent) allowLess(name string, refused int) bool {
	if refused <= leastStatus {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.limits[name] = max(leastStatus, refused/2)
	return true
}

// noteHub says once that the hub went away or does not know us any more, and once that it is back. It returns the error that it is given.
func (a *Agent) noteHub(ctx context.Context, err error) error {
	var answer apierrors.APIStatus
	trouble := err != nil && (!errors.As(err, &answer) || apierrors.IsUnauthorized(err))
	switch {
	case ctx.Err() != nil:
	case trouble && a.hubTrouble.CompareAndSwap(false, true):
		klog.FromContext(ctx).Error(err, "Cannot reach the hub; what changes is sent when it is back")
	case !trouble && a.hubTrouble.CompareAndSwap(true, false):
		klog.FromContext(ctx).Info("The hub is back")
	}
	return err
}

// hubWatchFailed takes notice of a hub that is away, or does not know us any more, while there is nothing to write to it.
func (a *Agent) hubWatchFailed(ctx context.Context, r *cache.Reflector, err error) {
	cache.DefaultWatchErrorHandler(ctx, r, err)
	a.noteWatch(ctx, err)
}

func (a *Agent) noteWatch(ctx context.Context, err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return // API servers end watches now and then
	}
	_ = a.noteHub(ctx, err)
}

// current returns the WorkStatus as it is: as the watch shows it, or as we wrote it if the watch is behind.
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

// reportDeleted looks at a WorkStatus that is gone: it is no longer believed to be as it was written.
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
	a.queue.Add(key{name})
}

func (a *Agent) remember(name string, r *report) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.written[name] = record{at: a.config.Clock.Now(), report: r}
}

// untilQuiet returns how long the WorkStatus must not be written yet.
func (a *Agent) untilQuiet(name string) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	last, ok := a.written[name]
	if !ok {
		return 0
	}
	return quiet - a.config.Clock.Since(last.at)
}

// settled forgets what is over: the change that came in, and in time what was written. It returns when that is, 0 if nothing is left.
func (a *Agent) settled(name string, in evidence) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if in.holding == nil || in.read || in.kindGone {
		delete(a.since, name)
	}
	if in.holding == nil {
		delete(a.limits, name)
	}
	last, ok := a.written[name]
	if !ok {
		return 0
	}
	left := believed - a.config.Clock.Since(last.at)
	if left <= 0 {
		delete(a.written, name)
	}
	return max(0, left)
}

// reported notes that the object's change is in the mailbox.
func (a *Agent) reported(name string) {
	a.mu.Lock()
	since, ok := a.since[name]
	delete(a.since, name)
	a.mu.Unlock()
	if ok {
		reporting.WithLabelValues(a.config.Cluster).Observe(a.config.Clock.Since(since).Seconds())
	}
}

// stamp returns the report with the identity that the API server gave it.
func stamp(r *report, answer *metav1.PartialObjectMetadata) *report {
	stamped := *r
	stamped.UID, stamped.ResourceVersion = answer.UID, answer.ResourceVersion
	return &stamped
}

// newer tells whether a is a later version than b; versions that cannot be compared are not.
func newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0
}

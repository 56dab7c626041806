package feedback

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/controller/worker"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/transport/delivery"
	"github.com/starlinghq/starling/pkg/transport/placement"
	"github.com/starlinghq/starling/pkg/writer"
)

const (
	// statusInterval is the least time between two writes of the status of one Binding: the reports
	// of a fleet come one by one.
	statusInterval = time.Second
	// startUp is how long after the start the status of a Binding stays as it was while not all its
	// mailboxes have been read.
	startUp = 30 * time.Second
	// holdBack is how long a status is held back that says that something is under way.
	holdBack = 300 * time.Millisecond
)

// Config is what a Reporter is made of. All is required except Excluded.
type Config struct {
	Index      *placement.Index
	Deliveries *delivery.Controller
	// Queue is that of the Bindings for which Sync is called.
	Queue placement.Queue
	// Bindings is the informer on the Bindings of the WDS, the one whose store the Index reads.
	Bindings cache.SharedIndexInformer
	// WDS writes the status of Bindings.
	WDS *writer.Writer
	// Excluded are the kinds that agents do not report, besides those without a status. Their
	// reports are not missed.
	Excluded corestatus.Excluded
	Clock    clock.WithTicker
}

// Reporter writes the status of Bindings.
type Reporter struct {
	config Config
	// started is when it began to write.
	started time.Time

	mu      sync.Mutex
	history map[string]*history // by the name of the Binding
}

// history is what is remembered of a Binding. Only the worker that has the Binding uses it.
type history struct {
	// written is the last status that was written, at a time, and the resourceVersion of the
	// Binding after that.
	written controlv1alpha1.BindingStatus
	at      time.Time
	version string
	// heldBack is since when a status is held back; zero if none is.
	heldBack time.Time
	// readings are what was said about the destinations.
	readings readings
}

// New returns a Reporter.
func New(config Config) (*Reporter, error) {
	r := &Reporter{config: config, started: config.Clock.Now(), history: map[string]*history{}}
	_, err := config.Bindings.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(before, after any) {
		old, okOld := before.(*controlv1alpha1.Binding)
		current, ok := after.(*controlv1alpha1.Binding)
		// A Binding that changed is gathered again first. Otherwise somebody wrote its status,
		// which is corrected if it was not us.
		if okOld && ok && !placement.Changed(old, current) {
			config.Queue.Add(current.Name)
		}
	}})
	if err != nil {
		return nil, fmt.Errorf("watch Bindings: %w", err)
	}
	return r, nil
}

// Start says that the Reporter begins to write now. Call it before the first Sync.
func (r *Reporter) Start() { r.started = r.config.Clock.Now() }

// Sync writes the status of a Binding if its meaning changed. It must not be called twice at the
// same time for one Binding.
func (r *Reporter) Sync(ctx context.Context, name string) (worker.Result, error) {
	binding, err := r.config.Index.Binding(name)
	if err != nil {
		return worker.Result{}, err
	}
	p := r.config.Index.Get(name)
	if binding == nil || p == nil {
		r.forget(name)
		return worker.Result{}, nil
	}
	h, now := r.historyOf(name), r.config.Clock.Now()
	if wait := h.at.Add(statusInterval).Sub(now); wait > 0 {
		return worker.Result{After: wait}, nil
	}
	if p.UID != binding.UID {
		return worker.Result{}, nil // the new Binding is gathered first
	}
	progress := r.config.Deliveries.Progress(p)
	if h.at.IsZero() && binding.Status.ObservedGeneration == p.Generation && !progress.Complete() {
		if left := r.started.Add(startUp).Sub(now); left > 0 {
			return worker.Result{After: left}, nil // the status of our predecessor stays until all mailboxes have been read
		}
	}
	old := &binding.Status
	if placement.Newer(h.version, binding.ResourceVersion) {
		old = &h.written // the informer has not seen our last write yet
	}
	status, v := decideStatus(old, r.situationOf(p, &progress, h, now))
	again := worker.Result{After: v.recheck}
	if apiequality.Semantic.DeepEqual(*old, status) {
		h.heldBack = time.Time{}
		return again, nil
	}
	if left := h.holdBack(&v, now); left > 0 {
		return worker.Result{After: left}, nil
	}
	version, err := r.write(ctx, binding, &status)
	if err != nil {
		return worker.Result{}, err
	}
	h.written, h.at, h.version, h.heldBack = status, now, version, time.Time{}
	return again, nil
}

// holdBack returns for how long a status is still held back; zero if it says how things ended.
func (h *history) holdBack(v *verdict, now time.Time) time.Duration {
	switch {
	case !v.underWay():
		h.heldBack = time.Time{}
		return 0
	case h.heldBack.IsZero():
		h.heldBack = now
	}
	return h.heldBack.Add(holdBack).Sub(now)
}

// write writes the status and returns the resourceVersion of the Binding after that.
func (r *Reporter) write(ctx context.Context, binding *controlv1alpha1.Binding, status *controlv1alpha1.BindingStatus) (version string, err error) {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": binding.UID},
		"status": map[string]any{
			"conditions": status.Conditions, "observedGeneration": status.ObservedGeneration, "errors": status.Errors,
			"problems": status.Problems, "problemsCount": status.ProblemsCount, "rollup": status.Rollup,
		},
	})
	if err != nil {
		return "", err
	}
	target := writer.Target{Resource: controlv1alpha1.Bindings, Name: binding.Name, Subresource: "status"}
	answer, err := r.config.WDS.Patch(ctx, target, types.MergePatchType, patch, "status")
	if err != nil {
		return "", err
	}
	return answer.ResourceVersion, nil
}

// situationOf collects the situation of a Binding.
func (r *Reporter) situationOf(p *placement.Placement, progress *delivery.Progress, h *history, now time.Time) situation {
	in := situation{
		generation: p.Generation, deleting: p.Deleting, problems: slices.Clone(p.Problems), mistakes: p.Annotations.Mistakes,
		hold: holdOf(p, progress.Held), now: now,
	}
	for _, mailbox := range slices.Sorted(maps.Keys(progress.Former)) {
		outcome := progress.Former[mailbox]
		in.problems = append(in.problems, prefixed(mailbox, outcome.Errors)...)
		in.leaving = append(in.leaving, prefixed(mailbox, outcome.Leaving)...)
		if outcome.HeldBack > 0 {
			in.heldBack = append(in.heldBack, mailbox)
		}
	}
	for _, leftover := range progress.Leftovers {
		in.left = append(in.left, leftover.String())
	}
	if p.Deleting {
		h.readings = nil
		return in
	}
	in.objects, in.clusters, in.incomplete = p.Desired.Len()+p.Refused, len(progress.Destinations), p.Incomplete
	starting := now.Before(r.started.Add(startUp))
	for i := range progress.Destinations {
		d := &progress.Destinations[i]
		in.tally.add(h.readings.of(d, now, starting, func() destination {
			r.config.Deliveries.Observe(d, p)
			return destination{Destination: *d, wants: p.Desired.Wants, isKnown: p.Desired.Knows, excluded: r.config.Excluded}
		}))
	}
	h.readings.retain(p.Lists, in.clusters)
	return in
}

func (r *Reporter) historyOf(name string) *history {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.history[name] == nil {
		r.history[name] = &history{}
	}
	return r.history[name]
}

func (r *Reporter) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.history, name)
}

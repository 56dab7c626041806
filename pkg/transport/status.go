package transport

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/plan"
)

// statusInterval is the least time between two writes of the status of one Binding: the answers of a fleet come one by one.
const statusInterval = time.Second

// publication is what was last written to the status of a Binding.
type publication struct {
	at      time.Time
	status  controlv1alpha1.BindingStatus
	version string // resourceVersion of the Binding after the write
}

// syncStatus writes the status of a Binding if its meaning changed: at once after quiet, at most once a second under load.
func (c *Controller) syncStatus(ctx context.Context, name string) (result, error) {
	binding, err := c.binding(name)
	if err != nil || binding == nil {
		return result{}, err
	}
	now := c.clock.Now()
	c.mu.Lock()
	last := c.published[name]
	c.mu.Unlock()
	if wait := last.at.Add(statusInterval).Sub(now); wait > 0 {
		return result{after: wait}, nil
	}
	in, ok := c.gatherStatus(binding, now)
	if !ok {
		return result{}, nil
	}
	old := &binding.Status
	if newer(last.version, binding.ResourceVersion) {
		old = &last.status // the informer has not seen our last write yet
	}
	status := decideStatus(old, in, metav1.NewTime(now))
	if apiequality.Semantic.DeepEqual(*old, status) {
		return result{after: in.recheck}, nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": binding.UID},
		"status": map[string]any{
			"conditions": status.Conditions, "observedGeneration": status.ObservedGeneration, "errors": status.Errors,
		},
	})
	if err != nil {
		return result{}, err
	}
	t := target(name)
	t.Subresource = "status"
	answer, err := c.config.WDS.Patch(ctx, t, types.MergePatchType, patch, "status")
	if err != nil {
		return result{}, conflictIsStale(err)
	}
	c.mu.Lock()
	c.published[name] = publication{at: now, status: status, version: answer.ResourceVersion}
	c.mu.Unlock()
	return result{after: in.recheck}, nil
}

// situation is what the status of a Binding is made of.
type situation struct {
	generation int64
	deleting   bool
	left       []string // where works are of a Binding that is being deleted
	objects    int
	problems   []string // of objects, whatever the destination
	sites      []site   // the destinations, sorted by name
	recheck    time.Duration
}

// site is one destination.
type site struct {
	name string
	// problem tells why nothing can be delivered there.
	problem string
	// known tells that a delivery of what the Binding asks for now was tried.
	known bool
	outcome
	works []workReport
}

// workReport is what a destination says of one work.
type workReport struct {
	*plan.Work
	// patient: failures that pass are no errors yet.
	patient bool
}

// gatherStatus looks up the situation of a Binding; ok is false if it is not known yet what the Binding asks for.
func (c *Controller) gatherStatus(binding *controlv1alpha1.Binding, now time.Time) (in situation, ok bool) {
	p := c.placementOf(binding.Name)
	if p == nil || p.uid != binding.UID {
		return situation{}, false
	}
	in = situation{generation: p.generation, deleting: p.deleting, problems: p.problems}
	if p.deleting {
		in.left = c.left(p)
		return in, true
	}
	in.objects = p.desired.Len()
	c.mu.Lock()
	outcomes := maps.Clone(c.outcomes[binding.Name])
	c.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(p.destinations)) {
		s := site{name: name, outcome: outcomes[name]}
		s.known = s.desired == p.desired
		owner, sure := c.owner(name)
		switch {
		case owner != nil:
			for _, work := range owner.store.of(p.uid, name) {
				left, patient := owner.retries.patient(work.UID, now)
				if left > 0 && (in.recheck == 0 || left < in.recheck) {
					in.recheck = left
				}
				s.works = append(s.works, workReport{work, patient})
			}
		case sure:
			s.problem = "is not an accepted cluster of any inventory space"
		}
		in.sites = append(in.sites, s)
	}
	return in, true
}

// decideStatus says what the status of a Binding is. Times of conditions move only when the conditions do.
func decideStatus(old *controlv1alpha1.BindingStatus, in situation, now metav1.Time) controlv1alpha1.BindingStatus {
	status := controlv1alpha1.BindingStatus{
		ObservedGeneration: in.generation,
		Conditions:         slices.Clone(old.Conditions),
	}
	delivered, applied, texts := judge(in)
	for _, condition := range []metav1.Condition{delivered, applied} {
		condition.ObservedGeneration = in.generation
		condition.LastTransitionTime = now
		meta.SetStatusCondition(&status.Conditions, condition)
	}
	status.Errors = bound(texts)
	return status
}

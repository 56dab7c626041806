package binding

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
)

const (
	// troublePrefix begins the errors that are told by those who return status.
	troublePrefix = "status return: "
	// patienceTroubles is how long after a start the troubles that a policy's status tells of are believed: it takes a moment
	// until they are found out again.
	patienceTroubles = 10 * time.Second
)

// troubles are what keeps the status of objects from coming back, by object and by the policies that ask for it. Asking costs what
// the troubles of one policy cost.
type troubles struct {
	mu       sync.Mutex
	byObject map[objref.Ref][]string // the policies that were told
	byPolicy map[string]map[objref.Ref]string
}

func newTroubles() *troubles {
	return &troubles{byObject: map[objref.Ref][]string{}, byPolicy: map[string]map[objref.Ref]string{}}
}

// set notes the trouble with an object, "" for none, for the policies that ask. It returns the policies for which something changed.
func (t *troubles) set(ref objref.Ref, trouble string, asking []string) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	changed := map[string]struct{}{}
	if trouble == "" {
		asking = nil
	}
	for _, policy := range t.byObject[ref] {
		if !slices.Contains(asking, policy) {
			delete(t.byPolicy[policy], ref)
			if len(t.byPolicy[policy]) == 0 {
				delete(t.byPolicy, policy)
			}
			changed[policy] = struct{}{}
		}
	}
	for _, policy := range asking {
		if t.byPolicy[policy] == nil {
			t.byPolicy[policy] = map[objref.Ref]string{}
		}
		if t.byPolicy[policy][ref] != trouble {
			t.byPolicy[policy][ref] = trouble
			changed[policy] = struct{}{}
		}
	}
	if len(asking) == 0 {
		delete(t.byObject, ref)
	} else {
		t.byObject[ref] = asking
	}
	return slices.Sorted(maps.Keys(changed))
}

// of returns what to tell the user of a policy: each text once, sorted.
func (t *troubles) of(policy string) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var texts []string
	for _, text := range t.byPolicy[policy] {
		texts = append(texts, troublePrefix+text)
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

// troublesOf returns the troubles of a policy. Shortly after a start they are, as long as no others are known, those that its
// status tells of; then it tells also when to look again.
func (c *Controller) troublesOf(policy *controlv1alpha1.BindingPolicy) (texts []string, again time.Duration) {
	texts = c.troubles.of(policy.Name)
	left := patienceTroubles - c.config.Clock.Since(c.started)
	if len(texts) > 0 || left <= 0 {
		return texts, 0
	}
	for _, text := range policy.Status.Errors {
		if strings.HasPrefix(text, troublePrefix) {
			texts, again = append(texts, text), left
		}
	}
	return texts, again
}

// SetStatusTrouble says what keeps the status of an object from coming back, "" if nothing does: the policies that ask for it say so.
func (r *Running) SetStatusTrouble(ref objref.Ref, trouble string) {
	for _, policy := range r.controller.troubles.set(ref, trouble, r.Index.Asking(ref)) {
		r.controller.queue.Add(policy)
	}
}

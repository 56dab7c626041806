package binding

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/starlinghq/starling/pkg/core/objref"
)

const (
	// statusErrorPrefix begins the errors that concern returned status.
	statusErrorPrefix = "status return: "
	// settleStatusErrors is how long after a start the stored errors of a policy that asks for
	// status are kept: it takes a moment until what prevents status is found again.
	settleStatusErrors = 30 * time.Second
)

// statusErrors are what keeps the status of objects from coming back, by object and by the policies
// that ask for it. A query costs the errors of one policy.
type statusErrors struct {
	mu       sync.Mutex
	byObject map[objref.Ref][]string // the policies that have its error
	byPolicy map[string]map[objref.Ref]string
}

func newStatusErrors() *statusErrors {
	return &statusErrors{byObject: map[objref.Ref][]string{}, byPolicy: map[string]map[objref.Ref]string{}}
}

// set stores the error of an object, "" for none, for the policies that ask. It returns the
// policies for which something changed.
func (s *statusErrors) set(ref objref.Ref, text string, asking []string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := map[string]struct{}{}
	if text == "" {
		asking = nil
	}
	for _, policy := range s.byObject[ref] {
		if !slices.Contains(asking, policy) {
			delete(s.byPolicy[policy], ref)
			if len(s.byPolicy[policy]) == 0 {
				delete(s.byPolicy, policy)
			}
			changed[policy] = struct{}{}
		}
	}
	for _, policy := range asking {
		if s.byPolicy[policy] == nil {
			s.byPolicy[policy] = map[objref.Ref]string{}
		}
		if s.byPolicy[policy][ref] != text {
			s.byPolicy[policy][ref] = text
			changed[policy] = struct{}{}
		}
	}
	if len(asking) == 0 {
		delete(s.byObject, ref)
	} else {
		s.byObject[ref] = asking
	}
	return slices.Sorted(maps.Keys(changed))
}

// of returns the errors of a policy: each text once, sorted.
func (s *statusErrors) of(policy string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var texts []string
	for _, text := range s.byPolicy[policy] {
		texts = append(texts, statusErrorPrefix+text)
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

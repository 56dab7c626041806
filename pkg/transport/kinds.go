package transport

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"

	"github.com/starlinghq/starling/pkg/core/kptpkg/workload"
)

// Kinds tells how objects of a kind are served: as the WDS serves them. It is safe for concurrent use.
type Kinds struct {
	client discovery.ServerResourcesInterface
	clock  clock.PassiveClock

	mu    sync.Mutex
	asked time.Time
	err   error // nothing could be asked
	known map[schema.GroupKind]workload.Resource
	// failed are the groups that could not be asked, with the reason.
	failed map[string]error
}

// NewKinds returns Kinds that ask the WDS when they are asked.
func NewKinds(client discovery.ServerResourcesInterface, c clock.PassiveClock) *Kinds {
	return &Kinds{client: client, clock: c}
}

const (
	// askAgain is after what time a kind that was not there is asked for again: a CustomResourceDefinition may have come.
	askAgain = 10 * time.Second
	// askAgainSoon is the same for one that could not be asked for.
	askAgainSoon = time.Second
)

// Resource tells how objects of a kind are served; known is false if the WDS does not serve it. It blocks for a request if what is known
// is old.
func (k *Kinds) Resource(_ context.Context, kind schema.GroupVersionKind) (r workload.Resource, known bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r, known = k.known[kind.GroupKind()]; known {
		return r, true, nil
	}
	limit := askAgain
	if k.err != nil || k.failed[kind.Group] != nil {
		limit = askAgainSoon
	}
	if k.asked.IsZero() || k.clock.Since(k.asked) >= limit {
		k.ask()
	}
	if r, known = k.known[kind.GroupKind()]; known {
		return r, true, nil
	}
	if k.err != nil {
		return r, false, k.err
	}
	if err := k.failed[kind.Group]; err != nil {
		return r, false, fmt.Errorf("API group %s: %w", kind.Group, err)
	}
	return r, false, nil
}

// ask asks the WDS for all that it serves. What could not be asked now is known as it was.
func (k *Kinds) ask() {
	_, lists, err := k.client.ServerGroupsAndResources()
	k.asked = k.clock.Now()
	var partial *discovery.ErrGroupDiscoveryFailed
	if err != nil && !errors.As(err, &partial) {
		k.err = fmt.Errorf("ask the WDS what it serves: %w", err)
		return
	}
	before := k.known
	k.err, k.known, k.failed = nil, map[schema.GroupKind]workload.Resource{}, map[string]error{}
	if partial != nil {
		for gv, err := range partial.Groups {
			k.failed[gv.Group] = err
		}
		for kind, resource := range before {
			if k.failed[kind.Group] != nil {
				k.known[kind] = resource
			}
		}
	}
	for _, list := range lists {
		k.note(list)
	}
}

func (k *Kinds) note(list *metav1.APIResourceList) {
	gv, err := schema.ParseGroupVersion(list.GroupVersion)
	if err != nil {
		return
	}
	for i := range list.APIResources {
		r := &list.APIResources[i]
		if strings.Contains(r.Name, "/") {
			continue // a subresource
		}
		k.known[schema.GroupKind{Group: gv.Group, Kind: r.Kind}] = workload.Resource{Name: r.Name, Namespaced: r.Namespaced}
	}
}

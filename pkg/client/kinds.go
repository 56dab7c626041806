package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"

	"github.com/starlinghq/starling/pkg/core/packages/kpt/workload"
)

// Kinds maps kinds to the resources that the WDS serves. It is safe for concurrent use.
type Kinds struct {
	client discovery.ServerResourcesInterface
	clock  clock.PassiveClock

	mu         sync.Mutex
	discovered time.Time
	err        error // why discovery failed altogether
	known      map[schema.GroupKind]workload.Resource
	// failed are the groups whose discovery failed, with the reason.
	failed map[string]error
}

// NewKinds returns Kinds that read the discovery of the WDS when a kind is not known.
func NewKinds(client discovery.ServerResourcesInterface, c clock.PassiveClock) *Kinds {
	return &Kinds{client: client, clock: c}
}

const (
	// unservedFor is how long a kind is known not to be served: a CustomResourceDefinition may have
	// been created since.
	unservedFor = 10 * time.Second
	// failedFor is the same for a kind whose discovery failed.
	failedFor = time.Second
)

// Resource returns how objects of a kind are served; known is false if the WDS does not serve it.
// It blocks for a request if what is known is old.
func (k *Kinds) Resource(_ context.Context, kind schema.GroupVersionKind) (r workload.Resource, known bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r, known = k.known[kind.GroupKind()]; known {
		return r, true, nil
	}
	limit := unservedFor
	if k.err != nil || k.failed[kind.Group] != nil {
		limit = failedFor
	}
	if k.discovered.IsZero() || k.clock.Since(k.discovered) >= limit {
		k.discover()
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

// discover reads all that the WDS serves. The kinds of groups whose discovery fails now stay known
// as before.
func (k *Kinds) discover() {
	_, lists, err := k.client.ServerGroupsAndResources()
	k.discovered = k.clock.Now()
	var partial *discovery.ErrGroupDiscoveryFailed
	if err != nil && !errors.As(err, &partial) {
		k.err = fmt.Errorf("discover what the WDS serves: %w", err)
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
		workload.AddServed(k.known, list)
	}
}

package main

import (
	"context"
	"slices"
	"time"

	"github.com/starlinghq/starling/pkg/runner"
)

// elect replaces the controllers by ones that lead when they hold their Lease.
func (s *stage) elect(ctx context.Context) error {
	if err := create(ctx, s.wds.dynamic.Resource(namespaces), map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": runner.Namespace},
	}); err != nil {
		return err
	}
	for _, c := range s.controllers {
		if err := c.stop(); err != nil {
			return err
		}
	}
	var err error
	if s.controllers, err = s.replicas(ctx, "leads"); err != nil {
		return err
	}
	return s.quiet(ctx)
}

// replicas starts one more of each controller, with leader election.
func (s *stage) replicas(ctx context.Context, role string) ([]*controller, error) {
	flags, names := map[string][]string{}, []string{}
	for _, c := range s.controllers {
		flags[c.program] = []string{"--leader-elect=true"}
		names = append(names, c.program)
	}
	flags["transport-controller"] = append(flags["transport-controller"], s.o.transportFlags...)
	all, err := ownControllers(ctx, s.dir, s.o.wds, s.o.its, flags, names...)
	for _, c := range all {
		c.name += ", " + role
	}
	return all, err
}

// handedOver starts controllers that stand by, and ends those that lead when the others are idle.
// Then it does something, and blocks until the others are idle again. It returns how long after the
// end of those that led the others were ready.
func (s *stage) handedOver(ctx context.Context, meanwhile func() error) (ready time.Duration, err error) {
	done := step("hand over")
	defer done()
	led := slices.Clone(s.controllers)
	standby, err := s.replicas(ctx, "stood by")
	s.controllers = append(s.controllers, standby...)
	if err != nil {
		return 0, err
	}
	if err := s.quiet(ctx); err != nil {
		return 0, err
	}
	began := time.Now()
	s.controllers = standby
	for _, c := range led {
		if err := c.stop(); err != nil {
			return 0, err
		}
	}
	if err := meanwhile(); err != nil {
		return 0, err
	}
	for _, c := range standby {
		if err := c.waitReady(ctx); err != nil {
			return 0, err
		}
	}
	ready = time.Since(began)
	return ready, s.quiet(ctx)
}

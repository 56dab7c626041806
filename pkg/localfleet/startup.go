package localfleet

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"
)

// startup starts everything in parallel. Each step waits only for those that it needs: a cluster
// joins as soon as it and the hub are ready, whether or not the others are.
type startup struct {
	*Fleet

	mu sync.Mutex
	// steps has a channel for each step, by its name, which is closed when the step is done.
	steps map[string]chan struct{}
}

// Names of the steps for which others wait.
func serverStep(space string) string { return "API server of " + space + " is ready" }
func chartStep(space string) string  { return "Starling's APIs in " + space + " are installed" }
func (u *startup) hubStep() string   { return "OCM in " + u.state.hub() + " is ready" }

func (u *startup) done(step string) chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.steps[step] == nil {
		u.steps[step] = make(chan struct{})
	}
	return u.steps[step]
}

// step runs a step when others are done.
func (u *startup) step(ctx context.Context, name string, do func() error, after ...string) error {
	for _, other := range after {
		select {
		case <-u.done(other):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if err := u.out.step(name, do); err != nil {
		return err
	}
	close(u.done(name))
	return nil
}

func (f *Fleet) startAll(ctx context.Context) error {
	u, s := &startup{Fleet: f, steps: map[string]chan struct{}{}}, f.state
	group, ctx := errgroup.WithContext(ctx)
	start := func(name string, do func() error, after ...string) {
		group.Go(func() error { return u.step(ctx, name, do, after...) })
	}
	for _, space := range s.Spaces() {
		group.Go(func() error { return u.startSpace(ctx, space) })
	}
	if s.OCM {
		start(u.hubStep(), func() error { return f.startHub(ctx) }, serverStep(s.hub()))
	}
	var charts []string
	for space, chart := range s.charts() {
		charts = append(charts, chartStep(space))
		start(chartStep(space), func() error { return f.installChart(ctx, space, chart) }, serverStep(space))
	}
	if s.Controllers {
		start("Starling's controllers are ready", func() error { return f.startControllers(ctx) }, append(charts, u.hubStep())...)
	}
	if !s.NoPackages {
		for _, wds := range s.WDS {
			start("package-server of "+wds+" is ready", func() error { return f.startPackages(ctx, wds) }, chartStep(wds))
		}
	}
	for i := range s.WECs {
		group.Go(func() error { return u.startWEC(ctx, &s.WECs[i]) })
	}
	return group.Wait()
}

// charts returns the name of Starling's chart for each space that has one.
func (s *State) charts() map[string]string {
	charts := map[string]string{}
	for _, wds := range s.WDS {
		if s.Controllers || !s.NoPackages {
			charts[wds] = "wds"
		}
	}
	for _, its := range s.ITS {
		if s.Controllers {
			charts[its] = "its"
		}
	}
	return charts
}

// startSpace starts the API server of a space, and then its controllers.
func (u *startup) startSpace(ctx context.Context, space string) error {
	if err := u.step(ctx, serverStep(space), func() error { return u.run(ctx, u.apiServer(space)) }); err != nil {
		return err
	}
	return u.run(ctx, u.controllerManager(space))
}

// startWEC starts what runs for a WEC besides its API server and controllers.
func (u *startup) startWEC(ctx context.Context, wec *WEC) error {
	group, ctx := errgroup.WithContext(ctx)
	if u.state.Nodes {
		group.Go(func() error {
			return u.step(ctx, "node of "+wec.Name+" is ready", func() error { return u.startNodes(ctx, wec.Name) }, serverStep(wec.Name))
		})
	}
	if u.state.OCM {
		group.Go(func() error { return u.joinWEC(ctx, wec) })
	}
	return group.Wait()
}

// joinWEC starts OCM's agent of a WEC and approves it, unless the user does that. Then it waits for
// the status agent.
func (u *startup) joinWEC(ctx context.Context, wec *WEC) error {
	joined := wec.Name + " has joined and is available"
	if wec.Pending {
		joined = wec.Name + " has requested to join"
	}
	err := u.step(ctx, joined, func() error {
		if err := u.startKlusterlet(ctx, wec.Name); err != nil {
			return err
		}
		return u.register(ctx, wec)
	}, serverStep(wec.Name), u.hubStep())
	if err != nil || wec.Pending || !u.state.Controllers {
		return err
	}
	return u.step(ctx, "status agent of "+wec.Name+" is ready", func() error {
		return u.waitReady(ctx, componentName(wec.Name, programStatusAgent))
	})
}

package space

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// startup brings up all spaces side by side. What needs something else waits for just that: a
// cluster joins as soon as it and the hub are ready, whatever the others do.
type startup struct {
	fleet  *Fleet
	client *supervisorClient
	// ready says that the API server of a space is, hub that OCM in the ITS is.
	ready map[string]*milestone
	hub   *milestone
	// charts says that our chart is installed in a space.
	charts map[string]*milestone
}

func (u *startup) run(ctx context.Context) error {
	s := u.fleet.state
	group, ctx := errgroup.WithContext(ctx)
	for _, space := range s.Spaces() {
		group.Go(func() error { return u.fleet.startSpace(ctx, u.client, space, u.ready[space].reach) })
	}
	if s.OCM {
		group.Go(func() error { return u.startHub(ctx) })
	}
	for space, chart := range s.charts() {
		group.Go(func() error { return u.installChart(ctx, space, chart) })
	}
	if s.Controllers {
		group.Go(func() error { return u.startControllers(ctx) })
	}
	if !s.NoPackages {
		for _, wds := range s.WDS {
			group.Go(func() error { return u.startPackages(ctx, wds) })
		}
	}
	for i := range s.WECs {
		group.Go(func() error { return u.startWEC(ctx, &s.WECs[i]) })
	}
	return group.Wait()
}

func (u *startup) startHub(ctx context.Context) error {
	hub := u.fleet.state.hub()
	if err := u.ready[hub].wait(ctx); err != nil {
		return err
	}
	err := u.fleet.out.step("OCM in "+hub, func() error { return u.fleet.startHub(ctx, u.client) })
	if err != nil {
		return err
	}
	u.hub.reach()
	return nil
}

// charts names our chart for each space that has one.
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

// installChart installs our chart as soon as the space is ready.
func (u *startup) installChart(ctx context.Context, space, chart string) error {
	if err := u.ready[space].wait(ctx); err != nil {
		return err
	}
	err := u.fleet.out.step("Starling's APIs in "+space, func() error { return u.fleet.installChart(ctx, space, chart) })
	if err != nil {
		return err
	}
	u.charts[space].reach()
	return nil
}

// startPackages starts the package-server of a WDS as soon as there is what it needs.
func (u *startup) startPackages(ctx context.Context, wds string) error {
	if err := u.charts[wds].wait(ctx); err != nil {
		return err
	}
	return u.fleet.out.step("packages in "+wds, func() error { return u.fleet.startPackages(ctx, u.client, wds) })
}

// startControllers starts our controllers when our charts are installed and the hub is there.
func (u *startup) startControllers(ctx context.Context) error {
	for _, installed := range u.charts {
		if err := installed.wait(ctx); err != nil {
			return err
		}
	}
	if err := u.hub.wait(ctx); err != nil {
		return err
	}
	return u.fleet.out.step("Starling's controllers", func() error { return u.fleet.startControllers(ctx, u.client) })
}

func (u *startup) startWEC(ctx context.Context, wec *WEC) error {
	if err := u.ready[wec.Name].wait(ctx); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	if u.fleet.state.Nodes {
		group.Go(func() error {
			return u.fleet.out.step("node of "+wec.Name, func() error { return u.fleet.startNodes(ctx, u.client, wec.Name) })
		})
	}
	if u.fleet.state.OCM {
		group.Go(func() error {
			if err := u.hub.wait(ctx); err != nil {
				return err
			}
			return u.fleet.joinWEC(ctx, u.client, wec)
		})
	}
	return group.Wait()
}

// startSpace starts the API server of a space and, when it is ready, its controllers.
func (f *Fleet) startSpace(ctx context.Context, client *supervisorClient, space string, ready func()) error {
	server, err := f.apiServer(space)
	if err != nil {
		return err
	}
	if err := f.out.step("API server of "+space, func() error { return f.run(ctx, client, &server) }); err != nil {
		return err
	}
	ready()
	controllers, err := f.controllerManager(space)
	if err != nil {
		return err
	}
	return f.run(ctx, client, &controllers)
}

// joinWEC starts OCM's agent of a WEC and, unless that is left to the user, lets it join. Then our
// own agent follows.
func (f *Fleet) joinWEC(ctx context.Context, client *supervisorClient, wec *WEC) error {
	if wec.Pending {
		return f.out.step(wec.Name+" asks to join", func() error {
			if err := f.startKlusterlet(ctx, client, wec.Name); err != nil {
				return err
			}
			return f.waitRegistered(ctx, wec)
		})
	}
	err := f.out.step(wec.Name+" has joined and is available", func() error {
		if err := f.startKlusterlet(ctx, client, wec.Name); err != nil {
			return err
		}
		if err := f.approve(ctx, wec); err != nil {
			return err
		}
		return f.waitAvailable(ctx, wec.Name)
	})
	if err != nil || !f.state.Controllers {
		return err
	}
	return f.out.step("status agent of "+wec.Name, func() error { return f.waitStatusAgent(ctx, client, wec.Name) })
}

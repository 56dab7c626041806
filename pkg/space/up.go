package space

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strings"
)

// UpOptions say what a fleet shall consist of. A nil field leaves what the fleet has, or takes the
// default for a new fleet.
type UpOptions struct {
	// WECs makes sure that cluster1 to cluster<N> exist; others stay. Default 2.
	WECs *int
	// Controllers runs Starling's own controllers. Default true.
	Controllers *bool
	// Packages runs a package-server for each WDS. Default true.
	Packages *bool
	// Nodes gives each WEC a fake node and a scheduler. Default false.
	Nodes *bool
	// OCM runs OCM in the ITS and joins the WECs. Default true.
	OCM *bool
	// Spaces names the ITSes and WDSes of a new fleet. Default its1 and wds1.
	Spaces []string
	// Ephemeral lets a new fleet lose its data when the machine crashes, which makes it faster.
	Ephemeral bool
	// Large lets the processes of a new fleet take the memory that they want.
	Large bool
	// DieWith is a pipe whose other end, when closed, ends the fleet; for tests.
	DieWith *os.File
	// MinDisk is the free room on the disk that is asked for, in bytes; the default where 0.
	MinDisk uint64
}

// UpReport says what `up` did.
type UpReport struct {
	// WasRunning says that there was nothing to do.
	WasRunning bool `json:"wasRunning"`
	// Seconds is the time until everything was ready.
	Seconds float64 `json:"seconds"`
	Steps   []Step  `json:"steps,omitempty"`
	Memory  Memory  `json:"memory"`
}

// Up brings the fleet up, and adds to a running fleet what the options ask for and it has not.
func (f *Fleet) Up(ctx context.Context, opts *UpOptions) (*UpReport, error) {
	unlock, err := f.lockCommands()
	if err != nil {
		return nil, f.explain(err)
	}
	defer unlock()
	defer f.removeUnused()
	old, err := f.prepare(opts)
	if err != nil {
		return nil, f.explain(err)
	}
	client, err := f.connect(ctx)
	down := errors.Is(err, errDown)
	if err != nil && !down {
		return nil, err
	}
	if !down && reflect.DeepEqual(old, f.state) {
		running, err := f.complete(ctx, client)
		if err != nil {
			return nil, err
		}
		if running {
			f.out.say("The fleet in %s is running.", f.layout.Dir)
			return f.report(ctx, client, true)
		}
	}
	if err := f.checkPrograms(); err != nil {
		return nil, err
	}
	if down {
		if err := f.beforeLaunch(ctx, opts); err != nil {
			return nil, err
		}
	}
	if err := f.ensureFiles(); err != nil {
		return nil, f.explain(err)
	}
	if err := f.state.save(f.layout); err != nil {
		return nil, f.explain(err)
	}
	if down {
		if client, err = f.launchSupervisor(ctx, opts.DieWith); err != nil {
			return nil, err
		}
	}
	if err := f.start(ctx, client); err != nil {
		if down {
			// Nothing that has not come up stays behind; the logs do.
			_ = f.stopSupervisor(context.WithoutCancel(ctx), client)
		}
		return nil, f.explain(err)
	}
	return f.report(ctx, client, false)
}

// removeUnused removes the directory where nothing has come of it.
func (f *Fleet) removeUnused() {
	if _, err := os.Stat(f.layout.FleetFile()); errors.Is(err, fs.ErrNotExist) {
		_ = os.Remove(f.layout.CommandLock())
		_ = os.Remove(f.layout.Dir) // only if it is empty
	}
}

// prepare loads the state, or makes that of a new fleet, and applies the options. It returns the
// state as it was.
func (f *Fleet) prepare(opts *UpOptions) (old *State, err error) {
	f.state, err = loadState(f.layout)
	fresh := errors.Is(err, errNoFleet)
	if fresh {
		f.state = &State{
			Layout: LayoutVersion, Version: f.cfg.Version,
			ITS: []string{"its1"}, WDS: []string{"wds1"},
			OCM: true, Controllers: true, Ephemeral: opts.Ephemeral, Large: opts.Large,
		}
		err = f.state.apply(opts, 2)
	}
	if err != nil {
		return nil, err
	}
	if fresh {
		return nil, nil //nolint:nilnil // no state before
	}
	old = f.state.clone()
	return old, f.state.apply(opts, 0)
}

// apply changes the state as the options ask.
func (s *State) apply(opts *UpOptions, defaultWECs int) error {
	if opts.Controllers != nil {
		s.Controllers = *opts.Controllers
	}
	if opts.Packages != nil {
		s.NoPackages = !*opts.Packages
	}
	if opts.Nodes != nil {
		s.Nodes = *opts.Nodes
	}
	if opts.OCM != nil {
		s.OCM = *opts.OCM
	}
	if len(opts.Spaces) > 0 {
		s.ITS, s.WDS = nil, nil
		for _, name := range opts.Spaces {
			switch {
			case slices.Contains(s.Spaces(), name):
				return fmt.Errorf("space %q is named twice", name)
			case strings.HasPrefix(name, "its"):
				s.ITS = append(s.ITS, name)
			case strings.HasPrefix(name, "wds"):
				s.WDS = append(s.WDS, name)
			default:
				return fmt.Errorf("space %q: the name of a space begins with its or wds", name)
			}
		}
	}
	wecs := defaultWECs
	if opts.WECs != nil {
		wecs = *opts.WECs
	}
	const most = 100
	if wecs < 0 || wecs > most {
		return fmt.Errorf("%d WECs: a number from 0 to %d is asked for", wecs, most)
	}
	for i := range wecs {
		name := fmt.Sprintf("cluster%d", i+1)
		if s.WEC(name) == nil {
			s.WECs = append(s.WECs, WEC{Name: name})
		}
	}
	if len(s.ITS) == 0 {
		s.OCM = false
	}
	if s.Controllers && (!s.OCM || len(s.WDS) == 0) {
		s.Controllers = false
	}
	return nil
}

// beforeLaunch makes sure that a fleet that is down can come up.
func (f *Fleet) beforeLaunch(ctx context.Context, opts *UpOptions) error {
	need := opts.MinDisk
	if need == 0 {
		need = minDisk
	}
	if err := checkDisk(f.layout.Dir, need); err != nil {
		return err
	}
	if err := f.endLeftovers(ctx); err != nil {
		return err
	}
	return f.state.checkPorts()
}

// start brings everything up that does not run yet. Spaces come up side by side; a WEC joins as
// soon as it and the hub are ready.
func (f *Fleet) start(ctx context.Context, client *supervisorClient) error {
	etcd, err := f.etcd()
	if err != nil {
		return err
	}
	if err := f.out.step("etcd", func() error { return f.run(ctx, client, &etcd) }); err != nil {
		return err
	}
	u := &startup{fleet: f, client: client, ready: map[string]*milestone{}, hub: newMilestone(), charts: map[string]*milestone{}}
	for space := range f.state.charts() {
		u.charts[space] = newMilestone()
	}
	for _, space := range f.state.Spaces() {
		u.ready[space] = newMilestone()
	}
	if err := u.run(ctx); err != nil {
		return err
	}
	return f.prune(ctx, client)
}

// run starts a component and waits until it is ready.
func (f *Fleet) run(ctx context.Context, client *supervisorClient, c *Component) error {
	if err := client.ensure(ctx, c); err != nil {
		return err
	}
	return f.waitReady(ctx, client, c.Name)
}

// wanted names all components that the state asks for, by their space.
func (f *Fleet) wanted() []string {
	s := f.state
	names := []string{programEtcd}
	add := func(space string, programs ...string) {
		for _, p := range programs {
			names = append(names, componentName(space, p))
		}
	}
	for _, space := range s.Spaces() {
		add(space, programAPIServer, programControllerManager)
	}
	if s.OCM {
		add(s.hub(), programWebhook, programRegistration, programAddonManager)
	}
	for _, w := range s.WECs {
		if s.OCM {
			add(w.Name, programKlusterlet)
		}
		if s.Nodes {
			add(w.Name, programScheduler, programKwok)
		}
		if s.Controllers {
			add(w.Name, programStatusAgent)
		}
	}
	if !s.NoPackages {
		for _, wds := range s.WDS {
			add(wds, programPackages)
		}
	}
	if s.Controllers {
		for _, wds := range s.WDS {
			add(wds, controllerPrograms...)
		}
		for _, its := range s.ITS {
			add(its, programStatusAgent)
		}
	}
	return names
}

// prune stops what the state does not ask for any more.
func (f *Fleet) prune(ctx context.Context, client *supervisorClient) error {
	all, err := client.status(ctx)
	if err != nil {
		return err
	}
	wanted := f.wanted()
	for _, s := range all {
		if slices.Contains(wanted, s.Component.Name) {
			continue
		}
		if s.Component.Program() == programPackages {
			if err := f.unregisterPackages(ctx, s.Component.Space()); err != nil {
				return err
			}
		}
		if err := client.remove(ctx, s.Component.Name); err != nil {
			return err
		}
	}
	return nil
}

// complete says whether all that the state asks for runs and is ready.
func (f *Fleet) complete(ctx context.Context, client *supervisorClient) (bool, error) {
	all, err := client.status(ctx)
	if err != nil {
		return false, err
	}
	var up []string
	for _, s := range all {
		if s.State == StateReady {
			up = append(up, s.Component.Name)
		}
	}
	for _, name := range f.wanted() {
		w := f.state.WEC(spaceOf(name))
		if w != nil && w.Pending && programOf(name) == programStatusAgent {
			continue // comes when the user has accepted the cluster
		}
		if !slices.Contains(up, name) {
			return false, nil
		}
	}
	return !slices.ContainsFunc(f.wecStatus(ctx), func(w WECStatus) bool { return f.state.OCM && !w.Pending && !w.Available }), nil
}

func (f *Fleet) report(ctx context.Context, client *supervisorClient, was bool) (*UpReport, error) {
	all, err := client.status(ctx)
	if err != nil {
		return nil, err
	}
	return &UpReport{
		WasRunning: was,
		Seconds:    seconds(f.out.elapsed()),
		Steps:      f.out.steps,
		Memory:     memoryOf(client.info.PID, all),
	}, nil
}

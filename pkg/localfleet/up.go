package localfleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
)

// UpOptions are the desired changes of a fleet. A nil field changes nothing. For a new fleet it
// means the default.
type UpOptions struct {
	// WECs creates cluster1 to cluster<N>, if they do not exist. It removes no cluster. Default 2.
	WECs *int
	// Controllers runs Starling's controllers. Default true.
	Controllers *bool
	// Packages runs a package-server for each WDS. Default true.
	Packages *bool
	// Nodes gives each WEC a fake node and a scheduler. Default false.
	Nodes *bool
	// OCM runs OCM in the ITS and joins the WECs. Default true.
	OCM *bool
	// Spaces are the names of the ITSes and WDSes of a new fleet. Default its1 and wds1.
	Spaces []string
	// Ephemeral makes a new fleet faster. It may lose its data when the machine crashes.
	Ephemeral bool
	// Large does not limit the memory of the processes of a new fleet.
	Large bool
	// Audit makes the API servers of a new fleet write audit logs.
	Audit bool
	// CallServers: the WDSes of a new fleet call the webhooks and API servers that users register.
	CallServers bool
	// DieWith is one end of a pipe. The fleet stops when the other end is closed. For tests.
	DieWith *os.File
	// MinDisk is the free disk space that is required, in bytes. 0 means the default.
	MinDisk uint64
}

// UpReport is the result of Up.
type UpReport struct {
	// WasRunning is true if the fleet ran already and nothing was changed.
	WasRunning bool `json:"wasRunning"`
	// Seconds is the time until everything was ready.
	Seconds float64 `json:"seconds"`
	Steps   []Step  `json:"steps,omitempty"`
	Memory  Memory  `json:"memory"`
}

// Up starts the fleet, or adds what the options request to a running fleet. It blocks until
// everything is ready.
func (f *Fleet) Up(ctx context.Context, opts *UpOptions) (*UpReport, error) {
	unlock, err := f.lockCommands()
	if err != nil {
		return nil, f.explain(err)
	}
	defer unlock()
	defer f.removeUnused()
	if err := f.prepare(opts); err != nil {
		return nil, f.explain(err)
	}
	err = f.connect(ctx)
	down := errors.Is(err, errDown)
	if err != nil && !down {
		return nil, err
	}
	if !down {
		unchanged, err := f.unchanged(ctx)
		if err != nil {
			return nil, err
		}
		if unchanged {
			f.out.printf("The fleet in %s is running.", f.layout.Dir)
			return f.report(ctx, true)
		}
	}
	if err := f.checkPrograms(f.desiredComponents()); err != nil {
		return nil, err
	}
	if down {
		if err := f.beforeLaunch(ctx, opts); err != nil {
			return nil, err
		}
	}
	if err := f.ensureFiles(ctx); err != nil {
		return nil, f.explain(err)
	}
	if down {
		if err := f.launchSupervisor(ctx, opts.DieWith); err != nil {
			return nil, err
		}
	}
	if err := f.start(ctx); err != nil {
		if down {
			// A fleet that did not start leaves no processes, only its logs.
			_ = f.stopSupervisor(context.WithoutCancel(ctx))
		}
		return nil, f.explain(err)
	}
	return f.report(ctx, false)
}

// removeUnused removes the directory of the fleet if no fleet was created in it.
func (f *Fleet) removeUnused() {
	if !hasFleet(f.layout) {
		_ = os.Remove(f.layout.CommandLock())
		_ = os.Remove(f.layout.Dir) // only if it is empty
	}
}

// prepare loads the state, or creates that of a new fleet, and applies the options.
func (f *Fleet) prepare(opts *UpOptions) error {
	err := f.restore()
	if errors.Is(err, errNoFleet) {
		if err := checkEmpty(f.layout); err != nil {
			return err
		}
		f.state = &State{
			Layout: LayoutVersion, Version: f.cfg.Version,
			ITS: []string{"its1"}, WDS: []string{"wds1"},
			OCM: true, Controllers: true, Ephemeral: opts.Ephemeral, Large: opts.Large, Audit: opts.Audit,
			CallServers: opts.CallServers,
		}
		return f.state.apply(opts, 2)
	}
	if err != nil {
		return err
	}
	return f.state.apply(opts, 0)
}

// apply applies the options to the state.
func (s *State) apply(opts *UpOptions, defaultWECs int) error {
	s.Controllers = ptr.Deref(opts.Controllers, s.Controllers)
	s.NoPackages = !ptr.Deref(opts.Packages, !s.NoPackages)
	s.Nodes = ptr.Deref(opts.Nodes, s.Nodes)
	s.OCM = ptr.Deref(opts.OCM, s.OCM)
	if len(opts.Spaces) > 0 {
		s.ITS, s.WDS = nil, nil
		for _, name := range opts.Spaces {
			switch {
			case slices.Contains(s.Spaces(), name):
				return fmt.Errorf("invalid space %q: duplicate name", name)
			case strings.HasPrefix(name, "its"):
				s.ITS = append(s.ITS, name)
			case strings.HasPrefix(name, "wds"):
				s.WDS = append(s.WDS, name)
			default:
				return fmt.Errorf("invalid space %q: the name must start with its or wds", name)
			}
		}
	}
	wecs := ptr.Deref(opts.WECs, defaultWECs)
	const most = 100
	if wecs < 0 || wecs > most {
		return fmt.Errorf("invalid number of clusters %d: must be between 0 and %d", wecs, most)
	}
	for i := range wecs {
		name := fmt.Sprintf("cluster%d", i+1)
		if s.WEC(name) == nil {
			s.WECs = append(s.WECs, WEC{Name: name})
		}
	}
	s.OCM = s.OCM && len(s.ITS) > 0
	s.Controllers = s.Controllers && s.OCM && len(s.WDS) > 0
	return nil
}

// orphanTimeout is much longer than the kernel needs to end the processes of a killed supervisor.
const orphanTimeout = 3 * time.Second

// beforeLaunch returns an error if a fleet that does not run cannot start. It kills orphaned
// processes.
func (f *Fleet) beforeLaunch(ctx context.Context, opts *UpOptions) error {
	need := opts.MinDisk
	if need == 0 {
		need = minDisk
	}
	if err := checkDisk(f.layout.Dir, need); err != nil {
		return err
	}
	if err := f.killOrphans(ctx); err != nil {
		return err
	}
	// The kernel ends the processes of a supervisor that has just been killed. That takes a moment.
	var inUse error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, orphanTimeout, true, func(context.Context) (bool, error) {
		inUse = f.state.checkPorts()
		return inUse == nil, nil
	})
	if ctx.Err() != nil {
		return err
	}
	return inUse
}

// start starts all components that do not run, and stops those that the state does not include. It
// blocks until all are ready.
func (f *Fleet) start(ctx context.Context) error {
	if err := f.out.step("etcd is ready", func() error { return f.run(ctx, f.etcd()) }); err != nil {
		return err
	}
	if len(f.state.Removing) > 0 {
		if err := f.finishRemovals(ctx); err != nil {
			return err
		}
		if err := f.ensureFiles(ctx); err != nil { // the options may have added one of the same name again
			return err
		}
	}
	if err := f.startAll(ctx); err != nil {
		return err
	}
	return f.prune(ctx)
}

// desiredComponents returns the names of all components that the state includes.
func (f *Fleet) desiredComponents() []string {
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

// prune stops the components that the state does not include.
func (f *Fleet) prune(ctx context.Context) error {
	all, err := f.supervisor.status(ctx)
	if err != nil {
		return err
	}
	desired := f.desiredComponents()
	for _, s := range all {
		if slices.Contains(desired, s.Component.Name) {
			continue
		}
		if s.Component.Program() == programPackages {
			if err := f.unregisterPackages(ctx, s.Component.Space()); err != nil {
				return err
			}
		}
		if err := f.supervisor.remove(ctx, s.Component.Name); err != nil {
			return err
		}
	}
	return nil
}

// unchanged reports whether the state is the saved one, all components that it includes are ready,
// and all WECs available. It restores files that were lost.
func (f *Fleet) unchanged(ctx context.Context) (bool, error) {
	saved, _, err := loadState(f.layout)
	if err != nil || len(f.state.Removing) > 0 || !reflect.DeepEqual(saved, f.state) {
		return false, nil //nolint:nilerr // prepare has read it, unless it is not saved yet
	}
	if err := f.ensureFiles(ctx); err != nil {
		return false, f.explain(err)
	}
	all, err := f.supervisor.status(ctx)
	if err != nil {
		return false, err
	}
	var ready []string
	for _, s := range all {
		if s.State == StateReady {
			ready = append(ready, s.Component.Name)
		}
	}
	for _, name := range f.desiredComponents() {
		w := f.state.WEC(spaceOf(name))
		if w != nil && w.Pending && programOf(name) == programStatusAgent {
			continue // it starts when the user has accepted the cluster
		}
		if !slices.Contains(ready, name) {
			return false, nil
		}
	}
	return !slices.ContainsFunc(f.wecStatus(ctx), func(w WECStatus) bool { return f.state.OCM && !w.Pending && !w.Available }), nil
}

func (f *Fleet) report(ctx context.Context, wasRunning bool) (*UpReport, error) {
	all, err := f.supervisor.status(ctx)
	if err != nil {
		return nil, err
	}
	report := &UpReport{WasRunning: wasRunning, Seconds: seconds(f.clock.Since(f.out.began)), Steps: f.out.steps}
	report.Memory.add(processMemory(f.supervisor.info.PID))
	for _, s := range all {
		report.Memory.add(processMemory(s.PID))
	}
	return report, nil
}

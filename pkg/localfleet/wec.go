package localfleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// errNeedsRunning means that a command requires a running fleet.
var errNeedsRunning = errors.New("the fleet is not running. Run \"starling up\" first")

// lockRunning takes the lock of commands and connects to the supervisor. It returns an error if the
// fleet does not run.
func (f *Fleet) lockRunning(ctx context.Context) (unlock func(), err error) {
	if _, err := f.Load(); err != nil { // before the lock, which creates the directory
		return nil, err
	}
	unlock, err = f.lockCommands()
	if err != nil {
		return nil, err
	}
	if err = f.restore(); err == nil {
		err = f.connect(ctx)
	}
	if errors.Is(err, errDown) {
		err = errNeedsRunning
	}
	if err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// AddWEC adds a cluster to a running fleet. It blocks until the cluster has joined or, if it is
// pending, until it has requested to join.
func (f *Fleet) AddWEC(ctx context.Context, wec *WEC) error {
	unlock, err := f.lockRunning(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := f.state.checkNewWEC(wec); err != nil {
		return err
	}
	if err := f.finishRemovals(ctx); err != nil {
		return err
	}
	f.state.WECs = append(f.state.WECs, *wec)
	if f.state.Nodes {
		// The status agent is started by the supervisor, whose BinDir may be another one.
		if err := f.checkPrograms([]string{programKwok}); err != nil {
			return err
		}
	}
	if err := f.ensureFiles(ctx); err != nil {
		return f.explain(err)
	}
	u := &startup{Fleet: f, steps: map[string]chan struct{}{}}
	if f.state.OCM {
		close(u.done(u.hubStep()))
	}
	if err := u.startSpace(ctx, wec.Name); err != nil {
		return err
	}
	if err := u.startWEC(ctx, wec); err != nil {
		return err
	}
	if wec.Pending && f.state.OCM {
		f.out.printf("Cluster %s has requested to join. To accept it, run:\n  %s\n  %s",
			wec.Name, f.layout.ExportKubeconfig(), f.acceptCommand(wec.Name))
	}
	return nil
}

func (s *State) checkNewWEC(wec *WEC) error {
	if problems := validation.IsDNS1123Label(wec.Name); len(problems) > 0 {
		return fmt.Errorf("invalid cluster name %q: %s", wec.Name, problems[0])
	}
	if slices.Contains(s.Spaces(), wec.Name) {
		return fmt.Errorf("invalid cluster name %q: the fleet already has a space of this name", wec.Name)
	}
	for key, value := range wec.Labels {
		if problems := slices.Concat(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)); len(problems) > 0 {
			return fmt.Errorf("invalid label %q: %s", key+"="+value, problems[0])
		}
	}
	return nil
}

// RemoveWEC removes a cluster from a running fleet: OCM deletes the delivered objects from it, then
// its processes end and its data is deleted.
func (f *Fleet) RemoveWEC(ctx context.Context, name string) error {
	unlock, err := f.lockRunning(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if slices.Contains(f.state.Removing, name) {
		return f.finishRemovals(ctx)
	}
	if f.state.WEC(name) == nil {
		return fmt.Errorf("cluster %q not found in this fleet", name)
	}
	if f.state.OCM {
		if err := f.out.step(name+" has left the hub", func() error { return f.detach(ctx, name) }); err != nil {
			return err
		}
	}
	// The state is saved first: if a later step fails, no command starts a WEC with a part of its
	// data, or a new one of that name with the data of the old one.
	f.state.Removing = append(f.state.Removing, name)
	f.state.WECs = slices.DeleteFunc(f.state.WECs, func(w WEC) bool { return w.Name == name })
	for port := range f.state.Ports {
		if spaceOf(port) == name {
			delete(f.state.Ports, port)
		}
	}
	if err := f.state.save(f.layout); err != nil {
		return f.explain(err)
	}
	return f.finishRemovals(ctx)
}

// finishRemovals stops the processes of WECs that are being removed, and deletes their data. All
// its steps can be repeated.
func (f *Fleet) finishRemovals(ctx context.Context) error {
	for len(f.state.Removing) > 0 {
		name := f.state.Removing[0]
		if err := f.out.step(name+" is removed", func() error { return f.deleteWEC(ctx, name) }); err != nil {
			return err
		}
		f.state.Removing = f.state.Removing[1:]
		if err := f.state.save(f.layout); err != nil {
			return f.explain(err)
		}
	}
	return nil
}

// deleteWEC stops the processes of a WEC and deletes its data.
func (f *Fleet) deleteWEC(ctx context.Context, name string) error {
	all, err := f.supervisor.status(ctx)
	if err != nil {
		return err
	}
	slices.SortStableFunc(all, func(a, b RunStatus) int { return int(a.Component.Stage - b.Component.Stage) })
	for i := range all {
		if all[i].Component.Space() == name {
			if err := f.supervisor.remove(ctx, all[i].Component.Name); err != nil {
				return err
			}
		}
	}
	if err := f.clearEtcd(ctx, name); err != nil {
		return err
	}
	if err := os.RemoveAll(f.layout.Space(name)); err != nil {
		return err
	}
	return f.writeUserKubeconfig()
}

// clearEtcd deletes the data of a space in etcd.
func (f *Fleet) clearEtcd(ctx context.Context, space string) error {
	p := f.pki("")
	cmd := exec.CommandContext(ctx, f.cfg.Executable, "etcd-clear", "--dir", f.layout.Dir, "--space", space, "--",
		"--endpoint", f.state.address(programEtcd), "--ca", p.crt("ca"), "--cert", p.crt("probe"), "--key", p.key("probe"),
		"--prefix", "/"+space+"/")
	cmd.Env = f.baseEnv(100, "250MiB")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("delete the data of space %q: %w: %s", space, err, strings.TrimSpace(string(out)))
	}
	return nil
}

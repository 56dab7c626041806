package space

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

// errNeedsRunning says that a command needs a running fleet.
var errNeedsRunning = errors.New("the fleet is down: run `starling up` first")

// change prepares a command that changes a running fleet.
func (f *Fleet) change(ctx context.Context) (client *supervisorClient, unlock func(), err error) {
	if _, err := f.Load(); err != nil { // before the lock, which would make the directory
		return nil, nil, err
	}
	unlock, err = f.lockCommands()
	if err != nil {
		return nil, nil, err
	}
	if _, err = f.Load(); err == nil {
		client, err = f.connect(ctx)
	}
	if errors.Is(err, errDown) {
		err = errNeedsRunning
	}
	if err != nil {
		unlock()
		return nil, nil, err
	}
	return client, unlock, nil
}

// AddWEC adds a cluster to a running fleet and joins it. A pending one is left for the user to
// approve.
func (f *Fleet) AddWEC(ctx context.Context, wec *WEC) error {
	client, unlock, err := f.change(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := f.state.checkNewWEC(wec); err != nil {
		return err
	}
	f.state.WECs = append(f.state.WECs, *wec)
	if err := f.ensureFiles(); err != nil {
		return f.explain(err)
	}
	if err := f.state.save(f.layout); err != nil {
		return f.explain(err)
	}
	u := &startup{fleet: f, client: client, ready: map[string]*milestone{wec.Name: newMilestone()}, hub: newMilestone()}
	u.hub.reach()
	if err := f.startSpace(ctx, client, wec.Name, u.ready[wec.Name].reach); err != nil {
		return err
	}
	if err := u.startWEC(ctx, wec); err != nil {
		return err
	}
	if wec.Pending && f.state.OCM {
		f.out.say("Cluster %s asks to join and waits for two approvals. With KUBECONFIG=%s:\n  %s",
			wec.Name, f.layout.Kubeconfig(), strings.Join(f.approvalCommands(wec.Name), "\n  "))
	}
	return nil
}

func (s *State) checkNewWEC(wec *WEC) error {
	if problems := validation.IsDNS1123Label(wec.Name); len(problems) > 0 {
		return fmt.Errorf("name %q: %s", wec.Name, problems[0])
	}
	if slices.Contains(s.Spaces(), wec.Name) {
		return fmt.Errorf("the fleet has a space %s already", wec.Name)
	}
	for key, value := range wec.Labels {
		if problems := slices.Concat(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)); len(problems) > 0 {
			return fmt.Errorf("label %s=%s: %s", key, value, problems[0])
		}
	}
	return nil
}

// RemoveWEC takes a cluster out of a running fleet: OCM removes from it what was delivered, then it
// ends and its data are deleted.
func (f *Fleet) RemoveWEC(ctx context.Context, name string) error {
	client, unlock, err := f.change(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if f.state.WEC(name) == nil {
		return fmt.Errorf("the fleet has no cluster %s", name)
	}
	if f.state.OCM {
		if err := f.out.step(name+" has left the hub", func() error { return f.forget(ctx, name) }); err != nil {
			return err
		}
	}
	return f.out.step(name+" is removed", func() error { return f.dropSpace(ctx, client, name) })
}

// dropSpace ends the processes of a WEC and deletes its data. The state is saved before anything
// that could fail halfway, so that the WEC does not come back half.
func (f *Fleet) dropSpace(ctx context.Context, client *supervisorClient, name string) error {
	f.state.WECs = slices.DeleteFunc(f.state.WECs, func(w WEC) bool { return w.Name == name })
	for port := range f.state.Ports {
		if spaceOf(port) == name {
			delete(f.state.Ports, port)
		}
	}
	if err := f.state.save(f.layout); err != nil {
		return f.explain(err)
	}
	all, err := client.status(ctx)
	if err != nil {
		return err
	}
	slices.SortStableFunc(all, func(a, b RunStatus) int { return int(a.Component.Stage - b.Component.Stage) })
	for i := range all {
		if all[i].Component.Space() == name {
			if err := client.remove(ctx, all[i].Component.Name); err != nil {
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
	return f.writeKubeconfig()
}

// clearEtcd deletes the data of a space in etcd.
func (f *Fleet) clearEtcd(ctx context.Context, space string) error {
	address, err := f.state.address(programEtcd)
	if err != nil {
		return err
	}
	p := pkiDir{dir: f.layout.EtcdPKI()}
	cmd := exec.CommandContext(ctx, f.cfg.Executable, "etcd-clear", "--dir", f.layout.Dir, "--space", space, "--",
		"--endpoint", address, "--ca", p.crt("ca"), "--cert", p.crt("client-"+space), "--key", p.key("client-"+space),
		"--prefix", "/"+space+"/")
	cmd.Env = f.baseEnv(100, "250MiB")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("delete the data of %s: %w: %s", space, err, strings.TrimSpace(string(out)))
	}
	return nil
}

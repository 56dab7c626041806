package space

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
)

// Our own programs.
const (
	programBinding     = "binding-controller"
	programTransport   = "transport-controller"
	programStatusAgent = "status-agent"
)

// statusManagerAccount is the identity of `status-agent manager`.
const statusManagerAccount = "status-agent-manager"

// controllerPrograms run once for each WDS.
var controllerPrograms = []string{programBinding, programTransport}

// checkPrograms makes sure that all programs that the fleet needs beside this one are there.
func (f *Fleet) checkPrograms() error {
	var needed []string
	if f.state.Controllers {
		needed = append(slices.Clone(controllerPrograms), programStatusAgent)
	}
	if !f.state.NoPackages && len(f.state.WDS) > 0 {
		needed = append(needed, programPackages)
	}
	if f.state.Nodes && len(f.state.WECs) > 0 {
		needed = append(needed, programKwok)
	}
	for _, name := range needed {
		if _, err := f.program(name); err != nil {
			return err
		}
	}
	return nil
}

// startControllers starts our own controllers, which have identities of their own in the spaces
// that they serve.
func (f *Fleet) startControllers(ctx context.Context, client *supervisorClient) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, wds := range f.state.WDS {
		for _, program := range controllerPrograms {
			group.Go(func() error {
				own := account{releaseNamespace, program}
				if err := f.writeTokenKubeconfig(ctx, wds, program, own); err != nil {
					return err
				}
				for _, its := range f.state.ITS {
					token, err := f.requestToken(ctx, its, own, componentToken)
					if err != nil {
						return err
					}
					if err := f.writeForeignKubeconfig(wds, its, foreignName(program, its), credentials{token: token}); err != nil {
						return err
					}
				}
				c, err := f.controller(wds, program)
				if err != nil {
					return err
				}
				return f.run(ctx, client, &c)
			})
		}
	}
	for _, its := range f.state.ITS {
		group.Go(func() error {
			own := account{releaseNamespace, statusManagerAccount}
			if err := f.writeTokenKubeconfig(ctx, its, programStatusAgent, own); err != nil {
				return err
			}
			c, err := f.statusManager(its)
			if err != nil {
				return err
			}
			return f.run(ctx, client, &c)
		})
	}
	return group.Wait()
}

// foreignName is the name of the kubeconfig with which a component of one space reaches another.
func foreignName(program, space string) string { return program + "-" + space }

// controller describes binding-controller or transport-controller of a WDS.
func (f *Fleet) controller(wds, program string) (Component, error) {
	args := []string{
		"--wds-kubeconfig=" + f.layout.ComponentKubeconfig(wds, program),
		"--wds-name=" + wds,
	}
	for _, its := range f.state.ITS {
		args = append(args, "--its="+its+"="+f.layout.ComponentKubeconfig(wds, foreignName(program, its)))
	}
	if program == programBinding {
		// All of this machine is that of the one user of the fleet.
		args = append(args, "--file-repositories=/")
	}
	return f.own(wds, program, args...)
}

// statusManager describes the status add-on's manager in an ITS.
func (f *Fleet) statusManager(its string) (Component, error) {
	return f.own(its, programStatusAgent, "manager",
		"--its-kubeconfig="+f.layout.ComponentKubeconfig(its, programStatusAgent))
}

// own describes one of our own programs.
func (f *Fleet) own(space, program string, args ...string) (Component, error) {
	binary, err := f.program(program)
	if err != nil {
		return Component{}, err
	}
	name := componentName(space, program)
	address, err := f.state.address(name)
	if err != nil {
		return Component{}, err
	}
	return Component{
		Name: name, Path: binary, Address: address,
		Args:  append(args, "--health-address="+address, "--leader-elect=false"),
		Env:   f.baseEnv(100, "400MiB"),
		Probe: Probe{URL: fmt.Sprintf("http://%s/readyz", address)},
	}, nil
}

package localfleet

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/starlinghq/starling/pkg/install/chart"
	"github.com/starlinghq/starling/pkg/install/manifest"
)

// statusManagerAccount is the identity of `status-agent manager`.
var statusManagerAccount = manifest.Account{Namespace: chart.Namespace, Name: "status-agent-manager"}

// controllerPrograms are the programs that run once for each WDS.
var controllerPrograms = []string{programBinding, programTransport}

// startControllers starts Starling's controllers and blocks until they are ready. Each has its own
// identity in the spaces that it connects to.
func (f *Fleet) startControllers(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, wds := range f.state.WDS {
		for _, program := range controllerPrograms {
			group.Go(func() error {
				identity := manifest.Account{Namespace: chart.Namespace, Name: program}
				for _, its := range f.state.ITS {
					token, err := f.requestToken(ctx, its, identity, componentToken)
					if err != nil {
						return err
					}
					if err := f.writeKubeconfig(wds, its, foreignName(program, its), &clientcmdapi.AuthInfo{Token: token}); err != nil {
						return err
					}
				}
				return f.runAs(ctx, identity, f.wdsController(wds, program))
			})
		}
	}
	for _, its := range f.state.ITS {
		group.Go(func() error {
			return f.runAs(ctx, statusManagerAccount, f.controller(its, programStatusAgent, "manager",
				"--its-kubeconfig="+f.layout.ComponentKubeconfig(its, programStatusAgent)))
		})
	}
	return group.Wait()
}

// foreignName returns the name of the kubeconfig with which a program connects to a space other
// than its own.
func foreignName(program, space string) string { return program + "-" + space }

// wdsController returns the component that runs the binding-controller or the transport-controller
// of a WDS.
func (f *Fleet) wdsController(wds, program string) *Component {
	args := []string{
		"--wds-kubeconfig=" + f.layout.ComponentKubeconfig(wds, program),
		"--wds-name=" + wds,
	}
	for _, its := range f.state.ITS {
		args = append(args, "--its="+its+"="+f.layout.ComponentKubeconfig(wds, foreignName(program, its)))
	}
	if program == programBinding {
		// The fleet has one user, who may read all files that this process may read.
		args = append(args, "--file-repositories=/")
	}
	return f.controller(wds, program, args...)
}

// controller returns the component that runs one of Starling's controllers.
func (f *Fleet) controller(space, program string, args ...string) *Component {
	return f.component(space, program, slices.Concat(args, []string{
		"--health-address=" + f.state.address(componentName(space, program)), "--leader-elect=false",
	})...)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/starlinghq/starling/pkg/runner"
	"github.com/starlinghq/starling/pkg/spaces"
	"github.com/starlinghq/starling/pkg/statusagent/manager"
)

type managerOptions struct {
	runner  *runner.Options
	its     spaces.Options
	install string
	image   string
	exclude []string
}

func newManagerCommand() *cobra.Command {
	o := managerOptions{
		runner:  runner.NewOptions(),
		its:     spaces.Options{QPS: 50, Burst: 100},
		install: string(manager.InstallAll),
	}
	command := runner.NewCommand("manager", "Install the agent in the clusters of an ITS and give it its rights", o.runner,
		func() error { return o.its.Validate("its") }, o.run)
	command.Aliases = []string{"controller"} // its name in KubeStellar's status add-on
	flags := command.Flags()
	o.runner.AddFlags(flags)
	o.its.AddFlags(flags, "its", "the ITS")
	addAliases(flags, "its-kubeconfig")
	flags.StringVar(&o.install, "install-strategy", o.install,
		fmt.Sprintf("%s: in every cluster that the hub has accepted; %s: where a ManagedClusterAddOn is created.",
			manager.InstallAll, manager.InstallManual))
	flags.StringVar(&o.image, "agent-image", o.image,
		"Image of the agent that is deployed in the clusters. Empty: only the rights of the agent are installed, and the agent must be run in another way.")
	flags.StringSliceVar(&o.exclude, "exclude-kinds", o.exclude,
		"Kinds that the agents do not report, each as Kind or Kind.group. Empty: the agents' default.")
	return command
}

func (o *managerOptions) run(ctx context.Context) error {
	its, err := o.its.Load()
	if err != nil {
		return err
	}
	m, err := manager.New(manager.Config{
		ITS: its, Install: manager.InstallStrategy(o.install), AgentImage: o.image, ExcludeKinds: o.exclude,
	})
	if err != nil {
		return err
	}
	var started atomic.Bool
	return runner.Run(ctx, o.runner, runner.Program{
		Name:       manager.Name,
		LeaseSpace: its,
		Ready: func() error {
			if !started.Load() {
				return errors.New("waiting for the ITS")
			}
			return m.Ready()
		},
		Run: runner.WhenLeading(func(ctx context.Context) error {
			if err := spaces.WaitForResources(ctx, &spaces.Space{Name: "its", Config: its}, manager.Resources...); err != nil {
				return err
			}
			started.Store(true)
			return m.Run(ctx)
		}),
	})
}

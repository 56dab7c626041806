package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/clock"

	"github.com/starlinghq/starling/pkg/core/pace"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/runner"
	"github.com/starlinghq/starling/pkg/spaces"
	"github.com/starlinghq/starling/pkg/statusagent/agent"
)

type agentOptions struct {
	runner  *runner.Options
	cluster string
	hub     spaces.Options
	wec     spaces.Options
	exclude []string
	workers int
	// hubCA is a file with certificate authorities for the connection to the hub.
	hubCA string
	// reportQPS and reportBurst limit the reports of all objects together.
	reportQPS   float32
	reportBurst int
}

func newAgentCommand() *cobra.Command {
	o := agentOptions{
		runner:  runner.NewOptions(),
		hub:     spaces.Options{QPS: 100, Burst: 200},
		wec:     spaces.Options{QPS: 50, Burst: 100},
		exclude: corestatus.DefaultExcludeKinds(),
		workers: 8,
		// An ITS on two cores stores about 500 reports a second (docs/performance.md): as many as
		// 25 agents write whose objects change all the time. The burst is for what happens once,
		// such as a placement.
		reportQPS:   20,
		reportBurst: 1000,
	}
	o.runner.LeaderElect = false
	command := runner.NewCommand("agent", "Report the state of what was delivered to one cluster", o.runner, o.validate, o.run)
	flags := command.Flags()
	o.runner.AddFlags(flags)
	flags.StringVar(&o.cluster, "cluster-name", o.cluster, "Name of the cluster on the hub. Required.")
	o.hub.AddFlags(flags, "hub", "the hub")
	flags.StringVar(&o.hubCA, "hub-ca-bundle", o.hubCA,
		"File with certificate authorities for the connection to the hub, besides those of the kubeconfig: those of a proxy, as PEM.")
	o.wec.AddFlags(flags, "wec", "the cluster that is reported on")
	addAliases(flags, "wec-kubeconfig")
	runner.Alias(flags, "local-qps", "wec-qps")
	runner.Alias(flags, "local-burst", "wec-burst")
	flags.StringSliceVar(&o.exclude, "exclude-kinds", o.exclude, "Kinds that are not reported, each as Kind or Kind.group.")
	flags.IntVar(&o.workers, "workers", o.workers, "Number of objects that are reported at the same time.")
	flags.Float32Var(&o.reportQPS, "report-qps", o.reportQPS, "Maximum number of reports per second, of all objects together.")
	flags.IntVar(&o.reportBurst, "report-burst", o.reportBurst, "Maximum burst of reports above the rate.")
	return command
}

// addAliases adds the names that flags have in KubeStellar's status add-on. Its --kubeconfig is for
// the space in which the command runs.
func addAliases(flags *pflag.FlagSet, kubeconfig string) {
	runner.Alias(flags, "kubeconfig", kubeconfig)
	runner.Alias(flags, "metrics-bind-addr", "metrics-bind-address")
	runner.Alias(flags, "pprof-bind-addr", "pprof-bind-address")
}

func (o *agentOptions) validate() error {
	if o.cluster == "" {
		return errors.New("--cluster-name is required")
	}
	if o.hub.Kubeconfig == "" {
		return errors.New("--hub-kubeconfig is required")
	}
	if o.runner.LeaderElect {
		return errors.New("--leader-elect is not supported: each cluster has one agent")
	}
	if o.workers < 1 {
		return errors.New("--workers must be at least 1")
	}
	if o.reportQPS <= 0 {
		return fmt.Errorf("invalid --report-qps %v: must be greater than 0", o.reportQPS)
	}
	if o.reportBurst < 1 {
		return errors.New("--report-burst must be at least 1")
	}
	for prefix, space := range map[string]*spaces.Options{"hub": &o.hub, "wec": &o.wec} {
		if err := space.Validate(prefix); err != nil {
			return err
		}
	}
	return nil
}

// trust adds the certificate authorities of a file to those with which a connection is verified. An
// HTTPS proxy is verified with the same authorities as the server behind it.
func trust(config *rest.Config, file string) error {
	more, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read --hub-ca-bundle: %w", err)
	}
	if _, err := cert.ParseCertsPEM(more); err != nil {
		return fmt.Errorf("read --hub-ca-bundle %q: %w", file, err)
	}
	have := config.CAData
	if len(have) == 0 && config.CAFile != "" {
		if have, err = os.ReadFile(config.CAFile); err != nil {
			return fmt.Errorf("read the certificate authorities of the hub: %w", err)
		}
	}
	config.CAFile, config.CAData = "", slices.Concat(have, []byte("\n"), more)
	return nil
}

func (o *agentOptions) run(ctx context.Context) error {
	excluded, err := corestatus.ParseExcluded(o.exclude)
	if err != nil {
		return err
	}
	hub, err := o.hub.Load()
	if err != nil {
		return err
	}
	if o.hubCA != "" {
		if err := trust(hub, o.hubCA); err != nil {
			return err
		}
	}
	wec, err := o.wec.Load()
	if err != nil {
		return err
	}
	var started atomic.Pointer[agent.Agent]
	return runner.Run(ctx, o.runner, runner.Program{
		Name: agent.Name,
		Ready: func() error {
			a := started.Load()
			if a == nil {
				return errors.New("waiting for the hub and the cluster")
			}
			return a.Ready()
		},
		Run: func(ctx context.Context, _ <-chan struct{}) error {
			// The agent may not read the identity of the hub, and does not need it: the name
			// identifies its mailbox.
			if err := spaces.WaitForResources(ctx, &spaces.Space{Name: "wec", Config: wec}, agent.WECResources...); err != nil {
				return err
			}
			if err := spaces.WaitForResources(ctx, &spaces.Space{Name: "hub", Config: hub}, agent.HubResources...); err != nil {
				return err
			}
			a, err := agent.New(agent.Config{
				Cluster: o.cluster, Hub: hub, WEC: wec, Excluded: excluded,
				Reports: pace.PerSecond(float64(o.reportQPS), o.reportBurst), Clock: clock.RealClock{},
			})
			if err != nil {
				return err
			}
			started.Store(a)
			return a.Run(ctx, o.workers)
		},
	})
}

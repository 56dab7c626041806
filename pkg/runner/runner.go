// Package runner runs a controller program: it handles signals, leader election, health, metrics
// and profiles. No other package except main uses what belongs to the process: signals, the
// environment, exit codes.
package runner

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // requests, their latency and work queues as metrics
	"k8s.io/klog/v2"

	"github.com/starlinghq/starling/pkg/logging"
	"github.com/starlinghq/starling/pkg/version"
)

// Namespace holds the leases, and the ServiceAccounts, of Starling's controllers in every space.
const Namespace = "starling-system"

// Options are the flags that all programs of Starling have.
type Options struct {
	// HealthAddress is the host:port at which /healthz, /readyz and /metrics are served. If empty,
	// they are not.
	HealthAddress string
	// Pprof serves /debug/pprof at HealthAddress too.
	Pprof bool
	// LeaderElect makes only one of several replicas act.
	LeaderElect bool

	// metricsAddress, probeAddress and profileAddress serve /metrics, /healthz with /readyz, and
	// /debug/pprof at further addresses, if they are not empty. KubeStellar's programs have flags
	// for each.
	metricsAddress, probeAddress, profileAddress string

	logging *logsapi.LoggingConfiguration
}

// NewOptions returns the default options.
func NewOptions() *Options {
	return &Options{LeaderElect: true, logging: logsapi.NewLoggingConfiguration()}
}

// AddFlags adds the flags of o to a flag set.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.HealthAddress, "health-address", o.HealthAddress,
		"Serve /healthz, /readyz and /metrics at this host:port. If empty, they are not served.")
	flags.BoolVar(&o.Pprof, "pprof", o.Pprof, "Serve /debug/pprof at --health-address too.")
	flags.BoolVar(&o.LeaderElect, "leader-elect", o.LeaderElect,
		"Elect a leader among the replicas. Only the leader acts. The Lease is in namespace "+Namespace+".")
	flags.StringVar(&o.metricsAddress, "metrics-bind-address", o.metricsAddress, "Serve /metrics at this host:port.")
	flags.StringVar(&o.probeAddress, "health-probe-bind-address", o.probeAddress, "Serve /healthz and /readyz at this host:port.")
	flags.StringVar(&o.profileAddress, "pprof-bind-address", o.profileAddress, "Serve /debug/pprof at this host:port.")
	for _, name := range []string{"metrics-bind-address", "health-probe-bind-address", "pprof-bind-address"} {
		flags.Lookup(name).Hidden = true
	}
	logsapi.AddFlags(o.logging, flags)
}

// Alias adds a second name for a flag, which help does not list. Whichever is given last counts.
func Alias(flags *pflag.FlagSet, alias, name string) {
	flag := *flags.Lookup(name)
	flag.Name, flag.Shorthand, flag.Hidden = alias, "", true
	flags.AddFlag(&flag)
}

// Program is a program that Run runs.
type Program struct {
	// Name is the name of the program, and of its Lease.
	Name string
	// LeaseSuffix is appended to the name of the Lease, after "-", if several programs of this Name
	// use one space.
	LeaseSuffix string
	// LeaseSpace connects to the space that has the Lease. It is required with Options.LeaderElect.
	LeaseSpace *rest.Config
	// Ready returns nil if the program is ready, and otherwise the reason. It must not block. It is
	// not called while another replica leads: then the program counts as ready.
	Ready func() error
	// Run does the work until the context ends. It is called once, when this replica becomes the
	// leader.
	Run func(ctx context.Context) error
}

// Run serves health, waits until this replica is the leader, and runs the program until the context
// ends or something fails. A lost Lease is an error: the process must end, because another replica
// may act from then on.
func Run(ctx context.Context, o *Options, p Program) error {
	logger := klog.FromContext(ctx).WithName(p.Name)
	ctx = klog.NewContext(ctx, logger)
	logger.Info("Starting", "version", version.Get())
	defer logger.Info("Ended")

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	var leading atomic.Bool
	listeners, err := o.listen(ctx)
	if err != nil {
		return err
	}
	for _, l := range listeners {
		server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: l.handler(func() error {
			if !leading.Load() && o.LeaderElect {
				return nil
			}
			return p.Ready()
		})}
		group.Go(func() error {
			if err := server.Serve(l.listener); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serve at %s %q: %w", l.flag, l.address, err)
			}
			return nil
		})
		group.Go(func() error {
			<-ctx.Done()
			return server.Close()
		})
	}
	group.Go(func() error {
		defer cancel() // the health server must not outlive the work
		if !o.LeaderElect {
			leading.Store(true)
			return p.Run(ctx)
		}
		return lead(ctx, p, &leading)
	})
	return group.Wait()
}

// Lead calls p.Run when this replica becomes the leader. When the Lease is lost, it waits to become
// the leader again. It returns when the context ends or p.Run returns. It is for a task that one
// replica does for all, while every replica serves requests.
func Lead(ctx context.Context, p Program) error {
	for {
		var leading atomic.Bool
		err := lead(ctx, p, &leading)
		if ctx.Err() != nil || !errors.Is(err, errLeaseLost) {
			return err
		}
		klog.FromContext(ctx).Info("Lost the Lease; will wait for it", "lease", p.Name, logging.Reason, err.Error())
	}
}

var errLeaseLost = errors.New("lost the Lease")

func lead(ctx context.Context, p Program, leading *atomic.Bool) error {
	client, err := kubernetes.NewForConfig(p.LeaseSpace)
	if err != nil {
		return fmt.Errorf("build client for Leases: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("get the name of this host: %w", err)
	}
	name := p.Name
	if p.LeaseSuffix != "" {
		name += "-" + p.LeaseSuffix
	}
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, Namespace, name, client.CoreV1(), client.CoordinationV1(),
		// It must be unique: a process with the identity of the holder may continue to use its
		// Lease.
		resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())})
	if err != nil {
		return fmt.Errorf("build Lease: %w", err)
	}
	elected := make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock,
		Name:            name,
		LeaseDuration:   15 * time.Second,
		RenewDeadline:   10 * time.Second,
		RetryPeriod:     2 * time.Second,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(elected) },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("build leader election: %w", err)
	}

	// The Lease is held until p.Run has returned, not only until ctx ends: no other replica may
	// start while this one still writes.
	leaseCtx, release := context.WithCancel(context.WithoutCancel(ctx))
	lost := make(chan struct{})
	go func() {
		defer close(lost)
		elector.Run(leaseCtx)
	}()
	defer func() {
		release()
		<-lost
	}()
	select {
	case <-ctx.Done():
		return nil
	case <-elected:
	}
	leading.Store(true)
	workCtx, stopWork := context.WithCancel(ctx)
	defer stopWork()
	go func() {
		select {
		case <-lost:
			stopWork()
		case <-workCtx.Done():
		}
	}()
	err = p.Run(workCtx)
	if err == nil && workCtx.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("%w %s/%s", errLeaseLost, Namespace, name)
	}
	return err
}

// Main runs the command of a program until it returns or the process receives SIGINT or SIGTERM,
// and returns the exit code. A second signal ends the process at once.
func Main(command *cobra.Command) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	command.SilenceUsage = true
	command.SilenceErrors = true
	command.Version = version.Get()
	if err := command.ExecuteContext(ctx); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", command.CommandPath(), err)
		return 1
	}
	return 0
}

// NewCommand returns the command of a program without arguments: it validates the flags, applies
// the logging flags of o, and calls run. The caller adds the flags.
func NewCommand(use, short string, o *Options, validate func() error, run func(context.Context) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := validate(); err != nil {
				return err
			}
			if err := logsapi.ValidateAndApply(o.logging, nil); err != nil {
				return err
			}
			return run(command.Context())
		},
	}
}

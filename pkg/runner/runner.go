// Package runner runs a controller program: signals, leader election, health, metrics and profiles. It is the only package
// beside the mains that touches the process.
package runner

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
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
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // requests, their latency and work queues as metrics
	"k8s.io/klog/v2"

	"github.com/starlinghq/starling/pkg/logging"
	"github.com/starlinghq/starling/pkg/version"
)

// Namespace holds the leases, and the ServiceAccounts, of Starling's controllers in every space.
const Namespace = "starling-system"

// Options are the flags that all our programs have.
type Options struct {
	// HealthAddress is where /healthz, /readyz and /metrics are served, as host:port; empty for nowhere.
	HealthAddress string
	// Pprof also serves /debug/pprof at the health address.
	Pprof bool
	// LeaderElect lets one of several replicas act.
	LeaderElect bool

	logging *logsapi.LoggingConfiguration
}

// NewOptions returns the defaults.
func NewOptions() *Options {
	return &Options{LeaderElect: true, logging: logsapi.NewLoggingConfiguration()}
}

// AddFlags adds the flags of o to a flag set.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.HealthAddress, "health-address", o.HealthAddress,
		"Serve /healthz, /readyz and /metrics at this host:port. Empty: do not.")
	flags.BoolVar(&o.Pprof, "pprof", o.Pprof, "Serve /debug/pprof at the health address as well.")
	flags.BoolVar(&o.LeaderElect, "leader-elect", o.LeaderElect,
		"Let one replica act and the others stand by. The lease is in namespace "+Namespace+".")
	logsapi.AddFlags(o.logging, flags)
}

// Program is what Run runs.
type Program struct {
	// Name is the name of the program, and with LeaseSuffix of its lease.
	Name string
	// LeaseSuffix tells programs apart that would share a space's lease otherwise; may be empty.
	LeaseSuffix string
	// LeaseSpace leads to the space that holds the lease. Needed only with Options.LeaderElect.
	LeaseSpace *rest.Config
	// Ready tells why the program is not ready, nil when it is. It must not block. While another replica leads, the program
	// counts as ready without being asked.
	Ready func() error
	// Run does the work until the context ends. It is called once, when this replica leads.
	Run func(ctx context.Context) error
}

// Run serves health, waits to lead, and runs the program until the context ends or something fails. A lost lease is an
// error: the process must end, since it cannot know what the next leader does.
func Run(ctx context.Context, o *Options, p Program) error {
	logger := klog.FromContext(ctx).WithName(p.Name)
	ctx = klog.NewContext(ctx, logger)
	logger.Info("Starting", "version", version.Get())
	defer logger.Info("Ended")

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	var leading atomic.Bool
	if o.HealthAddress != "" {
		server, listener, err := healthServer(ctx, o, func() error {
			if !leading.Load() && o.LeaderElect {
				return nil
			}
			return p.Ready()
		})
		if err != nil {
			return err
		}
		group.Go(func() error {
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serve health: %w", err)
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

// Lead runs p.Run whenever this replica has the lease, and waits for it again when it was lost, until the context ends or p.Run does.
// It is for a part of a program that one replica does for all, while each serves.
func Lead(ctx context.Context, p Program) error {
	for {
		var leading atomic.Bool
		err := lead(ctx, p, &leading)
		if ctx.Err() != nil || !errors.Is(err, errLeaseLost) {
			return err
		}
		klog.FromContext(ctx).Info("Lost the lease", "lease", p.Name, logging.Reason, err.Error())
	}
}

var errLeaseLost = errors.New("lost the lease")

func lead(ctx context.Context, p Program, leading *atomic.Bool) error {
	client, err := kubernetes.NewForConfig(p.LeaseSpace)
	if err != nil {
		return fmt.Errorf("build client for the lease: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("tell replicas apart: %w", err)
	}
	name := p.Name
	if p.LeaseSuffix != "" {
		name += "-" + p.LeaseSuffix
	}
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, Namespace, name, client.CoreV1(), client.CoordinationV1(),
		// Unique, since whoever has the identity of the holder may go on with its lease.
		resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())})
	if err != nil {
		return fmt.Errorf("build lease: %w", err)
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

	// The lease is kept until the work has ended, not until it is told to end: no other replica may start while this one
	// still writes.
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

// healthServer listens at once, so that an address in use fails the program before it does anything.
func healthServer(ctx context.Context, o *Options, ready func() error) (*http.Server, net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.HealthAddress)
	if err != nil {
		return nil, nil, fmt.Errorf("serve health at --health-address %q: %w", o.HealthAddress, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := ready(); err != nil {
			http.Error(w, "not ready: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	mux.Handle("/metrics", legacyregistry.Handler())
	if o.Pprof {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}, listener, nil
}

// Main executes the command of a program until it ends or a signal comes, and returns the exit code. A second signal ends
// the process at once.
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

// SetUpLogging applies the logging flags. Call it once, before anything logs.
func (o *Options) SetUpLogging() error {
	return logsapi.ValidateAndApply(o.logging, nil)
}

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
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
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
	// HealthAddress is the host:port at which /healthz and /readyz are served, and /metrics unless
	// they are served over TLS. If empty, they are not.
	HealthAddress string
	// Pprof serves /debug/pprof where /metrics is served.
	Pprof bool
	// LeaderElect makes only one of several replicas act.
	LeaderElect bool

	// metricsAddress, probeAddress and profileAddress serve /metrics, /healthz with /readyz, and
	// /debug/pprof at further addresses, if they are not empty. KubeStellar's programs have flags
	// for each.
	metricsAddress, probeAddress, profileAddress string
	secure                                       secureOptions

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
	flags.BoolVar(&o.Pprof, "pprof", o.Pprof, "Serve /debug/pprof where /metrics is served.")
	flags.BoolVar(&o.LeaderElect, "leader-elect", o.LeaderElect,
		"Elect a leader among the replicas. Only the leader acts. The Lease is in namespace "+Namespace+".")
	flags.StringVar(&o.metricsAddress, "metrics-bind-address", o.metricsAddress, "Serve /metrics at this host:port.")
	flags.StringVar(&o.probeAddress, "health-probe-bind-address", o.probeAddress, "Serve /healthz and /readyz at this host:port.")
	flags.StringVar(&o.profileAddress, "pprof-bind-address", o.profileAddress, "Serve /debug/pprof at this host:port.")
	for _, name := range []string{"metrics-bind-address", "health-probe-bind-address", "pprof-bind-address"} {
		flags.Lookup(name).Hidden = true
	}
	o.secure.addFlags(flags)
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
	// Name is the name of the program.
	Name string
	// Leases are the names of the Leases that the program must hold to act. None: one Lease with
	// the Name. Programs that have a Lease in common never act at the same time. All programs must
	// name Leases in the same order, so that no two of them wait for each other.
	Leases []string
	// LeaseSpace connects to the space that has the Leases. It is required with
	// Options.LeaderElect.
	LeaseSpace *rest.Config
	// Ready returns nil if the program is ready, and otherwise the reason. It must not block. It is
	// not called while another replica leads: then the program counts as ready. A program that
	// holds some of its Leases and waits for others is not ready.
	Ready func() error
	// Run does the work until the context ends. It is called once, when it is known who leads: if
	// that is this replica, leading is closed before. Until leading is closed, another replica may
	// act: Run may read, so that it knows everything when it becomes the leader, and must not
	// write. A program that need not be warm uses WhenLeading.
	Run func(ctx context.Context, leading <-chan struct{}) error
}

// WhenLeading returns a Program.Run that does nothing before this replica is the leader.
func WhenLeading(run func(ctx context.Context) error) func(ctx context.Context, leading <-chan struct{}) error {
	return func(ctx context.Context, leading <-chan struct{}) error {
		select {
		case <-leading:
			return run(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// Run serves health, and runs the program until the context ends or something fails; it acts when
// this replica is the leader. A lost Lease is an error: the process must end, because another
// replica may act from then on. Further programs run in the same process. Each of them has its own
// Leases: one may act while another waits.
func Run(ctx context.Context, o *Options, p Program, further ...Program) error {
	logger := klog.FromContext(ctx).WithName(p.Name)
	ctx = klog.NewContext(ctx, logger)
	logger.Info("Starting", "version", version.Get())
	defer logger.Info("Ended")

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, 1)
	group, ctx := errgroup.WithContext(context.WithValue(ctx, failedKey{}, failed))
	group.Go(func() error {
		select {
		case err := <-failed:
			return err
		case <-ctx.Done():
			return nil
		}
	})
	candidates := make([]*candidate, 0, 1+len(further))
	for _, p := range append([]Program{p}, further...) {
		candidates = append(candidates, newCandidate(p))
	}
	listeners, err := o.listen(ctx)
	if err != nil {
		return err
	}
	for _, l := range listeners {
		server := &http.Server{ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, Handler: l.handler(func() error {
			var notYet []error
			for _, c := range candidates {
				notYet = append(notYet, c.ready(o.LeaderElect))
			}
			return errors.Join(notYet...)
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
	for _, c := range candidates {
		group.Go(func() error {
			defer cancel() // the health server and the other programs must not outlive the work
			if !o.LeaderElect {
				leading := make(chan struct{})
				close(leading)
				return c.program.Run(ctx, leading)
			}
			return c.lead(ctx)
		})
	}
	return group.Wait()
}

type failedKey struct{}

// Fail ends the program that Run runs with an error. It is for what finds out below everything else
// that the process must not go on. Ctx is one that Run has passed on; with another one, Fail does
// nothing.
func Fail(ctx context.Context, err error) {
	failed, _ := ctx.Value(failedKey{}).(chan error)
	select {
	case failed <- err:
	default: // it fails already, or there is no program
	}
}

// Lead runs p, which acts when this replica becomes the leader. When the Lease is lost, it runs p
// again. It returns when the context ends or p.Run returns. It is for a task that one
// replica does for all, while every replica serves requests.
func Lead(ctx context.Context, p Program) error {
	for {
		err := newCandidate(p).lead(ctx)
		if ctx.Err() != nil || !errors.Is(err, errLeaseLost) {
			return err
		}
		klog.FromContext(ctx).Info("Lost the Lease; will wait for it", "lease", p.Name, logging.Reason, err.Error())
	}
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

package main

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	genericoptions "k8s.io/apiserver/pkg/server/options"

	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/content"
	"github.com/starlinghq/starling/pkg/fnworker"
	"github.com/starlinghq/starling/pkg/runner"
)

type options struct {
	runner  *runner.Options
	wds     clusters.Options
	wdsName string
	serving *genericoptions.SecureServingOptions
	bind    string
	port    int

	gates     bool
	workers   fnworker.Config
	memoryMiB int64

	requestTimeout     time.Duration
	maxRequest         int64
	maxList            int
	maxWork            int64
	inFlight, mutating int
	collectEvery       time.Duration
}

func newOptions() *options {
	const mib = 1 << 20
	o := &options{
		runner:    runner.NewOptions(),
		wds:       clusters.Options{QPS: 1000, Burst: 2000},
		wdsName:   "wds",
		serving:   genericoptions.NewSecureServingOptions(),
		bind:      "0.0.0.0",
		port:      8443,
		gates:     true,
		workers:   fnworker.Config{Workers: 2, Timeout: 10 * time.Second},
		memoryMiB: 512,

		requestTimeout: time.Minute,
		maxRequest:     16 * mib,
		maxList:        64 * mib,
		maxWork:        16 * mib,
		inFlight:       400, mutating: 200,
		collectEvery: content.Grace / 2,
	}
	o.serving.ServerCert.CertDirectory = "" // nothing is written: a certificate is given, or made for this run
	return o
}

func newCommand() *cobra.Command {
	o := newOptions()
	command := &cobra.Command{
		Use:   "package-server",
		Short: "Serve packages: the API porch.kpt.dev/v1alpha1",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			if err := o.runner.SetUpLogging(); err != nil {
				return err
			}
			return run(cmd.Context(), o)
		},
	}
	o.addFlags(command.Flags())
	return command
}

func (o *options) addFlags(flags *pflag.FlagSet) {
	o.runner.AddFlags(flags)
	flags.Lookup("leader-elect").Usage = "Let one replica collect content that nothing names; all serve. The lease is in namespace " + runner.Namespace + "."
	flags.StringVar(&o.wds.Kubeconfig, "wds-kubeconfig", o.wds.Kubeconfig,
		"Kubeconfig file of the WDS, with its current context. Empty: the service account of the pod that this runs in.")
	o.wds.AddLimitFlags(flags, "wds", "the WDS")
	flags.StringVar(&o.wdsName, "wds-name", o.wdsName, "What logs and metrics call the WDS.")

	flags.StringVar(&o.bind, "bind-address", o.bind, "Serve the API at this address.")
	flags.IntVar(&o.port, "secure-port", o.port, "Serve the API at this port.")
	flags.StringVar(&o.serving.ServerCert.CertKey.CertFile, "tls-cert-file", "", "Certificate of the API. Without one, a certificate is made that nobody trusts.")
	flags.StringVar(&o.serving.ServerCert.CertKey.KeyFile, "tls-private-key-file", "", "Key of the certificate.")
	flags.BoolVar(&o.serving.PermitPortSharing, "permit-port-sharing", false, "Let several replicas on one machine share address and port; the kernel divides connections among them.")

	flags.BoolVar(&o.gates, "enforce-gates", o.gates,
		"Refuse to propose and to approve a revision whose readiness gates are not met. Off: as Porch, which leaves that to its command line.")
	flags.IntVar(&o.workers.Workers, "workers", o.workers.Workers, "How many functions of package pipelines run at once.")
	flags.DurationVar(&o.workers.Timeout, "function-timeout", o.workers.Timeout, "How long a function may take before it is killed.")
	flags.Int64Var(&o.memoryMiB, "function-memory", o.memoryMiB, "How much memory a function may hold before it is killed, in MiB.")

	flags.DurationVar(&o.requestTimeout, "request-timeout", o.requestTimeout, "How long a request that is no watch may take.")
	flags.Int64Var(&o.maxRequest, "max-request-bytes", o.maxRequest, "How large the body of a request may be.")
	flags.IntVar(&o.maxList, "max-list-bytes", o.maxList, "How many bytes of files an answer may hold.")
	flags.Int64Var(&o.maxWork, "max-work-bytes", o.maxWork,
		"How many bytes of packages are merged and rendered at once; who waits for a quarter of --request-timeout is told to come again.")
	flags.IntVar(&o.inFlight, "max-requests-inflight", o.inFlight, "How many reading requests are worked on at once.")
	flags.IntVar(&o.mutating, "max-mutating-requests-inflight", o.mutating, "How many writing requests are worked on at once.")
	flags.DurationVar(&o.collectEvery, "collect-every", o.collectEvery, "How often content that nothing names is collected.")
}

func (o *options) validate() error {
	ip := net.ParseIP(o.bind)
	switch {
	case ip == nil:
		return fmt.Errorf("--bind-address must be an IP address, is %q", o.bind)
	case o.port < 1 || o.port > 65535:
		return fmt.Errorf("--secure-port must be from 1 to 65535, is %d", o.port)
	case (o.serving.ServerCert.CertKey.CertFile == "") != (o.serving.ServerCert.CertKey.KeyFile == ""):
		return errors.New("--tls-cert-file and --tls-private-key-file go together")
	case o.workers.Workers < 1:
		return fmt.Errorf("--workers must be at least 1, is %d", o.workers.Workers)
	case o.workers.Timeout <= 0:
		return fmt.Errorf("--function-timeout must be more than 0, is %s", o.workers.Timeout)
	case o.memoryMiB < 32:
		return fmt.Errorf("--function-memory must be at least 32, is %d", o.memoryMiB)
	case o.requestTimeout <= 0:
		return fmt.Errorf("--request-timeout must be more than 0, is %s", o.requestTimeout)
	case o.maxRequest < 1<<16:
		return fmt.Errorf("--max-request-bytes must be at least %d, is %d", 1<<16, o.maxRequest)
	case o.maxList < 1<<20:
		return fmt.Errorf("--max-list-bytes must be at least %d, is %d", 1<<20, o.maxList)
	case o.maxWork < 1<<20:
		return fmt.Errorf("--max-work-bytes must be at least %d, is %d", 1<<20, o.maxWork)
	case o.inFlight < 1 || o.mutating < 1:
		return errors.New("--max-requests-inflight and --max-mutating-requests-inflight must be at least 1")
	case o.collectEvery < time.Second:
		return fmt.Errorf("--collect-every must be at least a second, is %s", o.collectEvery)
	case o.wdsName == "":
		return errors.New("--wds-name must not be empty")
	}
	o.serving.BindAddress, o.serving.BindPort = ip, o.port
	o.workers.Memory = o.memoryMiB << 20
	return o.wds.Validate("wds")
}

package main

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/spf13/pflag"
	genericoptions "k8s.io/apiserver/pkg/server/options"

	"github.com/starlinghq/starling/pkg/packages/content"
	"github.com/starlinghq/starling/pkg/packages/functionhost"
	"github.com/starlinghq/starling/pkg/packages/functionrunner"
	"github.com/starlinghq/starling/pkg/runner"
	"github.com/starlinghq/starling/pkg/spaces"
)

type options struct {
	runner  *runner.Options
	wds     spaces.Options
	wdsName string
	serving *genericoptions.SecureServingOptions
	bind    string
	port    int

	gates bool
	// transactionGates: see store.Config.
	transactionGates bool
	workers          functionrunner.Config
	memoryMiB        int64
	hosts            map[string]string

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
		runner:           runner.NewOptions(),
		wds:              spaces.Options{QPS: 1000, Burst: 2000},
		wdsName:          "wds",
		serving:          genericoptions.NewSecureServingOptions(),
		bind:             "0.0.0.0",
		port:             8443,
		gates:            true,
		transactionGates: true,
		workers:          functionrunner.Config{Workers: 2, Timeout: 10 * time.Second},
		memoryMiB:        512,

		requestTimeout: time.Minute,
		maxRequest:     16 * mib,
		maxList:        64 * mib,
		maxWork:        16 * mib,
		inFlight:       400, mutating: 200,
		collectEvery: content.Grace / 2,
	}
	o.serving.ServerCert.CertDirectory = "" // nothing is written: the certificate is given or generated for this run
	return o
}

func (o *options) addFlags(flags *pflag.FlagSet) {
	o.runner.AddFlags(flags)
	flags.Lookup("leader-elect").Usage = "Elect one replica that deletes unused content. All replicas serve. The lease is in namespace " + runner.Namespace + "."
	flags.StringVar(&o.wds.Kubeconfig, "wds-kubeconfig", o.wds.Kubeconfig,
		"Kubeconfig file of the WDS; its current context is used. Empty: the service account of the pod.")
	o.wds.AddLimitFlags(flags, "wds", "the WDS")
	flags.StringVar(&o.wdsName, "wds-name", o.wdsName, "Name of the WDS in logs and metrics.")

	flags.StringVar(&o.bind, "bind-address", o.bind, "IP address on which to serve the API.")
	flags.IntVar(&o.port, "secure-port", o.port, "Port on which to serve the API.")
	flags.StringVar(&o.serving.ServerCert.CertKey.CertFile, "tls-cert-file", "", "File with the certificate of the API. Empty: a self-signed certificate, which no client trusts.")
	flags.StringVar(&o.serving.ServerCert.CertKey.KeyFile, "tls-private-key-file", "", "File with the private key of the certificate.")
	flags.BoolVar(&o.serving.PermitPortSharing, "permit-port-sharing", false, "Allow several replicas on one machine to share address and port. The kernel distributes the connections.")

	flags.BoolVar(&o.gates, "enforce-gates", o.gates,
		"Refuse to propose or approve a revision whose readiness gates are not met. If false, only clients check gates, as with Porch.")
	flags.BoolVar(&o.transactionGates, "transaction-gates", o.transactionGates,
		"Add the readiness gate PackageTransactionValidated to revisions that have CustomResourceDefinitions or declare dependencies. "+
			"binding-controller --controllers=transactions answers it; set false if it does not run.")
	flags.IntVar(&o.workers.Workers, "workers", o.workers.Workers, "Maximum number of package functions that run at the same time.")
	flags.DurationVar(&o.workers.Timeout, "function-timeout", o.workers.Timeout, "Maximum duration of a function. Longer ones are killed.")
	flags.Int64Var(&o.memoryMiB, "function-memory", o.memoryMiB, "Maximum memory of a function in MiB. Functions that use more are killed.")

	flags.StringToStringVar(&o.hosts, "function-host", nil,
		"Host of a function that is not built in, as IMAGE=URL, with the image as packages name it. May be repeated.")

	flags.DurationVar(&o.requestTimeout, "request-timeout", o.requestTimeout, "Maximum duration of a request, except watches.")
	flags.Int64Var(&o.maxRequest, "max-request-bytes", o.maxRequest, "Maximum size of the body of a request, in bytes.")
	flags.IntVar(&o.maxList, "max-list-bytes", o.maxList, "Maximum size of the files in a response, in bytes.")
	flags.Int64Var(&o.maxWork, "max-work-bytes", o.maxWork,
		"Maximum size of the packages that are merged and rendered at the same time, in bytes. Requests that wait longer than a quarter of --request-timeout fail with status 429.")
	flags.IntVar(&o.inFlight, "max-requests-inflight", o.inFlight, "Maximum number of concurrent read requests.")
	flags.IntVar(&o.mutating, "max-mutating-requests-inflight", o.mutating, "Maximum number of concurrent write requests.")
	flags.DurationVar(&o.collectEvery, "collect-every", o.collectEvery, "Time between two deletions of unused content.")
}

func (o *options) validate() error {
	ip := net.ParseIP(o.bind)
	switch {
	case ip == nil:
		return fmt.Errorf("--bind-address must be an IP address, got %q", o.bind)
	case o.port < 1 || o.port > 65535:
		return fmt.Errorf("--secure-port must be between 1 and 65535, got %d", o.port)
	case (o.serving.ServerCert.CertKey.CertFile == "") != (o.serving.ServerCert.CertKey.KeyFile == ""):
		return errors.New("--tls-cert-file and --tls-private-key-file must be set together")
	case o.workers.Workers < 1:
		return fmt.Errorf("--workers must be at least 1, got %d", o.workers.Workers)
	case o.workers.Timeout <= 0:
		return fmt.Errorf("--function-timeout must be positive, got %s", o.workers.Timeout)
	case o.memoryMiB < 32:
		return fmt.Errorf("--function-memory must be at least 32, got %d", o.memoryMiB)
	case o.requestTimeout <= 0:
		return fmt.Errorf("--request-timeout must be positive, got %s", o.requestTimeout)
	case o.maxRequest < 1<<16:
		return fmt.Errorf("--max-request-bytes must be at least %d, got %d", 1<<16, o.maxRequest)
	case o.maxList < 1<<20:
		return fmt.Errorf("--max-list-bytes must be at least %d, got %d", 1<<20, o.maxList)
	case o.maxWork < 1<<20:
		return fmt.Errorf("--max-work-bytes must be at least %d, got %d", 1<<20, o.maxWork)
	case o.inFlight < 1 || o.mutating < 1:
		return errors.New("--max-requests-inflight and --max-mutating-requests-inflight must be at least 1")
	case o.collectEvery < time.Second:
		return fmt.Errorf("--collect-every must be at least 1s, got %s", o.collectEvery)
	case o.wdsName == "":
		return errors.New("--wds-name must not be empty")
	}
	o.serving.BindAddress, o.serving.BindPort = ip, o.port
	o.workers.Memory = o.memoryMiB << 20
	if len(o.hosts) > 0 {
		var err error
		if o.workers.Hosts, err = functionhost.NewClient(o.hosts, functionhost.MaxBytes); err != nil {
			return fmt.Errorf("--function-host: %w", err)
		}
	}
	return o.wds.Validate("wds")
}

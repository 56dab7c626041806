package main

import (
	"context"
	"crypto/tls"
	"net"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	workv1 "open-cluster-management.io/api/work/v1"
	registrationv1 "open-cluster-management.io/ocm/pkg/registration/webhook/v1"
	registrationv1beta2 "open-cluster-management.io/ocm/pkg/registration/webhook/v1beta2"
	workwebhook "open-cluster-management.io/ocm/pkg/work/webhook"
	workcommon "open-cluster-management.io/ocm/pkg/work/webhook/common"
	workwebhookv1 "open-cluster-management.io/ocm/pkg/work/webhook/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// newWebhookCommand returns the command that serves OCM's admission webhooks. OCM's own command
// listens at a fixed port on all interfaces of the machine, so this one has another server with the
// same webhooks.
func newWebhookCommand() *cobra.Command {
	var kubeconfig, listen, cert, key string
	cmd := &cobra.Command{
		Use:  "ocm-webhook",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			ctx, stop := signalContext(context.Background())
			defer stop()
			return runWebhooks(ctx, kubeconfig, listen, cert, key)
		},
	}
	f := cmd.Flags()
	f.StringVar(&kubeconfig, "kubeconfig", "", "Path of the kubeconfig of the hub.")
	f.StringVar(&listen, "listen", "", "Address to listen at, as host:port.")
	f.StringVar(&cert, "cert", "", "File with the serving certificate.")
	f.StringVar(&key, "key", "", "File with the key of the serving certificate, in the same directory.")
	return cmd
}

func runWebhooks(ctx context.Context, kubeconfig, listen, cert, key string) error {
	ctrl.SetLogger(klog.FromContext(ctx))
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	host, portText, err := net.SplitHostPort(listen)
	if err != nil {
		return err
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	for _, install := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, clusterv1.Install, registrationv1beta2.Install, workv1.Install,
	} {
		if err := install(scheme); err != nil {
			return err
		}
	}
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:                 scheme,
		HealthProbeBindAddress: "0",
		Metrics:                metricsserver.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: host,
			Port: port,
			// The files are read again when they change: certificates are renewed.
			CertDir:  filepath.Dir(cert),
			CertName: filepath.Base(cert),
			KeyName:  filepath.Base(key),
			TLSOpts:  []func(*tls.Config){func(c *tls.Config) { c.MinVersion = tls.VersionTLS12 }},
		}),
	})
	if err != nil {
		return err
	}
	workcommon.ManifestValidator.WithLimit(workwebhook.NewOptions().ManifestLimit)
	for _, w := range []interface{ Init(ctrl.Manager) error }{
		&registrationv1.ManagedClusterWebhook{},
		&registrationv1beta2.ManagedClusterSetBindingWebhook{},
		&workwebhookv1.ManifestWorkWebhook{},
	} {
		if err := w.Init(mgr); err != nil {
			return err
		}
	}
	return mgr.Start(ctx)
}

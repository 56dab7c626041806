package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/starlinghq/starling/pkg/hostedspace/secrets"
)

func newSpaceCertificatesCommand() *cobra.Command {
	var s secrets.Space
	var servers []string
	var kubeconfig string
	cmd := &cobra.Command{
		Use:   "certificates",
		Short: "Create or renew the certificates and the kubeconfigs of a space",
		Long: `Create or renew the certificates and the kubeconfigs of a space. They are Secrets of the hosting cluster.

A certificate is valid for 90 days and renewed when 30 of them are left. Certificate authorities are valid for ten
years, and are never replaced: keep a copy of Secret SPACE-authorities.`,
		Example: `  # The Secrets of ITS "its1", whose API server clusters reach at its1.example.com
  starling space certificates --space its1 --namespace starling-system \
    --host its1.example.com --url https://its1.example.com --server ocm=its1-ocm.starling-system.svc`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			s.Servers = map[string][]string{}
			for _, text := range servers {
				suffix, names, found := strings.Cut(text, "=")
				if !found {
					return usage(fmt.Errorf("--server %q must be SUFFIX=NAME[/NAME...]", text))
				}
				s.Servers[suffix] = append(s.Servers[suffix], strings.Split(names, "/")...)
			}
			ctx, stop := signalContext(c.Context())
			defer stop()
			config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
			if err != nil {
				return fmt.Errorf("connect to the hosting cluster: %w", err)
			}
			hosting, err := kubernetes.NewForConfig(config)
			if err != nil {
				return err
			}
			if err := secrets.WaitForHost(ctx, hosting, time.Minute); err != nil {
				return err
			}
			return secrets.Ensure(ctx, hosting, s, time.Now())
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.Name, "space", "", "Name of the space.")
	f.StringVar(&s.Namespace, "namespace", "", "Namespace of the space in the hosting cluster.")
	f.BoolVar(&s.External, "external", false, "If true, the space is another cluster, and only the certificates of --server are made.")
	f.StringSliceVar(&s.Hosts, "host", nil, "Further name or address of the API server. May be repeated.")
	f.StringVar(&s.URL, "url", "", "URL of the API server outside of the hosting cluster, for a second kubeconfig of the administrator.")
	f.StringVar(&s.URLSecret, "url-secret", "", "Secret with another certificate for the host of --url, which this command does not make. Its key ca.crt "+
		"has the authority. Without that key, clients must trust the certificate anyway.")
	f.StringArrayVar(&servers, "server", nil, "Server that the API server connects to, as SUFFIX=NAME[/NAME...]: Secret SPACE-SUFFIX "+
		"gets a certificate for these names. May be repeated.")
	f.StringVar(&kubeconfig, "kubeconfig", "", "Kubeconfig of the hosting cluster. Not needed in a pod.")
	for _, name := range []string{"space", "namespace"} {
		_ = cmd.MarkFlagRequired(name) // the flag exists
	}
	return cmd
}

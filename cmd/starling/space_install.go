package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/starlinghq/starling/charts"
	"github.com/starlinghq/starling/pkg/hostedspace/installation"
)

func newSpaceInstallCommand() *cobra.Command {
	o := &installation.Options{}
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Install what Starling needs in a space",
		Long: `Install what Starling needs in a space that runs already: its APIs, the identities of Starling's programs and their
rights; in an ITS the hub of Open Cluster Management, unless the space is one; in a WDS the registration of its
package-server.

First it checks that the space responds, that its version is supported, that you may do everything in it, and that it
is not a space of another type or name. If not, it changes nothing. It may run again at any time, but not twice at the
same time. It ends when what it has installed is served. So do not wait for it before you start the package-server and
"starling space credentials".`,
		Example: `  # Install a WDS
  starling space install --kubeconfig wds1.kubeconfig --type wds --name wds1

  # Install an ITS with OCM's hub
  starling space install --kubeconfig its1.kubeconfig --type its --name its1 \
    --webhook-url https://its1-ocm.starling.svc:9443 --webhook-ca ca.crt \
    --server https://its1.example.com:6443 --server-ca ca.crt`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			request, err := o.Request()
			if err != nil {
				return usage(err)
			}
			ctx, stop := signalContext(c.Context())
			defer stop()
			config, err := o.Access.Space(ctx, request.Name, request.Timeout, os.Stderr)
			if err != nil {
				return interrupted(ctx, err)
			}
			i := &installation.Installer{Charts: charts.FS, OCM: ocmManifests(), Out: os.Stderr}
			return interrupted(ctx, i.Install(ctx, config, request))
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

// interrupted replaces the error of a command that a signal has ended.
func interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return errors.New("interrupted: run this command again")
	}
	return err
}

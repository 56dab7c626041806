package main

import (
	"os"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"github.com/starlinghq/starling/pkg/hostedspace/credentials"
)

func newSpaceCredentialsCommand() *cobra.Command {
	o := &credentials.Options{}
	cmd := &cobra.Command{
		Use:   "credentials",
		Short: "Keep the credentials with which controllers connect to a space",
		Long: `Keep the credentials with which controllers connect to a space: for each a Secret in the hosting cluster with the keys
kubeconfig, token and ca.crt. The token is one of the controller's ServiceAccount in the space. Mount the Secret as a
directory: the kubeconfig refers to the other two files. Clients read the token again before it expires.

Run this command more often than a token lives. It renews a token when less than --renew-before is left of its
lifetime, or when the space does not accept it any more. It waits for ServiceAccounts that "starling space install" has
not created yet. It never overwrites a Secret that it has not written, and never prints a token.`,
		Example: `  # Keep the credentials of the transport-controller for a space
  starling space credentials --kubeconfig wds1.kubeconfig --space wds1 \
    --namespace starling --secret-prefix wds1- --credential transport-controller=starling-system/transport-controller`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.Validate(); err != nil {
				return usage(err)
			}
			ctx, stop := signalContext(c.Context())
			defer stop()
			space, err := o.Space(ctx, os.Stderr)
			if err != nil {
				return interrupted(ctx, err)
			}
			host, err := o.Access.Host()
			if err != nil {
				return err
			}
			request, err := o.Request(space)
			if err != nil {
				return usage(err)
			}
			syncer, err := credentials.New(space, host, request, clock.RealClock{}, os.Stderr)
			if err != nil {
				return err
			}
			return interrupted(ctx, syncer.Sync(ctx))
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

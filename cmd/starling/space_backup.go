package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/client/pkg/v3/transport"

	"github.com/starlinghq/starling/cmd/starling/etcdsnapshot"
)

func newSpaceBackupCommand() *cobra.Command {
	var source etcdsnapshot.Source
	var info transport.TLSInfo
	var dir string
	var keep int
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "backup",
		Short: "Write a snapshot of the etcd of a space to a directory",
		Long: `Write a snapshot of the etcd of a space to a directory: SPACE-TIME.db, and SPACE-TIME.json with what is known of it.

The snapshot is read again and checked. Older backups of the space are deleted, except the newest ones. A backup has all
Secrets of the space: anyone who may read the directory may read them.`,
		Example: `  starling space backup --space wds1 --type wds --endpoint https://wds1-etcd.starling.svc:2379 \
    --ca ca.crt --cert client.crt --key client.key --dir /backups`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if keep < 1 {
				return usage(fmt.Errorf("--keep %d must be greater than 0", keep))
			}
			if source.Type != "wds" && source.Type != "its" {
				return usage(fmt.Errorf("--type %q must be wds or its", source.Type))
			}
			var err error
			if source.TLS, err = info.ClientConfig(); err != nil {
				return fmt.Errorf("read the client certificate of etcd: %w", err)
			}
			ctx, stop := signalContext(c.Context())
			defer stop()
			ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not done after %s", timeout))
			defer cancel()
			if _, err := source.Save(ctx, dir, keep, time.Now()); err != nil {
				if cause := context.Cause(ctx); cause != nil {
					err = errors.Join(cause, err)
				}
				return fmt.Errorf("back up space %q: %w", source.Space, err)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&source.Space, "space", "", "Name of the space, with which its keys in etcd begin.")
	f.StringVar(&source.Type, "type", "", "Type of the space: wds or its.")
	f.StringSliceVar(&source.Endpoints, "endpoint", nil, "URL of a member of etcd. May be repeated: the first one that responds is used.")
	f.StringVar(&info.TrustedCAFile, "ca", "", "File with the CA of etcd's certificate.")
	f.StringVar(&info.CertFile, "cert", "", "File with the client certificate.")
	f.StringVar(&info.KeyFile, "key", "", "File with the key of the client certificate.")
	f.StringVar(&dir, "dir", "", "Directory of the backups.")
	f.IntVar(&keep, "keep", 7, "Number of backups of the space to keep.")
	f.DurationVar(&timeout, "timeout", 10*time.Minute, "How long a backup may take.")
	for _, name := range []string{"space", "type", "endpoint", "dir"} {
		_ = cmd.MarkFlagRequired(name) // the flag exists
	}
	return cmd
}

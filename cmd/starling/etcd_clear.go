package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// newEtcdClearCommand returns the command that deletes the keys of one space.
func newEtcdClearCommand() *cobra.Command {
	var endpoint, prefix string
	var info transport.TLSInfo
	cmd := &cobra.Command{
		Use:  "etcd-clear",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			ctx, stop := signalContext(context.Background())
			defer stop()
			const timeout = 30 * time.Second
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			tlsConfig, err := info.ClientConfig()
			if err != nil {
				return err
			}
			client, err := clientv3.New(clientv3.Config{Endpoints: []string{"https://" + endpoint}, TLS: tlsConfig, DialTimeout: timeout})
			if err != nil {
				return fmt.Errorf("connect to etcd: %w", err)
			}
			defer client.Close()
			_, err = client.Delete(ctx, prefix, clientv3.WithPrefix())
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&endpoint, "endpoint", "", "Address of etcd, as host:port.")
	f.StringVar(&prefix, "prefix", "", "Prefix of the keys to delete.")
	f.StringVar(&info.TrustedCAFile, "ca", "", "File with the CA of etcd's certificate.")
	f.StringVar(&info.CertFile, "cert", "", "File with the client certificate.")
	f.StringVar(&info.KeyFile, "key", "", "File with the key of the client certificate.")
	for _, name := range []string{"endpoint", "prefix"} {
		_ = cmd.MarkFlagRequired(name) // the flag exists
	}
	return cmd
}

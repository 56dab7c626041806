package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
)

// etcdFlags are the few settings of etcd that a fleet needs.
type etcdFlags struct {
	dataDir, listen     string
	cert, key, clientCA string
	noFsync             bool
}

func newEtcdCommand() *cobra.Command {
	o := &etcdFlags{}
	cmd := &cobra.Command{
		Use:  "etcd",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			ctx, stop := signalContext(context.Background())
			defer stop()
			return runEtcd(ctx, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.dataDir, "data-dir", "", "Data directory.")
	f.StringVar(&o.listen, "listen", "", "Address to listen at for clients, as host:port.")
	f.StringVar(&o.cert, "cert", "", "File with the serving certificate.")
	f.StringVar(&o.key, "key", "", "File with the key of the serving certificate.")
	f.StringVar(&o.clientCA, "client-ca", "", "File with the CA of client certificates.")
	f.BoolVar(&o.noFsync, "no-fsync", false, "If true, writes do not wait for the disk.")
	return cmd
}

// runEtcd runs a cluster of one member, which listens for clients only.
func runEtcd(ctx context.Context, o *etcdFlags) error {
	cfg := embed.NewConfig()
	cfg.Name = "starling"
	cfg.Dir = o.dataDir
	client := url.URL{Scheme: "https", Host: o.listen}
	cfg.ListenClientUrls = []url.URL{client}
	cfg.AdvertiseClientUrls = []url.URL{client}
	// The peer URL is only a name of the member. Nothing listens there.
	peer := url.URL{Scheme: "http", Host: "127.0.0.1:2380"}
	cfg.ListenPeerUrls = nil
	cfg.AdvertisePeerUrls = []url.URL{peer}
	cfg.InitialCluster = cfg.Name + "=" + peer.String()
	cfg.ClientTLSInfo = transport.TLSInfo{
		CertFile: o.cert, KeyFile: o.key, TrustedCAFile: o.clientCA, ClientCertAuth: true,
	}
	cfg.EnableGRPCGateway = false
	cfg.UnsafeNoFsync = o.noFsync
	cfg.LogLevel = "warn"
	cfg.WarningUnaryRequestDuration = time.Second
	// The API servers compact every five minutes. There are no followers to catch up, so fewer
	// entries are kept for them, which saves memory.
	cfg.SnapshotCatchUpEntries = 100
	cfg.SnapshotCount = 5000

	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return fmt.Errorf("start etcd: %w", err)
	}
	defer e.Close()
	const startTimeout = 2 * time.Minute
	select {
	case <-e.Server.ReadyNotify():
	case <-time.After(startTimeout):
		return fmt.Errorf("etcd is not ready after %s", startTimeout)
	case <-ctx.Done():
		return nil
	}
	select {
	case err := <-e.Err():
		return err
	case <-e.Server.StopNotify():
		return errors.New("etcd stopped")
	case <-ctx.Done():
		return nil
	}
}

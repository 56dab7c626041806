package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/embed"
)

// etcdFlags are the few settings of etcd that spaces need.
type etcdFlags struct {
	name, dataDir       string
	listen, advertise   string
	cert, key, clientCA string
	noFsync             bool
	// mustExist: etcd does not start without data.
	mustExist bool

	// peers is NAME=URL of each member, separated by commas. If it is empty, etcd is the only
	// member and listens for clients only.
	peers, peerListen         string
	peerCert, peerKey, peerCA string
	metricsListen             string
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
	f.StringVar(&o.name, "name", "starling", "Name of this member.")
	f.StringVar(&o.dataDir, "data-dir", "", "Data directory.")
	f.StringVar(&o.listen, "listen", "", "Address to listen at for clients, as host:port.")
	f.StringVar(&o.advertise, "advertise", "", "Address at which clients find this member, as host:port. If empty, it is --listen.")
	f.StringVar(&o.cert, "cert", "", "File with the serving certificate.")
	f.StringVar(&o.key, "key", "", "File with the key of the serving certificate.")
	f.StringVar(&o.clientCA, "client-ca", "", "File with the CA of client certificates.")
	f.BoolVar(&o.noFsync, "no-fsync", false, "If true, writes do not wait for the disk.")
	f.BoolVar(&o.mustExist, "must-exist", false, "If true, etcd does not start if the data directory has no data.")
	f.StringVar(&o.peers, "peers", "", "All members of a new cluster, as NAME=https://HOST:PORT,... If empty, there is only this member.")
	f.StringVar(&o.peerListen, "peer-listen", "", "Address to listen at for other members, as host:port.")
	f.StringVar(&o.peerCert, "peer-cert", "", "File with the certificate for other members.")
	f.StringVar(&o.peerKey, "peer-key", "", "File with the key of the certificate for other members.")
	f.StringVar(&o.peerCA, "peer-ca", "", "File with the CA of the certificates of other members.")
	f.StringVar(&o.metricsListen, "metrics-listen", "", "Address at which to serve /metrics and /readyz without TLS, as host:port. If empty, they are not served.")
	return cmd
}

// config returns the configuration of etcd.
func (o *etcdFlags) config() (*embed.Config, error) {
	cfg := embed.NewConfig()
	cfg.Name = o.name
	cfg.Dir = o.dataDir
	cfg.ListenClientUrls = []url.URL{{Scheme: "https", Host: o.listen}}
	cfg.AdvertiseClientUrls = cfg.ListenClientUrls
	if o.advertise != "" {
		cfg.AdvertiseClientUrls = []url.URL{{Scheme: "https", Host: o.advertise}}
	}
	cfg.ClientTLSInfo = transport.TLSInfo{
		CertFile: o.cert, KeyFile: o.key, TrustedCAFile: o.clientCA, ClientCertAuth: true,
	}
	if err := o.setPeers(cfg); err != nil {
		return nil, err
	}
	if o.metricsListen != "" {
		cfg.ListenMetricsUrls = []url.URL{{Scheme: "http", Host: o.metricsListen}}
	}
	cfg.EnableGRPCGateway = false
	cfg.UnsafeNoFsync = o.noFsync
	cfg.LogLevel = "warn"
	cfg.WarningUnaryRequestDuration = time.Second
	// The API servers compact every five minutes. A follower that is further behind gets a
	// snapshot, so few entries are kept, which saves memory.
	cfg.SnapshotCatchUpEntries = 100
	cfg.SnapshotCount = 5000
	return cfg, nil
}

// members returns the URLs of all members, and those of this one.
func (o *etcdFlags) members() (all types.URLsMap, own types.URLs, err error) {
	if o.peers == "" {
		// The URL is only a name of the member. Nothing listens there.
		own = types.URLs{{Scheme: "http", Host: "127.0.0.1:2380"}}
		return types.URLsMap{o.name: own}, own, nil
	}
	if all, err = types.NewURLsMap(o.peers); err != nil {
		return nil, nil, fmt.Errorf("--peers: %w", err)
	}
	if own = all[o.name]; len(own) == 0 {
		return nil, nil, fmt.Errorf("--peers %q does not have this member, %q", o.peers, o.name)
	}
	return all, own, nil
}

// setPeers sets what concerns other members.
func (o *etcdFlags) setPeers(cfg *embed.Config) error {
	members, own, err := o.members()
	if err != nil {
		return err
	}
	cfg.AdvertisePeerUrls = own
	cfg.InitialCluster = members.String()
	if o.peers == "" {
		cfg.ListenPeerUrls = nil
		return nil
	}
	cfg.ListenPeerUrls = []url.URL{{Scheme: "https", Host: o.peerListen}}
	cfg.PeerTLSInfo = transport.TLSInfo{
		CertFile: o.peerCert, KeyFile: o.peerKey, TrustedCAFile: o.peerCA, ClientCertAuth: true,
		// Members are pods: the address of one resolves to no name of its certificate.
		SkipClientSANVerify: true,
	}
	return nil
}

// runEtcd runs one member until the context ends.
func runEtcd(ctx context.Context, o *etcdFlags) error {
	cfg, err := o.config()
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(o.dataDir, "member")); o.mustExist && err != nil {
		return fmt.Errorf("find the data of etcd, which the space had when it was restored: %w", err)
	}
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
